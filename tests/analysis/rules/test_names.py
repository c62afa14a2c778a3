"""PP1xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import DNS_DIFFERS, DNS_QUERY, SPAN_RESOLVE
from promptpath.model.rows import Json
from tests.analysis.build import TraceBuilder, healthy
from tests.analysis.rules.case import Case, check


def resolves(ms: float) -> TraceBuilder:
    return TraceBuilder().dns(ms).tcp(20, rtt_ms=20).request().head(20).text(3).marker().end()


def unresolved(code: str) -> TraceBuilder:
    trip = TraceBuilder()
    trip.span(Stage.DNS, SPAN_RESOLVE, 80, outcome=Outcome.FAILED, error="no answer for you")
    return trip.fails(Stage.DNS, code, "no answer for you")


def query(kind: str, **changes: Json) -> dict[str, Json]:
    value = {"type": kind, "server": "192.0.2.53:53", "transport": "udp", "outcome": "answered"}
    return {**value, "rcode": "NOERROR", "answers": [], "truncated": False, **changes}


def queried(*records: dict[str, Json]) -> TraceBuilder:
    trip = healthy()
    for record in records:
        trip.fact(DNS_QUERY, record)
    return trip


def failed_and_asked(rcode: str | None) -> TraceBuilder:
    """The system only says that it failed; then we asked ourselves."""
    trip = unresolved("resolver-failed")
    for kind in ("A", "AAAA"):
        outcome = "answered" if rcode else "timed-out"
        trip.fact(DNS_QUERY, query(kind, rcode=rcode, outcome=outcome))
    return trip


CASES = (
    Case("PP101", resolves(80), resolves(50), says="80.0 ms"),
    Case(
        "PP102",
        healthy().fact(DNS_DIFFERS, {"system": ["192.0.2.1"], "resolver": ["192.0.2.2"]}),
        healthy(),
        says="192.0.2.2",
    ),
    Case("PP103", unresolved("no-such-name"), unresolved("resolver-failed")),
    Case("PP104", unresolved("resolver-failed"), unresolved("no-such-name")),
    Case("PP105", unresolved("resolver-refused"), unresolved("resolver-timeout")),
    Case("PP106", unresolved("resolver-timeout"), unresolved("resolver-refused")),
    Case("PP105", failed_and_asked("REFUSED"), failed_and_asked("SERVFAIL"), says="A REFUSED"),
    Case("PP104", failed_and_asked("SERVFAIL"), failed_and_asked("REFUSED")),
    Case("PP106", failed_and_asked(None), failed_and_asked("SERVFAIL"), says="A timed-out"),
    Case("PP107", unresolved("no-address"), unresolved("no-such-name")),
    Case(
        "PP108",
        queried(query("A"), query("AAAA", rcode="SERVFAIL")),
        queried(query("A"), query("AAAA"), query("HTTPS", rcode="SERVFAIL")),
        says="AAAA: SERVFAIL",
    ),
    Case("PP109", queried(query("A", truncated=True)), queried(query("A"))),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
