"""Times the far side reports, in bodies and headers, in their units."""

from __future__ import annotations

from typing import Any

import pytest

from promptpath.dialect.server_timings import FAMILIES, body_timings, header_timings

SCOPES = {
    *("auth", "limits", "session", "tokenize", "queue", "prefill", "decode"),
    *("ttft", "total", "edge", "gateway", "upstream", "other"),
}


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (
            {"x_groq": {"usage": {"queue_time": 0.25, "prompt_time": 0.001}}},
            {"queue": 250_000_000, "prefill": 1_000_000},
        ),
        ({"time_info": {"completion_time": 0.5, "total_time": 2}}, {"decode": 500_000_000}),
        ({"latency_checkpoint": {"pre_inference_ms": 82}}, {"gateway": 82_000_000}),
        (
            {"metrics": {"queue_time_ms": 1.5, "generation_time_ms": 90}},
            {"queue": 1_500_000, "decode": 90_000_000},
        ),
        ({"sla_metrics": {"ttft_ms": 274, "ts_us": 1}}, {"ttft": 274_000_000}),
        ({"usage": {"time_to_first_token_ms": 38.631}}, {"ttft": 38_631_000}),
        ({"usage": {"time_to_first_token": 0.1, "total_latency": 1}}, {"ttft": 100_000_000}),
        ({"usage": {"timing_prompt_processing": 20}}, {"prefill": 20_000_000}),
        (
            {"perf_metrics": {"prefill-duration": "0.02", "generation-duration": 0.3}},
            {"prefill": 20_000_000, "decode": 300_000_000},
        ),
        ({"timings": {"prompt_ms": 12.5, "predicted_ms": 100}}, {"prefill": 12_500_000}),
    ],
)
def test_each_vendors_fields_have_their_unit_and_scope(
    payload: dict[str, Any], expected: dict[str, int]
) -> None:
    found = {t.scope: t.duration_ns for t in body_timings(payload, final=True).timings}
    assert expected.items() <= found.items()


def test_no_scope_is_given_twice_in_one_payload() -> None:
    usage = {"queue_time": 0.1, "prompt_time": 0.2, "completion_time": 0.3, "total_time": 0.5}
    payload = {
        "usage": usage,
        "x_groq": {"usage": usage},
        "timings": {"prefill_ms": 1, "prompt_ms": 1, "decode_ms": 2, "predicted_ms": 2},
    }
    scopes = [t.scope for t in body_timings(payload, final=True).timings if t.scope != "other"]
    assert len(scopes) == len(set(scopes))


@pytest.mark.parametrize("value", [None, True, -1, "x", float("inf"), 1e300, [], {}, "9" * 60])
def test_a_value_that_is_no_time_is_left_out(value: object) -> None:
    assert body_timings({"timings": {"queue_ms": value}}, final=False).timings == ()


def test_counts_are_found_and_the_place_is_said() -> None:
    payload = {"timings": {"prompt_n": 9, "cache_n": 3}, "promptpath": {"batch": 4, "step": 7}}
    reported = body_timings(payload, final=False)
    assert dict(reported.counts) == {"prompt_n": 9, "cached_n": 3, "batch": 4, "step": 7}
    assert body_timings({"timings": {"queue_ms": 1}}, final=True).timings[0].place == "final"
    assert body_timings({"timings": {"queue_ms": 1}}, final=False).timings[0].place == "chunk"


def test_every_scope_of_the_table_is_one_of_the_trace() -> None:
    assert {scope for family in FAMILIES for _, scope in family.fields} <= SCOPES


def test_server_timing_headers_are_read_metric_by_metric() -> None:
    headers = [
        ("Server-Timing", 'auth;dur=1.5, tokenize;desc="x";dur=0.25, cache;desc=hit, odd;dur=x'),
        ("server-timing", "gfet4t7; dur=1253"),
        ("openai-processing-ms", "326"),
        ("x-kong-proxy-latency", "3"),
        ("content-type", "text/event-stream"),
    ]
    found = [(t.scope, t.duration_ns, t.name) for t in header_timings(headers)]
    assert found == [
        ("auth", 1_500_000, "auth"),
        ("tokenize", 250_000, "tokenize"),
        ("edge", 1_253_000_000, "gfet4t7"),
        ("upstream", 326_000_000, "openai-processing-ms"),
        ("gateway", 3_000_000, "x-kong-proxy-latency"),
    ]
    assert {t.place for t in header_timings(headers)} == {"header"}


def test_a_header_of_nonsense_gives_nothing() -> None:
    assert header_timings([("server-timing", ";;;=,dur=1,;dur=2,a;dur,b;dur=")]) == ()
    assert header_timings([("openai-processing-ms", "soon")]) == ()
