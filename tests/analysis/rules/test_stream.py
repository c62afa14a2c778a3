"""PP52x: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import EventKind
from promptpath.model.names import STREAM_DIALECT, STREAM_ERROR
from promptpath.model.rows import Json
from tests.analysis.build import TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def started(**head: Json) -> TraceBuilder:
    return opened().head(22, **head).wait(50)


def failed_inside(status: int = 200) -> TraceBuilder:
    trip = opened().head(22, status=status).text(3)
    error = {"code": "overloaded", "type": "server_error", "message": "busy", "shape": "data-error"}
    return trip.event(EventKind.ERROR).fact(STREAM_ERROR, error).end(marker_seen=False)


def kept_alive(ms: float) -> TraceBuilder:
    trip = opened().head(22).event(EventKind.COMMENT).wait(ms)
    return trip.text(9).marker().end()


def foreign(kind: str) -> TraceBuilder:
    trip = opened().head(22, headers={"content-type": kind}).text(3)
    return trip.event(EventKind.FOREIGN_BYTES).marker().end()


def not_understood(because: str, *more: EventKind) -> TraceBuilder:
    """Five events that mean nothing in the dialect, and no end of it."""
    trip = started().fact(STREAM_DIALECT, {"name": "anthropic", "because": because})
    for kind in (*[EventKind.OTHER] * 5, *more):
        trip.after(10).event(kind)
    return trip.end(marker_seen=False)


CASES = (
    Case("PP520", failed_inside(), failed_inside(500), says="server_error: overloaded: busy"),
    Case("PP521", started().text(9).end(marker_seen=False), healthy()),
    Case(
        "PP521",
        started().text(9).end(marker_seen=False, pending_bytes=17),
        started().text(9).end(marker_seen=False, marker_expected=False),
        says="17 bytes",
    ),
    Case(
        "PP522",
        started().text(9).event(EventKind.FINISH).end(marker_seen=False),
        started().text(9).event(EventKind.FINISH).end(marker_seen=False, marker_expected=False),
    ),
    Case(
        "PP523",
        started().text(9).marker().end(complete=False, how="cut-by-us"),
        started().text(9).marker().end(complete=False, how="fin"),
    ),
    Case(
        "PP524",
        started().text(9, kind=EventKind.REASONING).marker().end(),
        started().text(9, kind=EventKind.REASONING).text(1).marker().end(),
        says="reasoning only",
    ),
    Case(
        "PP525",
        started().text(9, tokens=5).marker().end(),
        started().text(9, tokens=1).marker().end(),
        says="5 tokens an event",
    ),
    Case("PP526", foreign("text/event-stream"), foreign("application/x-ndjson")),
    Case(
        "PP527",
        started().text(9).marker(finish="length").end(),
        started().text(9).marker(finish="stop").end(),
    ),
    Case("PP528", kept_alive(1500), kept_alive(900), says="1.50 s"),
    Case("PP529", not_understood("option"), not_understood("url"), says="none of 5 events"),
    Case("PP529", not_understood("option"), not_understood("option", EventKind.FINISH)),
    Case("PP521", not_understood("url"), not_understood("option")),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
