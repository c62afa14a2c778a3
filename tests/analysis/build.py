"""Hand-made traces, as readable as the trip they describe.

trace = ( TraceBuilder().dns(5).tcp(40, rtt_ms=40).tls(45).request() .head(42).wait(300).text(20,
gap_ms=10).marker().end().build() )

Every step begins where the one before ended; all lengths are ms. What is not asked for is not in
the trace.
"""

from __future__ import annotations

from dataclasses import replace

from promptpath.model.enums import Clock, EventKind, FactSource, Layer, Outcome, Stage
from promptpath.model.log import EventLog
from promptpath.model.names import (
    DNS_ADDRESSES,
    DNS_SOURCE,
    FAILURE,
    HTTP_END,
    HTTP_HEADERS,
    HTTP_REQUEST,
    HTTP_STATUS,
    LIMIT,
    MARK_HEAD,
    MARK_MESSAGE_END,
    MARK_REQUEST_ACKED,
    MARK_REQUEST_WIRE,
    RUN,
    SERVER_TIMING,
    SPAN_CONNECT,
    SPAN_DIAL,
    SPAN_HANDSHAKE,
    SPAN_RESOLVE,
    SPAN_RESPONSE,
    SPAN_UPLOAD,
    STREAM_DIALECT,
    STREAM_END,
    STREAM_FINISH,
    STREAM_FRAMING,
    TCP_INFO,
    TCP_PEER,
    TLS_VERSION,
)
from promptpath.model.plan import Plan, PlanRecord, Target
from promptpath.model.redact import plan_record
from promptpath.model.rows import ClockInfo, Json
from promptpath.model.stamp import Stamp
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS

EPOCH_UNIX_NS = 1_790_000_000_000_000_000
MAPPING_ERROR_NS = 300

PLAN = plan_record(
    Plan(
        target=Target(scheme="https", host="llm.example", port=443, path="/v1/chat/completions"),
        method="POST",
    )
)
"""The plan hand-made traces are judged by."""


def plan(**changes: Json) -> PlanRecord:
    """PLAN with changes."""
    return replace(PLAN, **changes)


def ns(ms: float) -> int:
    """Milliseconds as nanoseconds."""
    return round(ms * NS_PER_MS)


class TraceBuilder:
    """Lays a trip end to end."""

    def __init__(
        self, *, clock: Clock = Clock.KERNEL, exact: bool = True, warm: bool = False
    ) -> None:
        self.log = EventLog()
        self.now_ns = 0
        self.truncated: str | None = None
        self.clock = clock
        self.exact = exact and clock is Clock.KERNEL
        self.error_ns = MAPPING_ERROR_NS
        self.steps: tuple[Json, ...] = ()
        self._response: int | None = None
        self._upload: int | None = None
        self._offset = 0
        self.fact(RUN, {"kind": "warm" if warm else "cold", "index": 0, "reused": warm})

    # -- small parts -----------------------------------------------------------------------------

    def after(self, ms: float) -> TraceBuilder:
        """Time passes with nothing recorded."""
        self.now_ns += ns(ms)
        return self

    def stamp(self) -> Stamp:
        """Now, as the builder's clock would see it."""
        return Stamp(
            self.now_ns,
            self.now_ns - self.error_ns,
            self.now_ns + self.error_ns,
            self.clock,
            self.exact,
        )

    def fact(self, key: str, value: Json, source: FactSource = FactSource.OBSERVED) -> TraceBuilder:
        """A fact."""
        self.log.add_fact(key, value, source)
        return self

    def mark(self, stage: Stage, name: str, **detail: Json) -> TraceBuilder:
        """An instant, now."""
        self.log.add_mark(stage, name, self.stamp(), conn=1, detail=detail)
        return self

    def span(
        self,
        stage: Stage,
        name: str,
        ms: float,
        *,
        outcome: Outcome = Outcome.OK,
        error: str | None = None,
        parent: int | None = None,
    ) -> int:
        """A span from now on; time passes. Its id."""
        span = self.log.start_span(stage, name, self.now_ns, parent=parent, conn=1)
        self.after(ms)
        self.log.end_span(span, self.now_ns, outcome, error)
        return span

    # -- the trip --------------------------------------------------------------------------------

    def dns(self, ms: float, *, source: str = "system") -> TraceBuilder:
        """Name resolution."""
        self.span(Stage.DNS, SPAN_RESOLVE, ms)
        return self.fact(DNS_SOURCE, source).fact(DNS_ADDRESSES, ["192.0.2.1"])

    def tcp(self, ms: float, *, rtt_ms: float | None = None, **info: int) -> TraceBuilder:
        """One attempt that works."""
        dial = self.log.start_span(Stage.TCP, SPAN_DIAL, self.now_ns, conn=1)
        self.span(Stage.TCP, SPAN_CONNECT, ms, parent=dial)
        self.log.end_span(dial, self.now_ns)
        self.fact(TCP_PEER, {"address": "192.0.2.1", "port": 443, "family": "ipv4"})
        return self.tcp_info("connected", rtt_ms=rtt_ms, **info)

    def tcp_info(self, when: str, *, rtt_ms: float | None = None, **info: int) -> TraceBuilder:
        """A TCP_INFO snapshot."""
        if rtt_ms is not None:
            info["min_rtt_us"] = round(rtt_ms * 1000)
        return self.fact(TCP_INFO, {"when": when, "conn": 1, **info}) if info else self

    def tls(self, ms: float, *, version: str = "TLSv1.3") -> TraceBuilder:
        """A handshake."""
        self.span(Stage.TLS, SPAN_HANDSHAKE, ms)
        return self.fact(TLS_VERSION, version)

    def request(
        self, ms: float = 0.1, *, body_bytes: int = 200, acked_ms: float = 0
    ) -> TraceBuilder:
        """The upload; the response span begins where it ends."""
        self.span(Stage.REQUEST, SPAN_UPLOAD, ms)
        self.fact(HTTP_REQUEST, {"method": "POST", "head_bytes": 300, "body_bytes": body_bytes})
        self.mark(Stage.REQUEST, MARK_REQUEST_WIRE)
        self._response = self.log.start_span(Stage.WAIT, SPAN_RESPONSE, self.now_ns, conn=1)
        if acked_ms:
            here = self.now_ns
            self.after(acked_ms).mark(Stage.REQUEST, MARK_REQUEST_ACKED)
            self.now_ns = here
        return self

    def head(
        self,
        ms: float,
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        framing: str | None = "sse",
    ) -> TraceBuilder:
        """The response head."""
        self.after(ms).mark(Stage.WAIT, MARK_HEAD, status=status)
        sent = {"content-type": "text/event-stream"} if headers is None else headers
        self.fact(HTTP_STATUS, status)
        self.fact(HTTP_HEADERS, [[name, value] for name, value in sent.items()])
        if framing:
            self.fact(STREAM_FRAMING, framing)
            self.fact(STREAM_DIALECT, {"name": "openai-chat", "because": "payload"})
        return self

    def wait(self, ms: float) -> TraceBuilder:
        """Nothing comes."""
        return self.after(ms)

    def event(
        self,
        kind: EventKind,
        *,
        tokens: int | None = None,
        chars: int = 0,
        server_ms: float | None = None,
    ) -> TraceBuilder:
        """One event, now."""
        stamp = self.stamp()
        self.log.add_arrival(
            Layer.BODY, stamp, span=self._response, offset=self._offset, size=100, pending=0
        )
        self._offset += 100
        self.log.add_event(
            kind,
            stamp,
            stamp,
            tokens=tokens,
            chars=chars,
            size_bytes=100,
            server_ns=None if server_ms is None else ns(server_ms),
        )
        return self

    def text(
        self,
        count: int,
        *,
        gap_ms: float = 10,
        tokens: int | None = 1,
        kind: EventKind = EventKind.TEXT,
        first_gap_ms: float = 0,
    ) -> TraceBuilder:
        """`count` content events, the first after `first_gap_ms`."""
        for index in range(count):
            self.after(gap_ms if index else first_gap_ms).event(kind, tokens=tokens, chars=4)
        return self

    def marker(self, *, finish: str | None = "stop") -> TraceBuilder:
        """Finish and the dialect's terminal event."""
        if finish:
            self.event(EventKind.FINISH).fact(STREAM_FINISH, finish)
        return self.event(EventKind.END)

    def end(
        self,
        *,
        complete: bool = True,
        how: str = "clean",
        marker_seen: bool = True,
        marker_expected: bool = True,
        pending_bytes: int = 0,
    ) -> TraceBuilder:
        """The response ends."""
        if complete:
            self.mark(Stage.FINISH, MARK_MESSAGE_END)
        if self._response is not None:
            self.log.end_span(self._response, self.now_ns)
        self.fact(
            STREAM_END,
            {
                "marker_expected": marker_expected,
                "marker_seen": marker_seen,
                "pending_bytes": pending_bytes,
                "after_marker_ns": None,
            },
        )
        return self.fact(HTTP_END, {"how": how, "code": None, "complete": complete, "detail": None})

    # -- what is said, what goes wrong -------------------------------------------------------------

    def reports(self, place: str = "final", **scopes_ms: float) -> TraceBuilder:
        """The far side reports times: reports(queue=900, prefill=100)."""
        for scope, ms in scopes_ms.items():
            value = {"scope": scope, "duration_ns": ns(ms), "name": f"{scope}_ms", "place": place}
            self.fact(SERVER_TIMING, value, FactSource.REPORTED)
        return self

    def fails(self, stage: Stage, code: str, what: str = "it failed") -> TraceBuilder:
        """The run could not go on."""
        return self.fact(
            FAILURE,
            {
                "stage": stage.value,
                "code": code,
                "what": what,
                "expected": None,
                "where": None,
                "hint": None,
            },
        )

    def limit(self, name: str, value: int | None = None) -> TraceBuilder:
        """A limit of ours ended the run."""
        self.truncated = name
        if self._response is not None:
            self.log.end_span(self._response, self.now_ns, Outcome.TIMED_OUT, name)
        return self.fact(LIMIT, {"name": name, "value": value})

    def build(self) -> Trace:
        """The trace."""
        clock = ClockInfo(
            source=self.clock,
            epoch_unix_ns=EPOCH_UNIX_NS,
            epoch_monotonic_ns=1_000_000_000,
            rx_stamps=self.clock is Clock.KERNEL,
            tx_stamps=self.clock is Clock.KERNEL,
            segment_counter=self.clock is Clock.KERNEL,
            mapping_error_ns=MAPPING_ERROR_NS if self.clock is Clock.KERNEL else None,
            steps=self.steps,
        )
        return Trace(clock=clock, log=self.log, truncated=self.truncated)


def opened(*, rtt_ms: float = 20, warm: bool = False) -> TraceBuilder:
    """A healthy connection with the request sent: dns 2, tcp 20, tls 25, request 0.1 ms."""
    if warm:
        return TraceBuilder(warm=True).tcp_info("end", rtt_ms=rtt_ms).request()
    return TraceBuilder().dns(2).tcp(rtt_ms, rtt_ms=rtt_ms).tls(rtt_ms + 5).request()


def healthy() -> TraceBuilder:
    """A whole stream with nothing to say about it, up to and including the end of the response."""
    return (
        opened()
        .head(22, headers=CLEAN_HEADERS)
        .wait(200)
        .text(40, gap_ms=20)
        .marker()
        .reports(queue=1, prefill=190, decode=780)
        .end()
    )


CLEAN_HEADERS = {
    "content-type": "text/event-stream",
    "x-accel-buffering": "no",
    "cache-control": "no-cache, no-transform",
}
"""What a careful server sends with a stream."""
