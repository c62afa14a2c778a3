"""PP3xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    SPAN_HANDSHAKE,
    TLS_CHAIN,
    TLS_CLIENT_CERT_REQUESTED,
    TLS_HELLO_RETRY,
    TLS_RESUMED,
    TLS_TICKET,
    TLS_VERIFY,
)
from tests.analysis.build import EPOCH_UNIX_NS, TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check

DAY_S = 86_400
NOW_S = EPOCH_UNIX_NS // 10**9


def chain(*, days_left: float, lifetime_days: float = 90) -> TraceBuilder:
    until = NOW_S + round(days_left * DAY_S)
    since = until - round(lifetime_days * DAY_S)
    record = {"subject": "CN=llm.example", "not_before_unix_s": since, "not_after_unix_s": until}
    return healthy().fact(TLS_CHAIN, [record])


def unsecured(code: str) -> TraceBuilder:
    trip = TraceBuilder().dns(2).tcp(20, rtt_ms=20)
    trip.span(Stage.TLS, SPAN_HANDSHAKE, 22, outcome=Outcome.FAILED, error="no")
    return trip.fails(Stage.TLS, code, "the handshake failed")


def version(name: str) -> TraceBuilder:
    trip = TraceBuilder().dns(2).tcp(20, rtt_ms=20).tls(45, version=name).request()
    return trip.head(22).text(3).marker().end()


CASES = (
    Case(
        "PP301",
        healthy().fact(TLS_HELLO_RETRY, {"group": "secp384r1"}),
        healthy(),
        says="one round trip of 20.0 ms",
    ),
    Case("PP302", version("TLSv1.2"), version("TLSv1.3")),
    Case("PP303", chain(days_left=13), chain(days_left=15), says="13.0 days"),
    Case("PP303", chain(days_left=0.5, lifetime_days=6), chain(days_left=2, lifetime_days=6)),
    Case("PP304", chain(days_left=-2), chain(days_left=1), says="2.0 days ago"),
    Case("PP304", unsecured("cert-expired"), unsecured("cert-unknown-ca")),
    Case(
        "PP305",
        healthy().fact(TLS_VERIFY, {"verified": False, "error": "self-signed", "checked": True}),
        healthy().fact(TLS_VERIFY, {"verified": True, "error": None, "checked": True}),
        says="self-signed",
    ),
    Case("PP306", unsecured("cert-unknown-ca"), unsecured("cert-wrong-host")),
    Case("PP307", unsecured("cert-wrong-host"), unsecured("cert-unknown-ca")),
    Case(
        "PP308",
        healthy().fact(TLS_TICKET, {"lifetime_s": 7200, "max_early_data_bytes": 16384}),
        healthy().fact(TLS_TICKET, {"lifetime_s": 7200, "max_early_data_bytes": 0}),
        says="16384",
    ),
    Case(
        "PP309",
        healthy().fact(TLS_RESUMED, {"offered": True, "accepted": False}),
        healthy().fact(TLS_RESUMED, {"offered": False, "accepted": False}),
    ),
    Case(
        "PP310",
        healthy().fact(TLS_CLIENT_CERT_REQUESTED, True),
        healthy().fact(TLS_CLIENT_CERT_REQUESTED, False),
    ),
    Case("PP311", unsecured("handshake-failure"), unsecured("cert-expired")),
    Case("PP312", unsecured("not-tls"), unsecured("handshake-failure")),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)


def test_a_failed_check_is_one_finding_not_two() -> None:
    trip = unsecured("cert-expired")
    trip.fact(TLS_VERIFY, {"verified": False, "error": "expired", "checked": True})
    check(Case("PP304", trip, opened()))
    with pytest.raises(AssertionError, match="PP305 did not fire"):
        check(Case("PP305", trip, opened()))
