"""PP4xx: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    HTTP_CONTENT_DECODER,
    HTTP_FRAMING,
    HTTP_REDIRECT,
    PROXY,
    SPAN_PROXY_TUNNEL,
)
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def sent(**headers: str) -> TraceBuilder:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return opened().head(22, headers={**CLEAN_HEADERS, **names}).text(9).marker().end()


def bare(kind: str = "text/event-stream", **headers: str) -> TraceBuilder:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return opened().head(22, headers={"content-type": kind, **names}).text(9).marker().end()


def proxied(ms: float) -> TraceBuilder:
    trip = TraceBuilder().dns(2)
    trip.span(Stage.PROXY, SPAN_PROXY_TUNNEL, ms)
    trip.fact(PROXY, {"kind": "http", "address": "proxy.example:3128", "status": 200})
    return trip.tls(20).request().head(20).wait(100).text(9).marker().end()


def unproxied(code: str) -> TraceBuilder:
    trip = TraceBuilder().dns(2)
    trip.span(Stage.PROXY, SPAN_PROXY_TUNNEL, 5, outcome=Outcome.FAILED, error="no")
    return trip.fails(Stage.PROXY, code)


def framed(framing: str) -> TraceBuilder:
    return healthy().fact(HTTP_FRAMING, framing)


def coded(trip: TraceBuilder, error: str | None) -> TraceBuilder:
    sizes = {"encoding": "gzip", "encoded_bytes": 90, "decoded_bytes": 70}
    return trip.fact(HTTP_CONTENT_DECODER, {**sizes, "error": error})


def cut() -> TraceBuilder:
    return opened().head(22).text(9).end(complete=False, how="fin", marker_seen=False)


CASES = (
    Case("PP401", bare(), sent()),
    Case("PP401", bare(), bare("application/json")),
    Case("PP401", bare(), bare(cache_control="no-transform")),
    Case("PP402", sent(content_encoding="gzip"), sent(content_encoding="identity"), says="gzip"),
    Case("PP403", sent(content_length="4096"), sent(transfer_encoding="chunked"), says="4096"),
    Case("PP404", proxied(60), proxied(10), says="60.0 ms"),
    Case("PP405", unproxied("credentials"), unproxied("refused")),
    Case("PP406", unproxied("refused"), unproxied("credentials")),
    Case(
        "PP407",
        healthy().fact(HTTP_REDIRECT, {"status": 308, "from": "a", "to": "https://b.example/"}),
        healthy(),
        says="https://b.example/",
    ),
    Case("PP408", framed("until-close"), framed("chunked")),
    Case(
        "PP409",
        opened().head(22).text(9).marker().end(complete=False, how="fin"),
        opened().head(22).text(9).marker().end(complete=False, how="cut-by-us"),
        says="fin",
    ),
    Case("PP410", coded(healthy(), "corrupt"), coded(healthy(), None), says="gzip: corrupt"),
    Case(
        "PP410",
        coded(healthy(), "the coded data is cut off"),
        coded(cut(), "the coded data is cut off"),
    ),
    Case("PP410", coded(cut(), "corrupt"), coded(healthy(), "corrupt").limit("max-bytes", 9)),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_fires_on_its_trip_and_keeps_quiet_on_the_near_miss(case: Case) -> None:
    check(case)
