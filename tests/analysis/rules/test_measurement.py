"""PP9xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import Clock, EventKind
from promptpath.model.plan import Budgets
from promptpath.model.rows import ClockStep
from tests.analysis.buffering import flow
from tests.analysis.build import TraceBuilder, healthy, ns, opened, plan
from tests.analysis.rules.case import Case, check


def stream(trip: TraceBuilder, gap_ms: float = 20) -> TraceBuilder:
    return trip.request().head(22).wait(50).text(20, gap_ms=gap_ms).marker().end()


def blurred(error_ms: float) -> TraceBuilder:
    trip = TraceBuilder(exact=False)
    trip.error_ns = ns(error_ms)
    return stream(trip, gap_ms=5)


def certified(share: float) -> TraceBuilder:
    trip = opened().head(22).wait(50)
    for index in range(100):
        trip.exact = index < 100 * share
        trip.after(5).event(EventKind.TEXT, tokens=1, chars=4)
    return trip.end(marker_expected=False)


def short(together: int) -> TraceBuilder:
    """12 tokens of which the last come with finish and end marker in one read."""
    trip = opened().head(22).wait(50)
    for index in range(12):
        trip.exact = index < 12 - together
        trip.after(5).event(EventKind.TEXT, tokens=1, chars=4)
    return trip.marker().end()


def stepped(*steps: ClockStep) -> TraceBuilder:
    trip = healthy()
    trip.steps = steps
    return trip


TTFT = plan(budgets=Budgets(ttft_ns=ns(250)))
TOTAL = plan(budgets=Budgets(total_ns=ns(1000)))
ITL = plan(budgets=Budgets(itl_p99_ns=ns(25)))
CASES = (
    Case("PP901", stream(TraceBuilder(clock=Clock.USER)), stream(TraceBuilder())),
    Case("PP902", certified(0.8), certified(0.95), says="80 % of 100"),
    Case("PP902", short(together=4), short(together=3), says="67 % of 12"),
    Case(
        "PP903",
        stepped(ClockStep(at_ns=5, step_ns=-3_000_000_000)),
        stepped(),
        says="3.00 s back",
    ),
    Case("PP904", blurred(2), blurred(1), says="2.00 ms"),
    Case("PP905", healthy(), opened().head(22).wait(150).text(3).marker().end(), plan=TTFT),
    Case("PP905", opened().head(22).marker().end(), stream(opened()), plan=TTFT, says="no visible"),
    Case("PP906", healthy(), stream(TraceBuilder()), plan=TOTAL, says="the budget is 1.00 s"),
    Case("PP907", opened().head(22).text(20, gap_ms=30).end(), healthy(), plan=ITL, says="30.0 ms"),
    Case(
        "PP908",
        opened().head(22).text(3).limit("idle-timeout", ns(2000)),
        opened().head(22).text(3).limit("interrupt"),
        says="--idle-timeout was reached (2.00 s)",
    ),
    Case("PP908", opened().head(22).text(3).limit("max-bytes", 100), healthy(), says="100 bytes"),
    Case(
        "PP909",
        opened().head(22).text(3).limit("interrupt"),
        opened().head(22).text(3).limit("timeout", ns(5)),
    ),
    Case(
        "PP910",
        flow.trip_of(flow.read_late(90, flow.varied(200, gap_ms=10, size=97))),
        flow.trip_of(flow.corked(90, flow.varied(200, gap_ms=10, size=97))),
        says="in a TCP segment of its own",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
