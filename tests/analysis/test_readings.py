from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis import readings
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.readings import Missing, Reading, around, combine, outer_rank
from promptpath.model.document import Run
from promptpath.model.enums import Stage
from promptpath.model.trace import Trace
from tests.analysis.build import PLAN, TraceBuilder, healthy, opened


def run_of(trace: Trace) -> Run:
    return Run(trace=trace, report=diagnose(trace, PLAN))


def reading(found: Reading | Missing) -> Reading:
    assert isinstance(found, Reading), found
    return found


@pytest.mark.parametrize(
    ("runs", "rank"), [(1, 1), (2, 1), (5, 1), (7, 1), (8, 2), (10, 2), (11, 3), (20, 6)]
)
def test_the_ranks_are_those_of_the_sign_tests_table(runs: int, rank: int) -> None:
    # Conover, Practical Nonparametric Statistics, table A3: p = 0.5, 5 % on each side.
    assert outer_rank(runs) == rank


def test_one_run_is_its_own_interval() -> None:
    assert combine([around(10, 2)]) == Reading(value=10, low=8, high=12)


def test_few_runs_span_all_of_them() -> None:
    found = combine([around(value, 1) for value in (30, 10, 20)])
    assert found == Reading(value=20, low=9, high=31)


def test_of_eight_runs_one_odd_one_on_each_side_is_left_out() -> None:
    values = [1.0, 10, 11, 12, 13, 14, 15, 999]
    assert combine([around(value, 0) for value in values]) == Reading(value=12.5, low=10, high=15)


def test_what_never_came_is_infinite_and_still_has_a_median() -> None:
    never = Reading(value=inf, low=inf, high=inf)
    assert combine([around(10, 0), never]) == Reading(value=inf, low=10, high=inf)


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e3)).map(lambda pair: around(*pair)),
        min_size=1,
        max_size=40,
    )
)
def test_the_median_lies_in_its_interval(found: list[Reading]) -> None:
    value = combine(found)
    assert value.low <= value.value <= value.high


def test_times_of_a_healthy_trip_have_errors() -> None:
    run = run_of(healthy().build())
    ttft = reading(readings.ttft(run))
    assert ttft.value == pytest.approx(269.1) and ttft.low < ttft.value < ttft.high
    assert reading(readings.headers(run)).value == pytest.approx(69.1)
    assert reading(readings.total(run)).value == pytest.approx(1049.1)
    assert reading(readings.hop(Stage.TCP)(run)).value == pytest.approx(20)
    assert reading(readings.itl_p95(run)).value == pytest.approx(20)


def test_a_first_token_that_never_came_is_infinite() -> None:
    trace = opened().head(22).wait(200).marker().end().build()
    assert reading(readings.ttft(run_of(trace))).low == inf


def test_a_run_that_we_stopped_took_at_least_so_long() -> None:
    trace = opened().head(22).text(3, gap_ms=10).limit("timeout", 100_000_000).build()
    found = reading(readings.total(run_of(trace)))
    assert found.high == inf and 0 < found.low < inf


def test_a_hop_that_is_not_there_is_missing_without_harm() -> None:
    found = readings.hop(Stage.TLS)(run_of(TraceBuilder().tcp(1).request().head(1).end().build()))
    assert isinstance(found, Missing) and found.harmless


def test_one_odd_gap_of_a_short_stream_does_not_raise_the_lower_limit_of_the_p95() -> None:
    trace = opened().head(22).text(10, gap_ms=10).text(1, first_gap_ms=900).marker().end().build()
    found = reading(readings.itl_p95(run_of(trace)))
    assert found.value > 400 and found.low < 11


def test_too_few_gaps_say_how_many_are_needed() -> None:
    trace = opened().head(22).text(4).marker().end().build()
    found = readings.itl_p95(run_of(trace))
    assert isinstance(found, Missing) and "3 gaps" in found.why and "8 are needed" in found.why


def test_a_trusted_streaming_verdict_bounds_the_hold() -> None:
    run = run_of(healthy().build())
    verdict = readings.buffering_of(run.report)
    assert verdict is not None
    estimate = {"hold_p90_ms": 0.0, "hold_error_ms": 500.0, "tolerated_ms": 30.0}
    sure = replace(verdict, answer="streaming", confidence=0.98, estimate=estimate)
    unsure = replace(sure, confidence=0.5)
    for given_verdict, high in ((sure, 30.0), (unsure, 500.0)):
        report = replace(run.report, verdicts=(given_verdict,))
        assert reading(readings.hold(Run(trace=run.trace, report=report))).high == high


def test_a_response_that_is_no_stream_has_no_hold() -> None:
    trace = opened().head(22, framing=None).end().build()
    assert readings.hold(run_of(trace)) == Missing("the response is no stream")
