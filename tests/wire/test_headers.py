from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.headers import (
    DEFAULT_ALT_SVC_AGE_S,
    alt_svc,
    rate_limit,
    request_id,
    retry_after_s,
)

DATE = "Wed, 21 Oct 2026 07:28:00 GMT"


def test_alt_svc_lists_its_offers_with_their_age() -> None:
    value = 'h3=":443"; ma=2592000,h3-29="alt.example:8443"; persist=1, h2=":444";ma="60"'
    assert alt_svc((("alt-svc", value),)) == [
        {"protocol": "h3", "authority": ":443", "max_age_s": 2_592_000},
        {
            "protocol": "h3-29",
            "authority": "alt.example:8443",
            "max_age_s": DEFAULT_ALT_SVC_AGE_S,
        },
        {"protocol": "h2", "authority": ":444", "max_age_s": 60},
    ]


@pytest.mark.parametrize("value", ["clear", " clear ", "", ",,,", "h3", '=":443"'])
def test_alt_svc_without_an_offer_is_empty(value: str) -> None:
    assert alt_svc((("alt-svc", value),)) == []


def test_alt_svc_of_a_hostile_peer_is_bounded_and_printable() -> None:
    offers = alt_svc((("alt-svc", 'h3="\x1b[2J:1",' * 10_000),))
    assert len(offers) == 16
    assert all(str(offer["authority"]).isprintable() for offer in offers)


def test_the_vendor_s_request_id_comes_before_the_edge_s() -> None:
    headers = (("cf-ray", "8f-FRA"), ("x-request-id", "req_1"))
    assert request_id(headers) == {"header": "x-request-id", "value": "req_1"}
    assert request_id(headers[:1]) == {"header": "cf-ray", "value": "8f-FRA"}
    assert request_id(()) is None


def test_limits_are_kept_in_the_vendor_s_words() -> None:
    headers = (
        ("content-type", "text/event-stream"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("anthropic-ratelimit-requests-reset", "2026-11-30T20:00:00Z"),
        ("ratelimit", '"api";r=498;t=102'),
        ("ratelimitbysize-reset", "21"),
        ("retry-after", "12"),
    )
    assert rate_limit(headers) == {
        "retry_after_s": 12.0,
        "headers": [[name, value] for name, value in headers[1:]],
    }
    assert rate_limit(headers[:1]) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ((("retry-after", "120"),), 120.0),
        ((("retry-after", " 1.5 "),), 1.5),
        ((("retry-after-ms", "250"), ("retry-after", "1")), 0.25),
        ((("retry-after", DATE), ("date", "Wed, 21 Oct 2026 07:27:30 GMT")), 30.0),
        ((("retry-after", DATE), ("date", "Wed, 21 Oct 2026 07:29:00 GMT")), 0.0),
        ((("retry-after", DATE),), None),
        ((("retry-after", "Wed, 99 Oct 2026 07:28:00 GMT"), ("date", DATE)), None),
        ((("retry-after", "Wed, 21 Okt 2026 07:28:00 GMT"), ("date", DATE)), None),
        ((("retry-after", "soon"), ("date", DATE)), None),
        ((("retry-after", "-1"),), None),
        ((("retry-after", "9" * 5000),), None),
        ((), None),
    ],
)
def test_retry_after_is_seconds_a_date_or_nothing(
    headers: tuple[tuple[str, str], ...], seconds: float | None
) -> None:
    assert retry_after_s(headers) == seconds


@given(
    st.sampled_from(["alt-svc", "retry-after", "retry-after-ms", "date", "x-ratelimit-x"]),
    st.text(st.characters(max_codepoint=255), max_size=200),
)
def test_any_header_value_is_read_without_raising(name: str, value: str) -> None:
    headers = ((name, value), ("date", DATE), ("retry-after", value))
    alt_svc(headers)
    rate_limit(headers)
    request_id(headers)
