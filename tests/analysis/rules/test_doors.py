"""PP14x and PP45x: each rule with a trip that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.model.names import PROXY
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, opened
from tests.analysis.rules.case import Case, check


def answered(rtt_ms: float = 20, **headers: str) -> TraceBuilder:
    """A stream whose response has these headers beside a careful server's."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    trip = opened(rtt_ms=rtt_ms).head(rtt_ms + 2, headers={**CLEAN_HEADERS, **named})
    return trip.wait(50).text(5, gap_ms=20).marker().end()


def layer4(rtt_us: int) -> str:
    return f'cfL4;desc="?proto=TCP&rtt={rtt_us}&min_rtt={rtt_us}&lost=0"'


def proxied(rtt_us: int) -> TraceBuilder:
    proxy = {"kind": "http", "address": "p:1", "source": "option", "mode": "tunnel"}
    return answered(60, server_timing=layer4(rtt_us)).fact(PROXY, dict(proxy))


CASES = [
    Case(
        "PP140",
        answered(20, cf_ray="8c135d3eeec4a97a-SYD"),
        answered(20, cf_ray="8c135d3eeec4a97a"),
        says="SYD (cf-ray); a round trip of 20",
    ),
    Case(
        "PP450",
        answered(via="1.1 varnish, 1.1 google"),
        answered(via="1.1 google"),
        says="google",
    ),
    *(
        Case("PP450", answered(via="1.1 envoy, 1.1 google"), answered(20, **one))
        for one in (
            {"cf_ray": "8c135d3eeec4a97a-SYD", "server": "cloudflare", "cf_cache_status": "HIT"},
            {"x_amz_cf_pop": "JFK52-P2", "via": "1.1 a1b2.cloudfront.net (CloudFront)"},
            {"x_served_by": "cache-lga21984-LGA", "via": "1.1 varnish", "x_cache": "MISS"},
            {"fly_request_id": "01GEE8D86XET662W2T18NZN9G8-cdg", "via": "2 fly.io"},
            {"server": "istio-envoy", "x_envoy_upstream_service_time": "5"},
        )
    ),
    Case(
        "PP451",
        answered(60, server_timing=layer4(4_000)),
        answered(60, server_timing=layer4(50_000)),
        says="from whoever connected",
    ),
    Case("PP451", answered(60, server_timing=layer4(4_000)), proxied(4_000)),
    Case(
        "PP451",
        answered(60, server_timing=layer4(13_000)),
        answered(60, server_timing=layer4(15_000)),
    ),
    Case(
        "PP451", answered(60, server_timing=layer4(4_000)), answered(6, server_timing=layer4(2_000))
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_fires_and_keeps_quiet(case: Case) -> None:
    check(case)
