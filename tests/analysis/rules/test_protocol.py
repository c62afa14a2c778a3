"""PP50x and PP51x: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    DNS_HTTPS,
    HTTP_ALT_SVC,
    HTTP_ERROR_BODY,
    HTTP_RATE_LIMIT,
    HTTP_VERSION,
    MARK_GOAWAY,
    MARK_RESET,
    TLS_ALPN,
    TLS_ALPN_OFFERED,
)
from promptpath.model.rows import Json
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, healthy, opened, plan
from tests.analysis.rules.case import Case, check


def answered(status: int, kind: str = "application/json") -> TraceBuilder:
    trip = opened().head(30, status=status, headers={"content-type": kind}, framing="json")
    return trip.end(marker_expected=False, marker_seen=False)


def unanswered(stage: Stage) -> TraceBuilder:
    trip = opened().after(50).fails(stage, "closed", "the far side closed without a response")
    trip.log.end_span(trip._response or 0, trip.now_ns, Outcome.FAILED, "closed")
    return trip


def broke(name: str, code: int, *, complete: bool = False) -> TraceBuilder:
    trip = opened().head(22).text(9).mark(Stage.FINISH, name, code=code, direction="received")
    return trip.end(complete=complete, how="reset", marker_seen=False)


def alpn(agreed: str | None, version: str, offered: list[str]) -> TraceBuilder:
    trip = healthy().fact(TLS_ALPN_OFFERED, offered).fact(TLS_ALPN, agreed)
    return trip.fact(HTTP_VERSION, version)


def h3(value: Json) -> TraceBuilder:
    return healthy().fact(HTTP_ALT_SVC, value)


def closing(connection: str, *, complete: bool = True) -> TraceBuilder:
    trip = opened().head(22, headers={**CLEAN_HEADERS, "connection": connection})
    return trip.text(9).marker().end(complete=complete)


def typed(kind: str, framing: str | None) -> TraceBuilder:
    trip = opened().head(22, headers={"content-type": kind}, framing=framing)
    return trip.end(marker_expected=False, marker_seen=False)


CASES = (
    Case("PP501", answered(401), answered(404)),
    Case("PP501", answered(403), answered(200)),
    Case("PP502", answered(404), answered(403)),
    Case("PP503", answered(413), answered(400)),
    Case(
        "PP504",
        answered(429).fact(HTTP_RATE_LIMIT, {"retry_after_s": 12.0, "headers": []}),
        answered(503),
        says="Retry-After: 12 s",
    ),
    Case("PP504", answered(429), answered(420), says="no Retry-After"),
    Case("PP505", answered(503, "text/html"), answered(429)),
    Case(
        "PP506",
        answered(400).fact(HTTP_ERROR_BODY, {"type": "bad", "code": None, "message": "too long"}),
        answered(500),
        says="status 400, bad: too long",
    ),
    Case("PP507", answered(200, "text/html"), answered(200)),
    Case("PP507", answered(200, "text/html; charset=utf-8"), answered(502, "text/html")),
    Case("PP508", answered(200), answered(400)),
    Case("PP508", answered(200), healthy()),
    Case("PP509", unanswered(Stage.WAIT), unanswered(Stage.TCP)),
    Case("PP510", broke(MARK_RESET, 2), broke(MARK_RESET, 2, complete=True), says="code 2"),
    Case("PP510", broke(MARK_GOAWAY, 11), broke(MARK_GOAWAY, 0)),
    Case(
        "PP511",
        opened().head(22).text(9).end(complete=False, how="rst", marker_seen=False),
        opened().head(22).text(9).end(complete=False, how="fin", marker_seen=False),
    ),
    Case("PP512", alpn("http/1.1", "1.1", ["h2", "http/1.1"]), alpn("h2", "2", ["h2"])),
    Case("PP512", alpn(None, "1.1", ["h2", "http/1.1"]), alpn("http/1.1", "1.1", ["http/1.1"])),
    Case(
        "PP513",
        h3([{"protocol": "h3", "authority": ":443", "max_age_s": 86400}]),
        h3([{"protocol": "h2", "authority": ":443", "max_age_s": 86400}]),
        says="Alt-Svc",
    ),
    Case(
        "PP513",
        healthy().fact(DNS_HTTPS, {"alpn": ["h3", "h2"]}),
        healthy().fact(DNS_HTTPS, {"alpn": ["h2"]}),
        says="HTTPS record",
    ),
    Case("PP514", closing("close"), closing("keep-alive")),
    Case("PP514", closing("upgrade, Close"), closing("close", complete=False)),
    Case("PP514", alpn(None, "1.0", []), alpn(None, "1.1", [])),
    Case("PP514", broke(MARK_GOAWAY, 0, complete=True), healthy()),
    Case("PP515", typed("text/plain", "raw"), typed("text/html", "raw"), says="text/plain"),
    Case("PP515", typed("application/json", None), typed("application/json", "json")),
    Case("PP515", typed("text/plain", "raw"), typed("text/plain", "raw").limit("timeout", 1)),
    Case("PP516", answered(307), answered(304), says="status 307; no Location"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("code", ["PP507", "PP508"])
def test_a_plain_get_may_be_answered_by_a_page_or_a_document(code: str) -> None:
    kind = "text/html" if code == "PP507" else "application/json"
    with pytest.raises(AssertionError, match="did not fire"):
        check(Case(code, answered(200, kind), healthy(), plan=plan(method="GET")))
