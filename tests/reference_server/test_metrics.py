"""The Prometheus text."""

from __future__ import annotations

from reference_server.compute.paced import PacedEngine
from reference_server.engine.generation import Stages
from reference_server.metrics import Metrics
from reference_server.settings import EngineSettings, PaceSettings

MS = 1_000_000


def _text(metrics: Metrics) -> str:
    return metrics.render(PacedEngine(PaceSettings(), EngineSettings()))


def test_histograms_are_cumulative_and_end_with_the_count() -> None:
    metrics = Metrics("m")
    for queue_ms in (0, 3, 700_000):
        metrics.ended("stop", 0, Stages(0, queue_ms * MS, queue_ms * MS, queue_ms * MS, 4, 0, 2))
    lines = [
        line.rpartition(" ")[2]
        for line in _text(metrics).splitlines()
        if line.startswith("vllm:request_queue_time_seconds_bucket")
    ]
    counts = list(map(int, lines))
    assert counts == sorted(counts)
    assert counts[:3] == [1, 1, 2] and counts[-2:] == [2, 3]
    assert 'vllm:request_queue_time_seconds_count{model_name="m"} 3' in _text(metrics)
    assert 'vllm:prompt_tokens_total{model_name="m"} 12' in _text(metrics)


def test_a_request_that_never_ran_counts_as_aborted_and_in_no_histogram() -> None:
    metrics = Metrics("m")
    metrics.ended("queue_timeout", 0, Stages(0))
    assert 'request_success_total{model_name="m",finished_reason="abort"} 1' in _text(metrics)
    assert 'vllm:time_to_first_token_seconds_count{model_name="m"} 0' in _text(metrics)


def test_a_gap_is_shared_by_the_tokens_of_its_step() -> None:
    metrics = Metrics("m")
    metrics.step(40 * MS, 4)
    assert 'vllm:inter_token_latency_seconds_sum{model_name="m"} 0.010000000' in _text(metrics)


def test_the_model_name_is_escaped() -> None:
    assert 'model_name="a\\"b\\\\c\\nd"' in _text(Metrics('a"b\\c\nd'))
