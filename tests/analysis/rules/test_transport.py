"""PP2xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import EventKind, Outcome, Stage
from promptpath.model.names import (
    DNS_ADDRESSES,
    MARK_WINDOW_STALL,
    SPAN_CONNECT,
    SPAN_DIAL,
    TCP_PEER,
)
from tests.analysis.build import TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def eyeballs(addresses: list[str], *, loser_ms: float) -> TraceBuilder:
    """An attempt that loses for `loser_ms`, then one over IPv4 that wins."""
    trip = TraceBuilder().dns(2).fact(DNS_ADDRESSES, addresses)
    dial = trip.log.start_span(Stage.TCP, SPAN_DIAL, trip.now_ns, conn=1)
    if loser_ms:
        trip.span(
            Stage.TCP, SPAN_CONNECT, loser_ms, outcome=Outcome.CANCELLED, error="lost", parent=dial
        )
    trip.span(Stage.TCP, SPAN_CONNECT, 20, parent=dial)
    trip.log.end_span(dial, trip.now_ns)
    trip.fact(TCP_PEER, {"address": "192.0.2.1", "port": 443, "family": "ipv4"})
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


NAGLE = (10, 10, 41, 10, 10, 42, 10, 10, 40, 10, 10)
JITTER = (10, 10, 21, 10, 10, 75, 10, 10, 40, 10, 10)
CASES = (
    Case(
        "PP201",
        eyeballs(["2001:db8::1", "192.0.2.1"], loser_ms=250),
        eyeballs(["192.0.2.2", "192.0.2.1"], loser_ms=250),
        says="250 ms",
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
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
