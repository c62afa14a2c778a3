"""Several runs together."""

from __future__ import annotations

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.summary import summarize, worst_exit_code
from promptpath.model.document import Run
from tests.analysis.build import PLAN, TraceBuilder, opened


def run(trip: TraceBuilder) -> Run:
    trace = trip.build()
    return Run(trace=trace, report=diagnose(trace, PLAN))


def prompt(wait_ms: float, *, warm: bool = False) -> Run:
    return run(opened(warm=warm).head(20).wait(wait_ms).text(5).marker().end())


def test_cold_and_warm_runs_are_never_mixed() -> None:
    summary = summarize([prompt(100), prompt(30, warm=True), prompt(120), prompt(110)])
    assert summary.runs == 4
    assert summary.metrics["cold"]["ttft_ms"].median == 177.1
    assert summary.metrics["cold"]["ttft_ms"].mad == 10
    assert summary.metrics["warm"]["ttft_ms"].count == 1
    assert "dns_ms" not in summary.metrics["warm"]


def test_a_metric_that_a_run_lacks_is_missing_not_zero() -> None:
    failed = run(opened().limit("timeout", 1))
    summary = summarize([prompt(100), failed])
    assert summary.metrics["cold"]["ttft_ms"].count == 1
    assert summary.metrics["cold"]["tcp_ms"].count == 2


def test_the_worst_exit_code_wins() -> None:
    assert worst_exit_code([0, 0]) == 0
    assert worst_exit_code([0, 1]) == 1
    assert worst_exit_code([1, 3]) == 3
    assert worst_exit_code([3, 130, 1]) == 130
    assert worst_exit_code([]) == 0
