"""What response headers tell of the boxes they passed: forms of vendors, and what looks alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis.doors import DECODERS, boxes, edge_tcp, places, reach_km


@pytest.mark.parametrize(
    ("header", "value", "found"),
    [
        ("cf-ray", "8c135d3eeec4a97a-SYD", [("Cloudflare", "SYD", "edge")]),
        ("x-amz-cf-pop", "JFK52-P2", [("CloudFront", "JFK", "edge")]),
        ("x-amz-cf-pop", "FRA60", [("CloudFront", "FRA", "edge")]),
        (
            "x-served-by",
            "cache-lga21984-LGA, cache-pdx12345-PDX",
            [("Fastly", "PDX", "edge"), ("Fastly", "LGA", "shield")],
        ),
        ("x-served-by", "cache-ams-eham8880048-AMS", [("Fastly", "AMS", "edge")]),
        ("x-vercel-id", "iad1::d4285-1769280933622-449e98882f00", [("Vercel", "iad1", "edge")]),
        (
            "x-vercel-id",
            "sfo1::iad1::d4285-1769280933622-449e98882f00",
            [("Vercel", "sfo1", "edge"), ("Vercel", "iad1", "function")],
        ),
        ("fly-request-id", "01GEE8D86XET662W2T18NZN9G8-cdg", [("Fly", "cdg", "edge")]),
        (
            "x-azure-ref",
            "20260224T091445Z-17c9cc7f8d9x2jvmhC1BY10fq",
            [("Azure Front Door", None, "edge")],
        ),
        (
            "via",
            "1.1 varnish, 2 fly.io",
            [("Varnish or Fastly", None, "proxy"), ("Fly", None, "proxy")],
        ),
        ("via", "1.1 google", [("google", None, "proxy")]),
        ("server", "cloudflare", [("Cloudflare", None, "proxy")]),
        ("server", "Fly/a1b2c3 (2026-01-01)", [("Fly", None, "proxy")]),
        ("cf-cache-status", "DYNAMIC", [("Cloudflare", None, "cache")]),
        ("x-cache", "Miss from cloudfront", [("CloudFront", None, "cache")]),
        (
            "x-cache",
            "TCP_MISS from a23-1-2-3.deploy.akamaitechnologies.com (AkamaiGHost/11.1) (-)",
            [("Akamai", None, "cache")],
        ),
        (
            "proxy-status",
            'p1; error=x; details="a, b; c", p2',
            [("p1", None, "proxy"), ("p2", None, "proxy")],
        ),
        ("cache-status", '"CDN Co, Inc"; hit', [("CDN Co, Inc", None, "cache")]),
        ("via", "1.1 box.example:8080", [("box.example", None, "proxy")]),
        ("x-envoy-upstream-service-time", "1032", [("Envoy", None, "proxy")]),
        ("proxy-status", "edge-7; error=http_request_error", [("edge-7", None, "proxy")]),
        (
            "cache-status",
            '"CDN1"; fwd=uri-miss, Origin; hit',
            [("CDN1", None, "cache"), ("Origin", None, "cache")],
        ),
        ("server-timing", "cdn-cache; desc=HIT, edge; dur=1", [("Akamai", None, "cache")]),
        ("server-timing", 'cfL4;desc="?proto=TCP&rtt=20966"', [("Cloudflare", None, "edge")]),
    ],
)
def test_a_vendors_form_is_read(
    header: str, value: str, found: list[tuple[str, str | None, str]]
) -> None:
    assert [(box.vendor, box.place, box.role) for box in boxes({header: value})] == found


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("cf-ray", "8c135d3eeec4a97a"),
        ("cf-ray", "<script>-SYD"),
        ("cf-ray", "8c135d3eeec4a97a-SYDNEY"),
        ("x-amz-cf-pop", "JFKX"),
        ("x-served-by", "web-7"),
        ("x-vercel-id", "d4285-1769280933622"),
        ("fly-request-id", "01GEE8D86XET662W2T18NZN9G8"),
        ("x-envoy-upstream-service-time", "soon"),
        ("server", "nginx"),
        ("via", "1.1 ok:\x1b[31m"),
        ("via", "1.1 \x1b[31m"),
        ("x-other", "SYD"),
    ],
)
def test_what_has_another_form_gives_nothing(header: str, value: str) -> None:
    assert boxes({header: value}) == ()


def test_places_are_those_that_have_one() -> None:
    headers = {"cf-ray": "8c135d3eeec4a97a-SYD", "via": "1.1 google", "server": "cloudflare"}
    assert [box.place for box in places(headers)] == ["SYD"]


@given(value=st.text(max_size=300), name=st.sampled_from([name for name, _ in DECODERS]))
def test_no_value_raises_or_floods(value: str, name: str) -> None:
    assert len(boxes({name: value * 5})) <= 40
    edge_tcp({"server-timing": value})


def test_the_edges_own_round_trip() -> None:
    value = (
        'cfCacheStatus;desc="DYNAMIC", cfL4;desc="?proto=TCP&rtt=20966&min_rtt=20100&rtt_var=1'
        '&sent=7&recv=7&lost=1&retrans=0&cwnd=253"'
    )
    edge = edge_tcp({"server-timing": value})
    assert edge is not None
    assert (edge.protocol, edge.rtt_ns, edge.min_rtt_ns, edge.lost) == (
        "TCP",
        20_966_000,
        20_100_000,
        1,
    )


@pytest.mark.parametrize(
    "value", ["", "cfL4", 'cfL4;desc="?rtt=5"', 'cfL4;desc="?proto=TCP&rtt=x"', "edge;dur=1"]
)
def test_an_unreadable_cfl4_is_none(value: str) -> None:
    assert edge_tcp({"server-timing": value}) is None


def test_ten_milliseconds_reach_a_thousand_kilometres() -> None:
    assert reach_km(10_000_000) == pytest.approx(1021, abs=2)
