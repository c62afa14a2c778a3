"""Counters, gauges and histograms in the Prometheus text format, under vLLM's names.

vLLM's own buckets start at 0.3 s for queue, prefill and decode, which says nothing about
milliseconds; ours start at 1 ms.
"""

from __future__ import annotations

from bisect import bisect_left

from reference_server.engine.generation import CacheStats, Engine, Stages
from reference_server.engine.plan import BLOCK_TOKENS

_SECONDS: tuple[float, ...] = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
)

_TOKENS: tuple[float, ...] = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000),
    *(10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000),
)
"""vLLM's 1-2-5 buckets."""

_HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "Request received to first token sampled.",
    "vllm:inter_token_latency_seconds": "Between two steps of one request, per token.",
    "vllm:request_time_per_output_token_seconds": "Mean time of each token after the first.",
    "vllm:e2e_request_latency_seconds": "Request received to last token sampled.",
    "vllm:request_queue_time_seconds": "Admitted to first scheduled.",
    "vllm:request_inference_time_seconds": "First scheduled to last token sampled.",
    "vllm:request_prefill_time_seconds": "First scheduled to first token sampled.",
    "vllm:request_decode_time_seconds": "First to last token sampled.",
    "vllm:request_prompt_tokens": "Prompt tokens of a request.",
    "vllm:request_generation_tokens": "Tokens generated for a request.",
    "vllm:request_params_max_tokens": "The most tokens that a request asked for.",
}
_COUNTERS = {
    "vllm:prompt_tokens_total": "Prompt tokens of finished requests.",
    "vllm:generation_tokens_total": "Tokens generated for finished requests.",
}


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, label: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
        lines.append(f"{name}_sum{{{label}}} {self.sum:.9f}")
        lines.append(f"{name}_count{{{label}}} {total}")
        return lines


class Metrics:
    """What `/metrics` says."""

    def __init__(self, model: str) -> None:
        escaped = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        self._label = f'model_name="{escaped}"'
        self._histograms = {
            name: _Histogram(_SECONDS if name.endswith("_seconds") else _TOKENS)
            for name in _HISTOGRAMS
        }
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._ended: dict[str, int] = {}

    def step(self, gap_ns: int, tokens: int) -> None:
        """A later step of a request came `gap_ns` after the one before, with `tokens` tokens."""
        self._observe("vllm:inter_token_latency_seconds", gap_ns // tokens)

    def ended(
        self, reason: str, received_ns: int, stages: Stages, max_tokens: int | None = None
    ) -> None:
        """A request left the engine; `reason` is its finish reason, or a failure: vLLM's abort."""
        reason = reason if reason in ("stop", "length") else "abort"
        self._ended[reason] = self._ended.get(reason, 0) + 1
        self._counters["vllm:prompt_tokens_total"] += stages.prompt_tokens
        self._counters["vllm:generation_tokens_total"] += stages.output_tokens
        first, last = stages.first_token_ns, stages.last_token_ns
        self._observe("vllm:request_queue_time_seconds", stages.queue_ns)
        self._observe("vllm:request_prefill_time_seconds", stages.prefill_ns)
        self._observe("vllm:request_decode_time_seconds", stages.decode_ns)
        self._histograms["vllm:request_prompt_tokens"].observe(stages.prompt_tokens)
        self._histograms["vllm:request_generation_tokens"].observe(stages.output_tokens)
        if max_tokens is not None:
            self._histograms["vllm:request_params_max_tokens"].observe(max_tokens)
        if stages.decode_ns is not None and stages.output_tokens > 1:
            per_token_ns = stages.decode_ns // (stages.output_tokens - 1)
            self._observe("vllm:request_time_per_output_token_seconds", per_token_ns)
        if stages.scheduled_ns is not None and last is not None:
            self._observe("vllm:request_inference_time_seconds", last - stages.scheduled_ns)
        if first is not None and last is not None:
            self._observe("vllm:time_to_first_token_seconds", first - received_ns)
            self._observe("vllm:e2e_request_latency_seconds", last - received_ns)

    def render(self, engine: Engine) -> str:
        """The exposition text (Prometheus text format 0.0.4)."""
        lines: list[str] = []
        running, waiting = engine.running, engine.waiting
        lines += self._one("vllm:num_requests_running", "gauge", "Requests that run.", running)
        lines += self._one("vllm:num_requests_waiting", "gauge", "Requests in the queue.", waiting)
        if (cache := engine.cache) is not None:
            lines += self._cache(cache)
        for name, text in _COUNTERS.items():
            lines += self._one(name, "counter", text, self._counters[name])
        lines += _head("vllm:request_success_total", "counter", "Requests by how they ended.")
        for reason, count in sorted(self._ended.items()):
            series = f'vllm:request_success_total{{{self._label},finished_reason="{reason}"}}'
            lines.append(f"{series} {count}")
        for name, text in _HISTOGRAMS.items():
            lines += _head(name, "histogram", text)
            lines += self._histograms[name].lines(name, self._label)
        return "\n".join(lines) + "\n"

    def _cache(self, cache: CacheStats) -> list[str]:
        used = cache.blocks_used / cache.blocks_total if cache.blocks_total else 0.0
        name = "vllm:cache_config_info"
        size = f'block_size="{BLOCK_TOKENS}",num_gpu_blocks="{cache.blocks_total}"'
        text = "Blocks that requests hold, 1 is all."
        queries, hits = cache.prefix_queries, cache.prefix_hits
        preempted = cache.preemptions
        return [
            *self._one("vllm:kv_cache_usage_perc", "gauge", text, used),
            *_head(name, "gauge", "The KV pool; vLLM's label says gpu, also on a CPU."),
            f"{name}{{{self._label},{size}}} 1",
            *self._one("vllm:num_preemptions_total", "counter", "Blocks taken away.", preempted),
            *self._one("vllm:prefix_cache_queries_total", "counter", "Tokens looked up.", queries),
            *self._one("vllm:prefix_cache_hits_total", "counter", "Tokens found.", hits),
        ]

    def _one(self, name: str, kind: str, text: str, value: float) -> list[str]:
        return [*_head(name, kind, text), f"{name}{{{self._label}}} {value}"]

    def _observe(self, name: str, ns: int | None) -> None:
        if ns is not None:
            self._histograms[name].observe(ns / 1e9)


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
