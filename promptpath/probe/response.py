"""One response: its head, frames, body and end, recorded as they come."""

from __future__ import annotations

from dataclasses import replace

from promptpath.dialect.meter import timing_value
from promptpath.dialect.server_timings import header_timings
from promptpath.model.enums import Layer, Outcome, Stage
from promptpath.model.names import (
    HTTP_ALT_SVC,
    HTTP_END,
    HTTP_FRAMING,
    HTTP_HEADERS,
    HTTP_INFORMATIONAL,
    HTTP_RATE_LIMIT,
    HTTP_REQUEST_ID,
    HTTP_SETTINGS,
    HTTP_STATUS,
    HTTP_TRAILERS,
    HTTP_VERSION,
    MARK_GOAWAY,
    MARK_HEAD,
    MARK_INFORMATIONAL,
    MARK_MESSAGE_END,
    MARK_RESET,
    MARK_SETTINGS,
    MARK_TRAILERS,
    SERVER_TIMING,
    SPAN_RESPONSE,
)
from promptpath.model.plan import Plan
from promptpath.model.redact import redact_headers
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.probe.connect import Connection, snapshot
from promptpath.probe.link import Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.stream import BodyReader
from promptpath.wire.headers import alt_svc, rate_limit, request_id
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Goaway,
    Head,
    HttpEvent,
    Informational,
    Reset,
    Trailers,
)

MAX_INFORMATIONAL = 100
"""1xx heads recorded per response. A 100, a 103 and a 102 now and then are what there is (RFC 9110,
15.2; RFC 8297); the rest is room, so that a server which sends nothing else cannot fill our
memory."""
_BROKEN_HOW = {"eof": "fin"}


class ResponseReader:
    """Takes the HTTP events of one exchange."""

    def __init__(self, recorder: Recorder, plan: Plan, connection: Connection) -> None:
        self._recorder = recorder
        self._plan = plan
        self._connection = connection
        self._span: int | None = None
        self._frame_offset = 0
        self._frame_bytes = 0
        self._last_ns: Ns | None = None
        self._closed = False
        self._informational = 0
        self.body: BodyReader | None = None
        self.status: int | None = None
        """Of the final response; None until its head."""
        self.location: str | None = None
        self.opened_ns: Ns | None = None
        """When the last request byte left."""
        self.not_before_ns: Ns | None = None
        """When the request's first byte was handed over: nothing of its response came before."""
        self.ended = False
        """Nothing more is read of this response."""

    @property
    def body_bytes(self) -> int:
        """Body bytes so far, after content decoding."""
        return self.body.body_bytes if self.body is not None else 0

    @property
    def content_events(self) -> int:
        """Events with content so far."""
        return self.body.content_events if self.body is not None else 0

    @property
    def marker_at_ns(self) -> Ns | None:
        """When the dialect's terminal event was complete."""
        marker = self.body.marker if self.body is not None else None
        return None if marker is None else marker.at_ns

    # -- the span --------------------------------------------------------------------------------

    def open(self, start_ns: Ns) -> int:
        """Start the response's span where the request's last byte left; once."""
        if self._span is None:
            self.opened_ns = start_ns
            self._span = self._recorder.log.start_span(
                Stage.WAIT, SPAN_RESPONSE, start_ns, conn=self._connection.conn
            )
        return self._span

    def close(self, outcome: Outcome, error: str | None) -> None:
        """The exchange is over: end the body and the span; once."""
        if self._closed:
            return
        self._closed = True
        if self.body is not None:
            self.body.end(self._last_ns if self.ended else None)
        if self._span is None:
            return
        if outcome is Outcome.OK and self._last_ns is not None:
            self._recorder.end(self._span, self._last_ns)
        elif outcome is Outcome.OK:
            self._recorder.end(self._span)
        else:
            self._recorder.fail(self._span, outcome, error or outcome.value)

    # -- events ----------------------------------------------------------------------------------

    def take(self, event: HttpEvent) -> None:
        """Record one HTTP event."""
        event = self._bounded(event)
        self._last_ns = event.stamp.at_ns
        match event:
            case Head():
                self._on_head(event)
            case Data():
                self._on_data(event)
            case End():
                self._mark(MARK_MESSAGE_END, event.stamp)
                self._end("clean", complete=True)
            case Informational():
                self._on_informational(event)
            case Trailers():
                self._mark(MARK_TRAILERS, event.stamp)
                self._recorder.reported(HTTP_TRAILERS, redact_headers(event.headers), self._span)
            case Reset():
                self._mark(MARK_RESET, event.stamp, {"code": event.code, "direction": "received"})
                self._end("reset", code=event.code)
            case Goaway():
                detail: dict[str, Json] = {"code": event.code, "last_stream": event.last_stream}
                if event.debug:
                    detail["debug"] = self._recorder.clean(event.debug)
                self._mark(MARK_GOAWAY, event.stamp, detail)
            case Control():
                self._on_control(event)
            case Broken():
                how = _BROKEN_HOW.get(event.code, "protocol-error")
                self._end(how, detail=f"{event.code}: {event.what}")

    def _bounded(self, event: HttpEvent) -> HttpEvent:
        """The event, of this response, not before its request: on a warm connection the last read
        before, the only other bound, may be any time ago."""
        stamp, floor_ns = event.stamp, self.not_before_ns
        if floor_ns is None or not stamp.lo_ns < floor_ns <= stamp.at_ns:
            return event
        if isinstance(event, Control | Goaway | Broken):  # these the peer may send at any time
            return event
        return replace(event, stamp=replace(stamp, lo_ns=floor_ns))

    def transport_ended(self, closed: Closed) -> None:
        """The connection ended and HTTP had nothing to say about it."""
        self._last_ns = closed.stamp.at_ns
        if not self.ended:
            self._end(
                closed.how if closed.how != "error" else "protocol-error", detail=closed.detail
            )

    def left_open(self) -> None:
        """The terminal event came, the response did not end: we go."""
        self._end("cut-by-us", detail="left open after its terminal event")

    def _end(
        self,
        how: str,
        *,
        complete: bool = False,
        code: int | None = None,
        detail: str | None = None,
    ) -> None:
        if self.ended:
            return
        self.ended = True
        self._recorder.observed(
            HTTP_END,
            {
                "how": how,
                "code": code,
                "complete": complete,
                "detail": self._recorder.clean(detail) if detail else None,
            },
            self._span,
        )

    def _on_head(self, head: Head) -> None:
        span = self.open(head.stamp.at_ns)
        recorder = self._recorder
        self.status = head.status
        self.location = dict(head.headers).get("location")
        self._mark(MARK_HEAD, head.stamp, {"status": head.status})
        recorder.observed(HTTP_STATUS, head.status, span)
        recorder.observed(HTTP_VERSION, head.version, span)
        recorder.observed(HTTP_FRAMING, head.framing, span)
        recorder.reported(HTTP_HEADERS, redact_headers(head.headers), span)
        self._tell_headers(head, span)
        snapshot(recorder, self._connection.link, "head")
        self.body = BodyReader(recorder, self._plan, self._connection.target, head, span)

    def _tell_headers(self, head: Head, span: int) -> None:
        """Facts that headers hold."""
        recorder = self._recorder
        for key, value in (
            (HTTP_REQUEST_ID, request_id(head.headers)),
            (HTTP_RATE_LIMIT, rate_limit(head.headers)),
            (HTTP_ALT_SVC, alt_svc(head.headers)),
        ):
            if value:
                recorder.reported(key, value, span)
        for timing in header_timings(head.headers):
            recorder.reported(SERVER_TIMING, timing_value(timing), span)

    def _on_data(self, event: Data) -> None:
        if event.frame_size is not None:
            self._on_framed(event)
        if self.body is not None:
            self.body.feed(event.data, event.stamp)

    def _on_framed(self, event: Data) -> None:
        """A chunk or DATA frame is one arrival, stamped when its last byte came."""
        self._frame_bytes += len(event.data)
        if event.frame_end:
            self._recorder.log.add_arrival(
                Layer.HTTP_FRAME,
                event.stamp,
                span=self._span,
                offset=self._frame_offset,
                size=self._frame_bytes,
            )
            self._frame_offset += self._frame_bytes
            self._frame_bytes = 0

    def _on_informational(self, event: Informational) -> None:
        self._informational += 1
        if self._informational <= MAX_INFORMATIONAL:
            self._mark(MARK_INFORMATIONAL, event.stamp, {"status": event.status})
            value = {"status": event.status, "headers": redact_headers(event.headers)}
            self._recorder.reported(HTTP_INFORMATIONAL, value, self._span)

    def _on_control(self, event: Control) -> None:
        self._mark(event.name, event.stamp, event.detail)
        if event.name == MARK_SETTINGS and event.detail.get("ack") is not True:
            self._recorder.reported(HTTP_SETTINGS, event.detail, self._span)

    def _mark(self, name: str, stamp: Stamp, detail: dict[str, Json] | None = None) -> None:
        stage = Stage.FINISH if name == MARK_MESSAGE_END else Stage.WAIT
        self._recorder.mark(
            stage, name, stamp, span=self._span, conn=self._connection.conn, detail=detail
        )
