"""The Prometheus text."""

from __future__ import annotations

import re

from reference_server.compute.paced import PacedEngine
from reference_server.engine.generation import CacheStats, Stages
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


def test_tokens_have_buckets_of_their_own_and_the_mean_per_token_leaves_the_first_out() -> None:
    metrics = Metrics("m")
    metrics.ended("stop", 0, Stages(0, 0, 10 * MS, 40 * MS, 30, 0, 4), max_tokens=100)
    text = _text(metrics)
    assert 'vllm:request_prompt_tokens_bucket{model_name="m",le="20"} 0' in text
    assert 'vllm:request_prompt_tokens_bucket{model_name="m",le="50"} 1' in text
    assert 'vllm:request_params_max_tokens_sum{model_name="m"} 100.0' in text
    label = '{model_name="m"}'
    assert f"vllm:request_time_per_output_token_seconds_sum{label} 0.010000000" in text
    assert f"vllm:request_inference_time_seconds_sum{label} 0.040000000" in text


class _Cached(PacedEngine):
    @property
    def cache(self) -> CacheStats:  # type: ignore[override]
        return CacheStats(50, 200, 3, 1000, 640)


def test_an_engine_with_a_kv_pool_says_how_full_it_is_and_one_without_says_nothing() -> None:
    text = Metrics("m").render(_Cached(PaceSettings(), EngineSettings()))
    assert 'vllm:kv_cache_usage_perc{model_name="m"} 0.25' in text
    assert 'vllm:cache_config_info{model_name="m",block_size="16",num_gpu_blocks="200"} 1' in text
    assert 'vllm:num_preemptions_total{model_name="m"} 3' in text
    assert 'vllm:prefix_cache_hits_total{model_name="m"} 640' in text
    assert "cache" not in _text(Metrics("m"))


def test_each_metric_has_one_head_and_every_line_is_prometheus_text() -> None:
    metrics = Metrics("m")
    metrics.ended("stop", 0, Stages(0, 0, 10 * MS, 40 * MS, 30, 0, 4))
    lines = metrics.render(_Cached(PaceSettings(), EngineSettings())).splitlines()
    heads = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    sample = re.compile(r"vllm:[a-z0-9_]+\{[^{}]*\} [0-9.]+")
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
