from __future__ import annotations

from typing import Any

import pytest

from promptpath.analysis.facts import Facts
from promptpath.export import digest
from promptpath.model.enums import Stage
from promptpath.model.names import (
    FAILURE,
    HTTP_HEADERS,
    HTTP_REQUEST_ID,
    HTTP_STATUS,
    HTTP_VERSION,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    PROXY,
    STREAM_DIALECT,
    STREAM_MODEL,
    STREAM_USAGE,
    TCP_PEER,
    TLS_RESUMED,
    TLS_VERSION,
)
from promptpath.model.trace import Trace
from tests.analysis.build import TraceBuilder
from tests.export.documents import trip


def with_facts(*facts: tuple[str, Any]) -> Trace:
    builder = TraceBuilder()
    for key, value in facts:
        builder = builder.fact(key, value)
    return builder.build()


@pytest.mark.parametrize(
    ("header", "value", "place"),
    [
        ("cf-ray", "8c135d3eeec4a97a-SYD", "SYD"),
        ("x-amz-cf-pop", "JFK52-P2", "JFK"),
        ("x-served-by", "cache-lga21984-LGA, cache-pdx12345-PDX", "PDX"),
        ("x-vercel-id", "iad1::d4285-1769280933622-449e98882f00", "iad1"),
        ("fly-request-id", "01GEE8D86XET662W2T18NZN9G8-cdg", "cdg"),
        ("cf-ray", "8c135d3eeec4a97a", None),
        ("cf-ray", "<script>-SYD", None),
        ("x-other", "SYD", None),
    ],
)
def test_the_point_of_presence_is_read_from_known_headers(
    header: str, value: str, place: str | None
) -> None:
    facts = Facts(with_facts((HTTP_HEADERS, [[header, value]])))
    assert list(digest.pops(facts)) == ([(place, header)] if place else [])


def test_the_connection_is_one_line() -> None:
    trace = with_facts(
        (HTTP_STATUS, 200),
        (HTTP_VERSION, "2"),
        (TLS_VERSION, "TLSv1.3"),
        (TLS_RESUMED, {"offered": True, "accepted": True}),
        (TCP_PEER, {"address": "2001:db8::1", "port": 443, "family": "ipv6"}),
        (PROXY, {"kind": "http", "address": "proxy:3128"}),
    )
    assert digest.connection(trace) == (
        "status 200, HTTP/2, TLS 1.3 resumed, [2001:db8::1]:443, through http proxy proxy:3128"
    )


def test_the_conversation_is_one_line() -> None:
    trace = with_facts(
        (STREAM_DIALECT, {"name": "anthropic", "because": "payload"}),
        (STREAM_MODEL, "m-1"),
        (PROMPT_TOKENS, {"count": 10, "source": "usage"}),
        (OUTPUT_TOKENS, {"counted": 128, "source": "estimate"}),
    )
    assert digest.conversation(trace) == (
        "anthropic (by payload), model m-1, prompt 10 tokens (usage), answer 128 tokens (estimate)"
    )


def test_the_endpoints_own_count_of_the_answer_wins() -> None:
    trace = with_facts(
        (STREAM_USAGE, {"input_tokens": 8, "output_tokens": 128}),
        (OUTPUT_TOKENS, {"counted": 135, "source": "estimate"}),
    )
    assert digest.conversation(trace) == "answer 128 tokens (usage)"


def test_what_is_not_known_is_not_said() -> None:
    trace = with_facts()
    assert digest.connection(trace) is None and digest.conversation(trace) is None
    assert [line.label for line in digest.identity(trace)] == ["time"]
    assert digest.failure(trace) == []


def test_a_failure_is_told_as_errors_are() -> None:
    trace = TraceBuilder().fails(Stage.DNS, "nxdomain", "no such name").build()
    assert digest.failure(trace)[0] == "stopped at dns: no such name"


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, {"value": {"deep": [1]}}, [[1, 2], "x"]])
def test_facts_of_any_shape_are_survived(value: Any) -> None:
    keys = (
        HTTP_REQUEST_ID,
        HTTP_HEADERS,
        TCP_PEER,
        STREAM_DIALECT,
        STREAM_MODEL,
        PROXY,
        FAILURE,
        PROMPT_TOKENS,
        HTTP_STATUS,
    )
    trace = with_facts(*((key, value) for key in keys))
    digest.identity(trace), digest.connection(trace)
    digest.conversation(trace), digest.failure(trace)


def test_the_time_is_the_clocks_anchor() -> None:
    assert digest.started_at(trip()) == "2026-09-21 14:13:20 UTC"
