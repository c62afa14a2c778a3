"""What the far side says about its own time: one table for stream bodies, one for response headers.

Sources: the vendors' documents and recorded streams; units differ (ms, s, ns, us), names differ,
and a header of a *stream* is the time to the response head, never the time to the first token
(measured on recorded traffic: openai-processing-ms has p50 73 ms on Responses streams, 1,766 ms
without streaming).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from promptpath.dialect.base import Timing
from promptpath.dialect.payload import INT64_MAX, at, count, number
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_MS, NS_PER_S

CHUNK: Final = "chunk"
FINAL: Final = "final"
HEADER: Final = "header"


@dataclass(frozen=True, slots=True)
class Family:
    """The times of one vendor: the object that holds them, their unit, and field -> scope. Where
    two fields of one payload have the same scope the first one present has it and the rest become
    `other`, so that nothing is counted twice."""

    vendor: str
    path: tuple[str, ...]
    unit_ns: int
    fields: tuple[tuple[str, str], ...]


FAMILIES: Final[tuple[Family, ...]] = (
    Family(  # docs/contract/timing.md; prompt_ms and predicted_ms are llama.cpp's names
        "promptpath and llama.cpp",
        ("timings",),
        NS_PER_MS,
        (
            ("auth_ms", "auth"),
            ("read_ms", "other"),
            ("validate_ms", "other"),
            ("limits_ms", "limits"),
            ("session_ms", "session"),
            ("tokenize_ms", "tokenize"),
            ("queue_ms", "queue"),
            ("prefill_ms", "prefill"),
            ("prompt_ms", "prefill"),
            ("decode_ms", "decode"),
            ("predicted_ms", "decode"),
        ),
    ),
    Family(  # total = prompt + completion in 107 of 107 recorded answers: the queue is not in it
        "Groq",
        ("x_groq", "usage"),
        NS_PER_S,
        (
            ("queue_time", "queue"),
            ("prompt_time", "prefill"),
            ("completion_time", "decode"),
            ("total_time", "total"),
        ),
    ),
    Family(
        "Cerebras",
        ("time_info",),
        NS_PER_S,
        (
            ("queue_time", "queue"),
            ("prompt_time", "prefill"),
            ("completion_time", "decode"),
            ("total_time", "total"),
        ),
    ),
    Family(  # undocumented; user_visible_ttft = service_ttft - pre_inference (+-1) in 5 of 5
        "Azure OpenAI",
        ("latency_checkpoint",),
        NS_PER_MS,
        (
            ("pre_inference_ms", "gateway"),
            ("service_ttft_ms", "ttft"),
            ("total_duration_ms", "total"),
            ("engine_ttft_ms", "other"),
            ("engine_tbt_ms", "other"),
            ("engine_ttlt_ms", "other"),
            ("service_tbt_ms", "other"),
            ("service_ttlt_ms", "other"),
            ("user_visible_ttft_ms", "other"),
        ),
    ),
    Family(  # generation_time: first to last token (vLLM docs, per-request metrics)
        "vLLM",
        ("metrics",),
        NS_PER_MS,
        (
            ("queue_time_ms", "queue"),
            ("time_to_first_token_ms", "ttft"),
            ("generation_time_ms", "decode"),
            ("mean_itl_ms", "other"),
        ),
    ),
    Family("Novita", ("sla_metrics",), NS_PER_MS, (("ttft_ms", "ttft"),)),
    Family(
        "llama-box and LocalAI",
        ("usage",),
        NS_PER_MS,
        (
            ("time_to_first_token_ms", "ttft"),
            ("time_per_output_token_ms", "other"),
            ("timing_prompt_processing", "prefill"),
            ("timing_token_generation", "decode"),
        ),
    ),
    Family(
        "SambaNova and Groq",
        ("usage",),
        NS_PER_S,
        (
            ("time_to_first_token", "ttft"),
            ("total_latency", "total"),
            ("queue_time", "queue"),
            ("prompt_time", "prefill"),
            ("completion_time", "decode"),
            ("total_time", "total"),
        ),
    ),
    Family(
        "Fireworks",
        ("perf_metrics",),
        NS_PER_S,
        (
            ("prefill-queue-duration", "queue"),
            ("prefill-duration", "prefill"),
            ("generation-duration", "decode"),
            ("server-time-to-first-token", "ttft"),
            ("server-processing-time", "total"),
            ("tokenizer-queue-duration", "other"),
            ("generation-queue-duration", "other"),
        ),
    ),
)

COUNTS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("timings", "prompt_n"), "prompt_n"),
    (("timings", "cached_n"), "cached_n"),
    (("timings", "cache_n"), "cached_n"),
    (("timings", "predicted_n"), "predicted_n"),
    (("timings", "draft_n"), "draft_n"),
    (("timings", "draft_n_accepted"), "draft_n_accepted"),
    (("promptpath", "batch"), "batch"),
    (("promptpath", "step"), "step"),
    (("perf_metrics", "num-concurrent-requests"), "batch"),
    (("perf_metrics", "cached-prompt-tokens"), "cached_n"),
)
"""Where a count stands, and its name in names.SERVER_COUNT."""

_HOLDERS: Final = frozenset(family.path[0] for family in FAMILIES) | {"promptpath"}

HEADER_TIMES: Final[dict[str, tuple[str, int]]] = {
    "openai-processing-ms": ("upstream", NS_PER_MS),
    "x-envoy-upstream-service-time": ("upstream", NS_PER_MS),
    "x-kong-upstream-latency": ("upstream", NS_PER_MS),
    "x-kong-proxy-latency": ("gateway", NS_PER_MS),
    "x-litellm-overhead-duration-ms": ("gateway", NS_PER_MS),
    "x-litellm-response-duration-ms": ("upstream", NS_PER_MS),
    "x-litellm-callback-duration-ms": ("other", NS_PER_MS),
    "cmp-upstream-response-duration": ("upstream", NS_PER_MS),
    "fireworks-server-time-to-first-token": ("ttft", NS_PER_S),
    "x-queue-time": ("queue", NS_PER_MS),
    "x-validation-time": ("tokenize", NS_PER_MS),
    "x-inference-time": ("other", NS_PER_MS),
}
"""Header -> scope and unit; the TGI names (x-queue-time ...) come without streaming only."""

SERVER_TIMING_NAMES: Final[dict[str, str]] = {
    "auth": "auth",
    "limits": "limits",
    "session": "session",
    "tokenize": "tokenize",
    "queue": "queue",
    "prefill": "prefill",
    "gfet4t7": "edge",  # Google front end: time to the first response byte
    "x-originresponse": "upstream",  # Anthropic: = x-envoy-upstream-service-time + 1..2 ms
    "cfreqdur": "edge",  # Cloudflare
    "cfl4": "other",
    "origin": "upstream",
    "edge": "edge",
    "cdn-upstream-fbl": "upstream",
    "total": "total",
}
"""Metric name of a Server-Timing header (W3C Server Timing), lower case -> scope."""


@dataclass(frozen=True, slots=True)
class Reported:
    """Times and counts found in one place."""

    timings: tuple[Timing, ...] = ()
    counts: tuple[tuple[str, int | float], ...] = ()


_NOTHING: Final = Reported()


def body_timings(payload: dict[str, Json], *, final: bool) -> Reported:
    """The times and counts in one stream payload; `final`: it stands at the stream's end."""
    held = {name for name in _HOLDERS.intersection(payload) if isinstance(payload[name], dict)}
    if not held:
        return _NOTHING
    place = FINAL if final else CHUNK
    timings: list[Timing] = []
    taken: set[str] = set()
    for family in FAMILIES:
        if family.path[0] in held and isinstance(holder := at(payload, *family.path), dict):
            timings.extend(_family_times(family, holder, place, taken))
    counts: dict[str, int] = {}
    for path, name in COUNTS:
        if path[0] in held and (value := count(at(payload, *path))) is not None:
            counts.setdefault(name, value)
    return Reported(tuple(timings), tuple(counts.items()))


def _family_times(
    family: Family, holder: dict[str, Json], place: str, taken: set[str]
) -> Iterable[Timing]:
    for name, scope in family.fields:
        duration_ns = _duration(holder.get(name), family.unit_ns)
        if duration_ns is None:
            continue
        yield Timing(
            scope="other" if scope in taken else scope,
            duration_ns=duration_ns,
            name=".".join((*family.path, name)),
            place=place,
        )
        taken.add(scope)


def header_timings(headers: Iterable[tuple[str, str]]) -> tuple[Timing, ...]:
    """The times in a response's headers, Server-Timing included, in their order."""
    timings: list[Timing] = []
    for raw_name, value in headers:
        name = raw_name.lower()
        if name == "server-timing":
            timings.extend(_server_timing(value))
        elif name in HEADER_TIMES:
            scope, unit_ns = HEADER_TIMES[name]
            duration_ns = _duration(value.strip(), unit_ns)
            if duration_ns is not None:
                timings.append(
                    Timing(scope=scope, duration_ns=duration_ns, name=name, place=HEADER)
                )
    return tuple(timings)


def _server_timing(value: str) -> Iterable[Timing]:
    for entry in value[:8192].split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        for parameter in parameters:
            key, _, raw = parameter.partition("=")
            if key.strip().lower() != "dur":
                continue
            duration_ns = _duration(raw.strip().strip('"'), NS_PER_MS)
            if name and duration_ns is not None:
                yield Timing(
                    scope=SERVER_TIMING_NAMES.get(name.lower(), "other"),
                    duration_ns=duration_ns,
                    name=name,
                    place=HEADER,
                )
            break


def _duration(value: Json, unit_ns: int) -> int | None:
    amount = number(value)
    if amount is None or amount * unit_ns > INT64_MAX:
        return None
    return round(amount * unit_ns)
