"""Counters, gauges and histograms in the Prometheus text format, under vLLM's names.

vLLM's own buckets start at 0.3 s for queue, prefill and decode, which says nothing about
milliseconds; ours start at 1 ms.
"""

from __future__ import annotations

from bisect import bisect_left

from reference_server.engine.generation import Engine, Stages

_SECONDS = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
    *(1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0),
)

_HISTOGRAMS = {
    "vllm:time_to_first_token_seconds": "Request received to first token sampled.",
    "vllm:inter_token_latency_seconds": "Between two steps of one request, per token.",
    "vllm:e2e_request_latency_seconds": "Request received to last token sampled.",
    "vllm:request_queue_time_seconds": "Admitted to first scheduled.",
    "vllm:request_prefill_time_seconds": "First scheduled to first token sampled.",
    "vllm:request_decode_time_seconds": "First to last token sampled.",
}
_COUNTERS = {
    "vllm:prompt_tokens_total": "Prompt tokens of finished requests.",
    "vllm:generation_tokens_total": "Tokens generated for finished requests.",
}


class _Histogram:
    def __init__(self) -> None:
        self.buckets = [0] * (len(_SECONDS) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(_SECONDS, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str, label: str) -> list[str]:
        lines, total = [], 0
        for bound, count in zip((*map(str, _SECONDS), "+Inf"), self.buckets, strict=True):
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
        self._histograms = {name: _Histogram() for name in _HISTOGRAMS}
        self._counters = dict.fromkeys(_COUNTERS, 0)
        self._ended: dict[str, int] = {}

    def step(self, gap_ns: int, tokens: int) -> None:
        """A later step of a request came `gap_ns` after the one before, with `tokens` tokens."""
        self._observe("vllm:inter_token_latency_seconds", gap_ns // tokens)

    def ended(self, reason: str, received_ns: int, stages: Stages) -> None:
        """A request left the engine; `reason` is its finish reason, or a failure: vLLM's abort."""
        reason = reason if reason in ("stop", "length") else "abort"
        self._ended[reason] = self._ended.get(reason, 0) + 1
        self._counters["vllm:prompt_tokens_total"] += stages.prompt_tokens
        self._counters["vllm:generation_tokens_total"] += stages.output_tokens
        first, last = stages.first_token_ns, stages.last_token_ns
        self._observe("vllm:request_queue_time_seconds", stages.queue_ns)
        self._observe("vllm:request_prefill_time_seconds", stages.prefill_ns)
        self._observe("vllm:request_decode_time_seconds", stages.decode_ns)
        if first is not None and last is not None:
            self._observe("vllm:time_to_first_token_seconds", first - received_ns)
            self._observe("vllm:e2e_request_latency_seconds", last - received_ns)

    def render(self, engine: Engine) -> str:
        """The exposition text (Prometheus text format 0.0.4)."""
        lines: list[str] = []
        gauges = {
            "vllm:num_requests_running": ("Requests that hold a slot.", engine.running),
            "vllm:num_requests_waiting": ("Requests in the queue.", engine.waiting),
        }
        for name, (text, value) in gauges.items():
            lines += [*_head(name, "gauge", text), f"{name}{{{self._label}}} {value}"]
        for name, text in _COUNTERS.items():
            value = self._counters[name]
            lines += [*_head(name, "counter", text), f"{name}{{{self._label}}} {value}"]
        lines += _head("vllm:request_success_total", "counter", "Requests by how they ended.")
        for reason, count in sorted(self._ended.items()):
            series = f'vllm:request_success_total{{{self._label},finished_reason="{reason}"}}'
            lines.append(f"{series} {count}")
        for name, text in _HISTOGRAMS.items():
            lines += _head(name, "histogram", text)
            lines += self._histograms[name].lines(name, self._label)
        return "\n".join(lines) + "\n"

    def _observe(self, name: str, ns: int | None) -> None:
        if ns is not None:
            self._histograms[name].observe(ns / 1e9)


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
