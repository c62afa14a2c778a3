"""PP2xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import EventKind, Outcome, Stage
from promptpath.model.names import (
    MARK_WINDOW_STALL,
    SPAN_CONNECT,
    SPAN_DIAL,
)
from tests.analysis.build import TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def eyeballs(loser: str, *, loser_ms: float, winner_ms: float = 20) -> TraceBuilder:
    """An attempt that is alone for `loser_ms` and loses to one over IPv4."""
    trip = TraceBuilder().dns(2)
    dial = trip.log.start_span(Stage.TCP, SPAN_DIAL, trip.now_ns, conn=1)
    lost = trip.log.start_span(Stage.TCP, SPAN_CONNECT, trip.now_ns, parent=dial, conn=2)
    trip.after(loser_ms)
    trip.span(Stage.TCP, SPAN_CONNECT, winner_ms, parent=dial)
    trip.log.end_span(lost, trip.now_ns, Outcome.CANCELLED, f"{loser}: another one won")
    trip.log.end_span(dial, trip.now_ns)
    return trip.request().head(20).text(3).marker().end()


def unconnected(code: str) -> TraceBuilder:
    trip = TraceBuilder().dns(2)
    trip.span(Stage.TCP, SPAN_DIAL, 5, outcome=Outcome.FAILED, error="no")
    return trip.fails(Stage.TCP, code)


def connects(ms: float, rtt_ms: float) -> TraceBuilder:
    trip = TraceBuilder().dns(2).tcp(ms, rtt_ms=rtt_ms).request()
    return trip.head(rtt_ms).text(3).marker().end()


def counted(**info: int) -> TraceBuilder:
    return healthy().tcp_info("end", **info)


def gaps(*gap_ms: float, rtt_ms: float = 5) -> TraceBuilder:
    trip = opened(rtt_ms=rtt_ms).head(10).event(EventKind.TEXT, tokens=1, chars=4)
    for gap in gap_ms:
        trip.after(gap).event(EventKind.TEXT, tokens=1, chars=4)
    return trip.marker().end()


def uploads(ms: float, body_bytes: int, *, rtt_ms: float = 40) -> TraceBuilder:
    trip = TraceBuilder().dns(2).tcp(rtt_ms, rtt_ms=rtt_ms, snd_mss_bytes=1448)
    return trip.request(ms, body_bytes=body_bytes).head(rtt_ms).wait(50).text(9).marker().end()


def stalled(first_state: str | None) -> TraceBuilder:
    trip = TraceBuilder().dns(2).tcp(20, rtt_ms=20)
    if first_state:
        trip.mark(Stage.REQUEST, MARK_WINDOW_STALL, state=first_state, scope="stream").after(30)
        trip.mark(Stage.REQUEST, MARK_WINDOW_STALL, state="end", scope="stream")
    return trip.request().head(20).text(3).marker().end()


FIRST_WINDOW = (*[1] * 10, 30, *[0] * 20, 12, *[1] * 300)
NAGLE = (10, 10, 41, 10, 10, 42, 10, 10, 40, 10, 10)
JITTER = (10, 10, 21, 10, 10, 75, 10, 10, 40, 10, 10)
CASES = (
    Case(
        "PP201",
        eyeballs("[2001:db8::1]:443", loser_ms=250),
        eyeballs("192.0.2.9:443", loser_ms=250),
        says="it cost 250 ms ([2001:db8::1]:443: another one won)",
    ),
    Case(
        "PP201",
        eyeballs("[2001:db8::1]:443", loser_ms=250),
        eyeballs("[2001:db8::1]:443", loser_ms=250, winner_ms=300),
    ),
    Case("PP202", unconnected("refused"), unconnected("connect-timeout")),
    Case("PP203", unconnected("connect-timeout"), unconnected("refused")),
    Case("PP204", unconnected("unreachable"), unconnected("refused")),
    Case("PP205", connects(1020, 20), connects(900, 20), says="1.02 s"),
    Case("PP206", counted(total_retrans=2), counted(total_retrans=0), says="2 segments"),
    Case(
        "PP207",
        counted(rcv_ooopack=3, data_segs_in=200),
        counted(rcv_ooopack=1, data_segs_in=200),
        says="3 of 200",
    ),
    Case("PP208", gaps(*NAGLE), gaps(*JITTER)),
    Case("PP208", gaps(*NAGLE), gaps(*NAGLE, rtt_ms=40)),
    Case("PP208", gaps(*NAGLE), gaps(*[41] * 12)),
    Case("PP209", uploads(300, 2_000_000), uploads(300, 2_000_000, rtt_ms=320), says="1.9 MiB"),
    Case("PP209", uploads(300, 2_000_000), uploads(90, 5_000)),
    Case("PP210", uploads(130, 100_000), uploads(130, 14_000), says="3 flights"),
    Case("PP210", uploads(130, 100_000), uploads(1, 100_000)),
    Case("PP211", stalled("begin"), stalled(None), says="30.0 ms"),
    Case(
        "PP212",
        opened(rtt_ms=200).head(220).wait(20).text(9).marker().end(),
        opened(rtt_ms=20).head(22).wait(200).text(9).marker().end(),
        says="round trip 200 ms",
    ),
    Case("PP213", gaps(*FIRST_WINDOW, rtt_ms=40), gaps(*FIRST_WINDOW, 30, 1, rtt_ms=40)),
    Case("PP213", gaps(*FIRST_WINDOW, rtt_ms=40), gaps(*FIRST_WINDOW, rtt_ms=5)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
