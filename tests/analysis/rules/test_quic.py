"""PP22x and PP23x: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

from typing import Any

import pytest

from promptpath.model.enums import FactSource, Stage
from promptpath.model.names import (
    HTTP_END,
    MARK_QUIC,
    QUIC_CLOSE,
    QUIC_EARLY_DATA,
    QUIC_ECN,
    QUIC_HANDSHAKE,
    QUIC_PACKETS,
    QUIC_PARAMETERS,
    QUIC_RACE,
    QUIC_UDP,
)
from tests.analysis.build import TraceBuilder, healthy
from tests.analysis.rules.case import Case, check


def having(key: str, **value: Any) -> TraceBuilder:
    """A healthy trip with one more fact."""
    trip = healthy()
    trip.log.add_fact(key, value, FactSource.OBSERVED, None)
    return trip


def shaken(**changes: Any) -> TraceBuilder:
    """A handshake with something about it."""
    usual = {"version": "v1", "round_trips": 1, "retry": False, "version_negotiation": None}
    return having(QUIC_HANDSHAKE, **{**usual, "initials": 1, **changes})


def stopped(code: str) -> TraceBuilder:
    """A trip that ended in the handshake."""
    return TraceBuilder().dns(2).fails(Stage.QUIC, code)


def cut(complete: bool = False, **close: Any) -> TraceBuilder:
    """A connection that ended within the answer."""
    trip = healthy()
    end = {"how": "rst", "code": None, "complete": complete, "detail": None}
    trip.log.add_fact(HTTP_END, end, FactSource.OBSERVED, None)
    usual = {"conn": 1, "by": "peer", "how": "close", "code": 2, "application": False, "reason": ""}
    trip.log.add_fact(QUIC_CLOSE, {**usual, **close}, FactSource.REPORTED, None)
    return trip


def early(**changes: Any) -> TraceBuilder:
    """What --early-data found."""
    usual = {"offered": True, "accepted": True, "retried": False, "why": None, "status": 200}
    more = {"request": "GET /", "head_ns": 41_000_000, "saved_ns": 42_000_000}
    return having(QUIC_EARLY_DATA, **{**usual, **more, **changes})


CASES = [
    Case("PP220", shaken(retry=True, round_trips=2), shaken(), says="one more round trip"),
    Case("PP221", shaken(version_negotiation=["v2"]), shaken(version_negotiation=[]), says="v2"),
    Case("PP222", shaken(initials=2), shaken(initials=2, round_trips=2, retry=True)),
    Case(
        "PP223",
        having(QUIC_PARAMETERS, effective_idle_ms=60_000),
        having(QUIC_PARAMETERS, effective_idle_ms=60_001),
        says="60",
    ),
    Case(
        "PP224",
        having(QUIC_PACKETS, conn=1, sent=200, lost=2),
        having(QUIC_PACKETS, conn=1, sent=201, lost=2),
        says="2 of 200",
    ),
    Case(
        "PP224",
        having(QUIC_PACKETS, conn=1, sent=20, lost=2),
        having(QUIC_PACKETS, conn=2, sent=20, lost=2),
    ),
    Case("PP225", stopped("udp-silent"), stopped("udp-rejected")),
    Case("PP226", stopped("udp-rejected"), stopped("udp-silent")),
    Case("PP227", cut(reason="worse"), cut(complete=True), says="0x2 (worse)"),
    Case("PP227", cut(application=True), cut(how="idle"), says="HTTP/3 code"),
    Case("PP228", cut(how="stateless-reset"), cut()),
    Case("PP228", cut(how="icmp", reason="Connection refused"), cut(how="idle"), says="refused"),
    Case("PP229", cut(how="idle", by="timer"), cut()),
    Case(
        "PP230",
        having(QUIC_UDP, port=443, what="silence"),
        having(QUIC_UDP, port=443, what="answered"),
        says="443",
    ),
    Case(
        "PP235",
        having(QUIC_RACE, winner="tcp", why="silence", cost_ns=250_000_000),
        having(QUIC_RACE, winner="quic", why=None, cost_ns=None),
        says="cost 250 ms",
    ),
    Case(
        "PP236",
        having(QUIC_ECN, conn=1, ce=3, ect0=10, ect1=0, not_ect=0),
        having(QUIC_ECN, conn=1, ce=0, ect0=10, ect1=0, not_ect=0),
        says="3 datagrams",
    ),
    Case(
        "PP237",
        healthy().mark(Stage.QUIC, MARK_QUIC, step="path-challenge"),
        healthy().mark(Stage.QUIC, MARK_QUIC, step="confirmed"),
    ),
    Case("PP231", early(), early(status=425), says="42"),
    Case("PP232", early(status=425), early(), says="425"),
    Case("PP232", early(accepted=False), early(), says="rejected"),
    Case("PP232", early(offered=False, accepted=None, why="none"), early(), says="none"),
    Case("PP238", stopped("unconfirmed"), stopped("retry-loop")),
    Case("PP238", cut(how="unconfirmed", by="timer"), cut(how="idle", by="timer")),
    Case("PP233", stopped("alpn-mismatch"), stopped("retry-loop")),
    Case("PP234", stopped("retry-loop"), stopped("cert-expired")),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_fires_and_keeps_quiet(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("key", [QUIC_HANDSHAKE, QUIC_PARAMETERS, QUIC_CLOSE, QUIC_UDP])
@pytest.mark.parametrize("value", ["text", None, [1], {"how": 3, "code": "x", "what": {}}])
def test_facts_of_any_shape_are_no_crash(key: str, value: Any) -> None:
    trip = healthy()
    trip.log.add_fact(key, value, FactSource.REPORTED, None)
    check(Case("PP220", shaken(retry=True), trip))
