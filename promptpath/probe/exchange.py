"""One request and its response on an open connection: upload split from server time, every frame
of the answer recorded, redirects handed back to the walk."""

from __future__ import annotations

import asyncio

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    HTTP_END,
    HTTP_REQUEST,
    MARK_PING_ACK,
    MARK_REQUEST_ACKED,
    MARK_REQUEST_WIRE,
    MARK_REQUEST_WRITTEN,
    MARK_TRANSPORT_END,
    MARK_WINDOW_STALL,
    SPAN_UPLOAD,
)
from promptpath.model.plan import Plan
from promptpath.model.redact import redact_url
from promptpath.model.stamp import user_stamp
from promptpath.model.units import Ns
from promptpath.probe.connect import Connection
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.quiet import QuietWatch
from promptpath.probe.recorder import Recorder
from promptpath.probe.request import QueuedRequest, build_request, queue_request
from promptpath.probe.response import ResponseReader
from promptpath.wire.h2 import H2Connection
from promptpath.wire.http import Broken, Control, HttpEvent, Reset

AFTER_MARKER_NS = 1_500_000_000
"""How long a response may stay open after its terminal event before we say so and leave. A last
chunk that was lost comes again after the initial RTO of 1 s (RFC 6298, 2.1); half a second more is
the path."""
OPEN_AFTER_MARKER = "open-after-marker"


class LimitReached(Exception):
    """A limit of ours ended the run; `name` as in names.LIMIT."""

    def __init__(self, name: str, value: int | None) -> None:
        super().__init__(name)
        self.name = name
        self.value = value


class Exchange:
    """Sends one request and reads its response to the end, a limit, or a failure."""

    def __init__(
        self,
        recorder: Recorder,
        plan: Plan,
        connection: Connection,
        total_deadline_ns: Ns | None,
        *,
        ping: bool = True,
    ) -> None:
        """`ping`: ask a quiet HTTP/2 peer by PING; not where the path's idle timers are sought."""
        self._recorder = recorder
        self._plan = plan
        self._connection = connection
        self._total_deadline_ns = total_deadline_ns
        self._stream = 0
        self._mark = "request"
        """On the last request byte; a name of its own for each request of a connection."""
        self._upload_span = 0
        self._upload_done = False
        self._handed_out = False
        self._stalled = False
        self._watch: asyncio.Task[None] | None = None
        self._acked = False
        self._idle_since_ns = 0
        may_ping = ping and isinstance(connection.http, H2Connection)
        self._quiet = QuietWatch(recorder, connection.link, self._ping if may_ping else None)
        self.reader: ResponseReader | None = None

    async def run(self) -> ResponseReader:
        """The response, read as far as it came.

        Raises MeasureError when no response head arrived, LimitReached when a limit of ours ended
        it. Whatever is raised, what was recorded stays recorded.
        """
        reader = self.reader = ResponseReader(self._recorder, self._plan, self._connection)
        reader.not_before_ns = self._recorder.now_ns()
        self._send_request()
        try:
            await self._read(reader)
        except asyncio.CancelledError:
            self._cut(reader, "cut-by-us", "interrupted", Outcome.CANCELLED)
            raise
        except LimitReached as limit:
            self._cut(reader, "cut-by-us", limit.name, Outcome.TIMED_OUT)
            raise
        except MeasureError as error:
            self._cut(reader, "protocol-error", error.what, Outcome.FAILED)
            raise
        finally:
            if self._watch is not None:
                self._watch.cancel()
        self._settle_upload(self._connection.link.sent(self._mark))
        self._settle_unfinished_upload(Outcome.CANCELLED, "the answer came before the upload ended")
        reader.close(Outcome.OK, None)
        return reader

    # -- sending ---------------------------------------------------------------------------------

    def _send_request(self) -> None:
        recorder, connection = self._recorder, self._connection
        queued = self._queued()
        request, first, self._stream = queued.request, queued.first, queued.stream
        self._mark = f"request-{self._stream}"
        self._upload_span = recorder.start(Stage.REQUEST, SPAN_UPLOAD, conn=connection.conn)
        self._write(first)
        recorder.observed(
            HTTP_REQUEST,
            {
                "method": request.method,
                "target": redact_url(request.target),
                "version": connection.http.version,
                "head_bytes": max(0, len(first) - len(request.body)),
                "body_bytes": len(request.body),
                "accept_encoding": self._plan.accept_encoding,
            },
            self._upload_span,
        )

    def _queued(self) -> QueuedRequest:
        """The request, written ahead or now."""
        connection = self._connection
        queued, connection.queued = connection.queued, None
        if queued is not None:
            return queued
        request = build_request(
            self._plan, connection.target, absolute_form=connection.absolute_form
        )
        return queue_request(connection.http, request)

    def _write(self, data: bytes) -> None:
        """Hand bytes to the link; those that complete the request carry the mark."""
        last = not self._handed_out and self._connection.http.request_sent(self._stream)
        if data or last:
            self._connection.link.write(data, self._mark if last else None)
        if last:
            self._handed_out = True
            self._watch = asyncio.create_task(self._watch_upload())
        self._note_stall()

    def _note_stall(self) -> None:
        """The upload waits for the peer's window from here; the end of it comes as an event."""
        scope = self._connection.http.stalled(self._stream)
        if scope is None or self._stalled:
            return
        self._stalled = True
        self._recorder.mark(
            Stage.WAIT,
            MARK_WINDOW_STALL,
            user_stamp(self._recorder.now_ns()),
            span=self._upload_span,
            conn=self._connection.conn,
            detail={"state": "begin", "scope": scope},
        )

    async def _watch_upload(self) -> None:
        """Close the upload span as soon as the kernel says that the last byte left."""
        deadline_ns = self._total_deadline_ns
        if deadline_ns is None:
            deadline_ns = self._recorder.now_ns() + self._plan.limits.connect_ns
        sent = await self._connection.link.sent_wire(self._mark, deadline_ns)
        self._settle_upload(sent)

    def _settle_upload(self, sent: Sent) -> None:
        """Record what is known of the last request byte, once; the response span starts there."""
        self._record_ack(sent)
        if self._upload_done or self.reader is None:
            return
        last = sent.wire or sent.written
        if last is None:
            return
        self._upload_done = True
        recorder, conn = self._recorder, self._connection.conn
        for name, stamp in ((MARK_REQUEST_WRITTEN, sent.written), (MARK_REQUEST_WIRE, sent.wire)):
            if stamp is not None:
                recorder.mark(Stage.REQUEST, name, stamp, span=self._upload_span, conn=conn)
        recorder.end(self._upload_span, last.at_ns)
        self.reader.open(last.at_ns)

    def _record_ack(self, sent: Sent) -> None:
        if self._acked or sent.acked is None:
            return
        self._acked = True
        self._recorder.mark(
            Stage.REQUEST,
            MARK_REQUEST_ACKED,
            sent.acked,
            span=self._upload_span,
            conn=self._connection.conn,
        )

    # -- receiving -------------------------------------------------------------------------------

    async def _read(self, reader: ResponseReader) -> None:
        link, http = self._connection.link, self._connection.http
        self._idle_since_ns = self._recorder.now_ns()
        self._quiet.heard()
        while not reader.ended:
            limit, deadline_ns = self._next_deadline(reader)
            try:
                items = await self._receive(deadline_ns)
            except TimeoutError as error:
                if limit.name == OPEN_AFTER_MARKER:
                    reader.left_open()
                    return
                raise limit from error
            # Send stamps are drained before data, so the upload's end is known before its answer.
            self._settle_upload(link.sent(self._mark))
            for item in items:
                if reader.ended:
                    break
                if isinstance(item, Closed):
                    self._closed(reader, item)
                    continue
                content_before = reader.content_events
                events = http.receive(item.data, item.stamp)
                if not (events and all(_is_ping_ack(event) for event in events)):
                    self._quiet.heard()
                self._take(reader, events)
                if reader.content_events != content_before:
                    self._idle_since_ns = item.stamp.at_ns
                self._check_size(reader)
            self._write(http.data_to_send())

    async def _receive(self, deadline_ns: Ns | None) -> list[Chunk | Closed]:
        """What arrives next; a long silence is looked into on the way. Raises TimeoutError."""
        while True:
            look_ns = self._quiet.next_look_ns
            last = look_ns is None or (deadline_ns is not None and deadline_ns <= look_ns)
            try:
                return await self._connection.link.receive(deadline_ns if last else look_ns)
            except TimeoutError:
                if last:
                    raise
                self._quiet.look()

    def _ping(self) -> str | None:
        """Send an HTTP/2 PING; the mark of its last byte."""
        http = self._connection.http
        number = http.ping() if isinstance(http, H2Connection) else None
        if number is None:
            return None
        mark = f"ping-{number}"
        self._connection.link.write(http.data_to_send(), mark)
        return mark

    def _take(self, reader: ResponseReader, events: list[HttpEvent]) -> None:
        for event in events:
            if isinstance(event, Broken) and reader.status is None:
                raise MeasureError(
                    f"no HTTP response came: {event.what}",
                    stage=Stage.WAIT.value,
                    code="bad-http" if event.code != "eof" else "closed",
                    expected="a response head",
                    where=f"wait, {self._connection.target.authority}",
                    hint=self._hint(),
                )
            if isinstance(event, Control) and event.name == MARK_WINDOW_STALL:
                self._stalled = False
            reader.take(event)
            if _is_ping_ack(event):
                self._quiet.answered(event.stamp.at_ns)
            if isinstance(event, Reset) and reader.status is None:
                raise self._no_head(f"reset the stream (code {event.code})", "reset")

    def _closed(self, reader: ResponseReader, closed: Closed) -> None:
        recorder, conn = self._recorder, self._connection.conn
        recorder.mark(
            Stage.FINISH, MARK_TRANSPORT_END, closed.stamp, conn=conn, detail={"how": closed.how}
        )
        if not self._upload_done and reader.status is None:
            recorder.fail(self._upload_span, Outcome.FAILED, f"connection ended ({closed.how})")
        if closed.how == "rst" and reader.status is None:
            raise self._no_head("reset the connection", "reset")
        if closed.how == "timed-out" and reader.status is None:
            over_quic = self._connection.http.version == "3"
            did = closed.detail if over_quic else "stopped answering TCP keepalives"
            raise self._no_head(did, "dead-path")
        if self._may_end_a_message(closed):
            self._take(reader, self._connection.http.receive_eof(closed.stamp))
        if not reader.ended:
            if reader.status is None:
                raise self._no_head("closed the connection", "closed")
            reader.transport_ended(closed)

    def _may_end_a_message(self, closed: Closed) -> bool:
        """Whether a body that lasts until the close may be whole: not after RST, and under TLS only
        after a close_notify (RFC 9112, 9.8)."""
        return closed.how == ("fin" if self._connection.tls is None else "close-notify")

    def _no_head(self, did: str, code: str) -> MeasureError:
        tls = self._connection.tls
        if tls is not None and tls.failure is not None:
            # TLS 1.3 servers judge a missing client certificate after the handshake.
            return tls.failure
        target = self._connection.target
        return MeasureError(
            f"the far side {did} without a response",
            stage=Stage.WAIT.value,
            code=code,
            expected="a response head",
            where=f"wait, {target.authority}, connection {self._connection.conn}",
            hint=self._hint(),
        )

    def _hint(self) -> str:
        """What to do about a connection that brought no response head."""
        if self._connection.tls is None:
            # Most TLS servers hang up on clear text without a word (openssl s_server, Python).
            return "if the port speaks TLS, use https://; else check the port, or try --http 1.1"
        return "a proxy or gateway may refuse this request; try --http 1.1 or a smaller body"

    # -- limits ----------------------------------------------------------------------------------

    def _next_deadline(self, reader: ResponseReader) -> tuple[LimitReached, Ns | None]:
        """The nearest limit of ours and when it is reached."""
        limits = self._plan.limits
        found: list[tuple[Ns, LimitReached]] = []
        if self._total_deadline_ns is not None:
            found.append((self._total_deadline_ns, LimitReached("timeout", limits.total_ns)))
        if limits.first_token_ns is not None and not reader.content_events:
            start_ns = reader.opened_ns if reader.opened_ns is not None else self._idle_since_ns
            limit = LimitReached("first-token-timeout", limits.first_token_ns)
            found.append((start_ns + limits.first_token_ns, limit))
        if limits.idle_ns is not None and (reader.content_events or limits.first_token_ns is None):
            limit = LimitReached("idle-timeout", limits.idle_ns)
            found.append((self._idle_since_ns + limits.idle_ns, limit))
        if reader.marker_at_ns is not None:
            grace_ns = reader.marker_at_ns + AFTER_MARKER_NS
            found.append((grace_ns, LimitReached(OPEN_AFTER_MARKER, AFTER_MARKER_NS)))
        if not found:
            return LimitReached("timeout", None), None
        deadline_ns, limit = min(found, key=lambda item: item[0])
        return limit, deadline_ns

    def _check_size(self, reader: ResponseReader) -> None:
        most = self._plan.limits.max_bytes
        if most is not None and reader.body_bytes > most and not reader.ended:
            raise LimitReached("max-bytes", most)

    def _cut(self, reader: ResponseReader, how: str, detail: str, outcome: Outcome) -> None:
        """The run ends before the response did: close what is open, say why."""
        self._settle_upload(self._connection.link.sent(self._mark))
        self._settle_unfinished_upload(outcome, detail)
        if not reader.ended and reader.status is not None:
            self._recorder.observed(
                HTTP_END, {"how": how, "code": None, "complete": False, "detail": detail}
            )
        reader.close(outcome, detail)

    def _settle_unfinished_upload(self, outcome: Outcome, why: str) -> None:
        if not self._upload_done:
            self._upload_done = True
            self._recorder.fail(self._upload_span, outcome, why)


def _is_ping_ack(event: HttpEvent) -> bool:
    """The answer to our own question is no end of the silence."""
    return isinstance(event, Control) and event.name == MARK_PING_ACK
