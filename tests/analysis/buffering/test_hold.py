"""The hold from arrivals alone against what the sender knows."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.buffering.hold import (
    estimate_hold,
    excess_ns,
    measure_hold,
    reached_by_a_tenth,
    tolerated_ns,
)
from promptpath.analysis.buffering.shape import Shape
from tests.analysis.buffering import flow as f


@given(st.integers(1, 5000), st.sampled_from([60, 100, 400]))
@settings(max_examples=40, deadline=None)
def test_the_estimate_is_right_within_its_error(seed: int, period: int) -> None:
    flow = f.timed(period, f.steady(200, gap_ms=10, size=97, ttft_ms=100 + seed % 7))
    evidence = f.evidence_of(flow, stamps=True)
    estimate, truth = estimate_hold(Shape(evidence)), measure_hold(evidence)
    assert not estimate.measured
    assert abs(estimate.p90_ns - truth.p90_ns) <= estimate.error_ns + 1


def test_a_stream_of_single_events_was_not_held() -> None:
    shape = Shape(f.evidence_of(f.one_by_one(f.steady(20, gap_ms=30, size=97))))
    hold = estimate_hold(shape)
    assert (hold.p90_ns, hold.max_ns) == (0, 0)
    assert hold.error_ns == pytest.approx(30e6)


def test_nothing_was_held_before_it_was_asked_for() -> None:
    sent = f.steady(40, gap_ms=500, size=97, ttft_ms=50)
    late = f.start_held(97 * 30, sent)
    for delivery in late.deliveries:
        delivery.at_ms -= 14_000
    hold = estimate_hold(Shape(f.evidence_of(late)))
    assert hold.first_ns <= late.deliveries[0].at_ms * 1e6


def test_the_fastest_event_is_the_zero_of_the_rest() -> None:
    flow = f.one_by_one(f.steady(10, gap_ms=20, size=97))
    flow.deliveries[4].at_ms += 7
    found = excess_ns(f.evidence_of(flow, stamps=True, offset_ms=123))
    assert found == [0, 0, 0, 0, 7_000_000, 0, 0, 0, 0, 0]


def test_half_a_round_trip_is_tolerated_on_top() -> None:
    flow = f.one_by_one(f.steady(10, gap_ms=20, size=97))
    flow.rtt_ms = 80
    assert tolerated_ns(f.evidence_of(flow)) == 60_000_000


@pytest.mark.parametrize("count", [1, 9, 10, 11, 40, 100])
def test_a_tenth_of_the_values_reach_it(count: int) -> None:
    values = [float(value) for value in range(count)]
    found = reached_by_a_tenth(values)
    assert sum(value >= found for value in values) >= count / 10
    assert sum(value > found for value in values) < max(count / 10, 1)


def test_there_is_no_tenth_of_nothing() -> None:
    with pytest.raises(ValueError, match="nothing"):
        reached_by_a_tenth([])
