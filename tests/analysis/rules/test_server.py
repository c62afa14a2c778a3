"""PP6xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import EventKind
from tests.analysis.build import TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def reported(wait_ms: float = 300, **scopes_ms: float) -> TraceBuilder:
    trip = opened().head(22).wait(wait_ms).text(40, gap_ms=20).marker()
    return trip.reports("final", **scopes_ms).end()


def paused(pause_ms: float, *, gap_ms: float = 20, server_too: bool = False) -> TraceBuilder:
    trip = opened().head(22).wait(50)
    sent = 0.0
    for index in range(60):
        pause = pause_ms if index == 30 else gap_ms
        sent += pause if server_too else gap_ms
        trip.after(pause).event(EventKind.TEXT, tokens=1, chars=4, server_ms=sent)
    return trip.marker().end()


def bursts() -> TraceBuilder:
    """Five events together, then a long gap, all the time: a rhythm, not a stall."""
    trip = opened().head(22).wait(50)
    for index in range(100):
        trip.after(250 if index % 5 == 0 else 1).event(EventKind.TEXT, tokens=1, chars=4)
    return trip.marker().end()


def thinks(ms: float) -> TraceBuilder:
    trip = opened().head(22).wait(50).text(20, gap_ms=ms / 20, kind=EventKind.REASONING)
    return trip.text(9).marker().end()


CASES = (
    Case("PP601", reported(queue=250, prefill=40), reported(queue=40, prefill=250), says="250 ms"),
    Case("PP602", reported(queue=40, prefill=250), reported(queue=250, prefill=40), says="250 ms"),
    Case("PP602", reported(prefill=250), reported(wait_ms=5, prefill=26)),
    Case(
        "PP603",
        opened().head(22).text(12, gap_ms=250).marker().end(),
        opened().head(22).text(12, gap_ms=180).marker().end(),
        says="4 tokens/s",
    ),
    Case("PP604", paused(900), paused(70), says="900 ms without an event"),
    Case("PP604", paused(900), bursts()),
    Case("PP604", paused(900, server_too=True), healthy(), says="the sender paused 900 ms"),
    Case("PP604", paused(900), opened().head(22).text(6).wait(900).text(1).marker().end()),
    Case("PP605", reported(prefill=500), reported(prefill=300), says="by 178 ms"),
    Case("PP605", reported(decode=900), reported(decode=770), says="generation by 120 ms"),
    Case("PP605", reported(decode=900), reported(decode=795)),  # 15 ms: less than a gap
    Case("PP606", reported(), reported(prefill=250)),
    Case("PP606", reported(), reported(wait_ms=1)),
    Case("PP606", reported(auth=2), reported(queue=250)),
    Case("PP607", thinks(600), thinks(40), says="20 reasoning events"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
