"""Gaps, time per token, token sources, stalls."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.cadence import Rhythm
from promptpath.analysis.view import measure
from promptpath.model.enums import EventKind
from promptpath.model.names import OUTPUT_TOKENS, STREAM_USAGE
from tests.analysis.build import PLAN, TraceBuilder, ns, opened


def rhythm_of(trip: TraceBuilder) -> Rhythm:
    rhythm = measure(trip.build(), PLAN).rhythm
    assert rhythm is not None
    return rhythm


def spaced(gaps_ms: Sequence[float], *, tokens: int | None = 1) -> TraceBuilder:
    trip = opened().head(22).wait(50).event(EventKind.TEXT, tokens=tokens, chars=4)
    for gap in gaps_ms:
        trip.after(gap).event(EventKind.TEXT, tokens=tokens, chars=4)
    return trip


def test_a_uniform_stream_has_one_gap_and_no_stall() -> None:
    rhythm = rhythm_of(spaced([10] * 99))
    gaps = rhythm.cadence.inter_event_ms
    assert gaps is not None
    assert (gaps.count, gaps.p50, gaps.p99, gaps.max) == (99, 10, 10, 10)
    assert rhythm.cadence.stalls == ()


def test_one_pause_in_a_uniform_stream_is_a_stall_with_its_place() -> None:
    rhythm = rhythm_of(spaced([10] * 40 + [500] + [10] * 40))
    (stall,) = rhythm.cadence.stalls
    assert (stall.after_event, stall.duration_ms) == (40, 500)
    assert rhythm.stall_excess_ns == ns(490)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_a_jittery_stream_rarely_stalls(seed: int) -> None:
    """Exponential gaps, the most irregular memoryless rhythm: e^-9.2 a gap, 1 in 50 streams of
    200."""
    dice = random.Random(seed)
    rhythm = rhythm_of(spaced([dice.expovariate(1 / 30) for _ in range(200)]))
    assert len(rhythm.stalls) <= 1


@pytest.mark.parametrize("size", [2, 5, 9])
def test_bursts_are_a_rhythm_not_stalls(size: int) -> None:
    gaps = [400.0 if index % size == 0 else 1.0 for index in range(1, 20 * size)]
    assert rhythm_of(spaced(gaps)).stalls == []


def test_a_pause_nobody_sees_is_no_stall() -> None:
    assert rhythm_of(spaced([1] * 40 + [90] + [1] * 40)).stalls == []


def test_a_pause_within_its_own_error_is_no_stall() -> None:
    trip = opened().head(22).wait(50)
    trip.error_ns = ns(250)
    for index in range(60):
        trip.after(500 if index == 30 else 10).event(EventKind.TEXT, tokens=1, chars=4)
    assert rhythm_of(trip).stalls == []


def test_time_per_token_divides_a_gap_by_the_tokens_that_ended_it() -> None:
    rhythm = rhythm_of(spaced([40] * 20, tokens=4))
    assert rhythm.cadence.itl_ms is not None
    assert rhythm.cadence.itl_ms.p50 == 10
    assert rhythm.cadence.tokens_per_event == 4


def test_an_event_without_a_token_passes_its_gap_on() -> None:
    trip = opened().head(22).event(EventKind.TEXT, tokens=1, chars=1)
    for tokens in (0, 1, 0, 1):
        trip.after(10).event(EventKind.TEXT, tokens=tokens, chars=1)
    itl = rhythm_of(trip).cadence.itl_ms
    assert itl is not None
    assert (itl.count, itl.p50) == (2, 20)


def test_usage_beats_our_own_count_which_beats_the_events() -> None:
    trip = spaced([10] * 9)
    assert rhythm_of(trip).cadence.token_source == "events"
    trip.fact(OUTPUT_TOKENS, {"counted": 12, "source": "o200k_base"})
    assert rhythm_of(trip).cadence.output_tokens == 12
    trip.fact(STREAM_USAGE, {"output_tokens": 11, "reasoning_tokens": None})
    cadence = rhythm_of(trip).cadence
    assert (cadence.output_tokens, cadence.token_source) == (11, "usage")
    assert cadence.tpot_ms == 9


def test_reasoning_that_never_streamed_does_not_make_tokens_look_fast() -> None:
    trip = spaced([10] * 9).fact(STREAM_USAGE, {"output_tokens": 510, "reasoning_tokens": 500})
    cadence = rhythm_of(trip).cadence
    assert cadence.output_tokens == 510
    assert cadence.tpot_ms == 10
    assert cadence.tokens_per_s == 100


def test_a_first_event_of_many_tokens_does_not_make_the_rate_look_fast() -> None:
    trip = opened().head(22).event(EventKind.TEXT, tokens=8, chars=30)
    trip.text(10, gap_ms=10, first_gap_ms=10)
    assert rhythm_of(trip).cadence.tokens_per_s == 100


def test_without_tokens_nothing_per_token_is_claimed() -> None:
    cadence = rhythm_of(spaced([10] * 9, tokens=None)).cadence
    assert (cadence.output_tokens, cadence.tpot_ms, cadence.itl_ms) == (None, None, None)
    assert cadence.inter_event_ms is not None


def test_no_content_is_no_cadence() -> None:
    assert measure(opened().head(22).marker().build(), PLAN).rhythm is None
