"""The timing contract's numbers: stages before the engine, the header, the final `timings`.

Definitions and schema: docs/contract/timing.md and timing-1.schema.json.
"""

from __future__ import annotations

from typing import Any

from reference_server.clock import Now
from reference_server.engine.generation import Generation

SCHEMA = "promptpath.timing/1"
HEADER = "x-promptpath-timing"


class Timeline:
    """Disjoint stages of one request: each starts where the one before ended."""

    def __init__(self, received_ns: int, now: Now) -> None:
        self.received_ns = received_ns
        self.now = now
        """The server's clock."""
        self._last_ns = received_ns
        self.stages: dict[str, int] = {}
        """Stage name to duration, ns, in the order in which they ended."""

    @property
    def last_ns(self) -> int:
        """When the latest stage ended."""
        return self._last_ns

    def end(self, stage: str) -> int:
        """The stage that runs now is called `stage` and ends now; returns when."""
        at_ns = self.now()
        self.stages[stage] = at_ns - self._last_ns
        self._last_ns = at_ns
        return at_ns

    def server_timing(self) -> bytes:
        """The Server-Timing header (W3C Server Timing: `name;dur=` in milliseconds)."""
        return ", ".join(f"{name};dur={ns / 1e6:.3f}" for name, ns in self.stages.items()).encode()


def final_timings(timeline: Timeline, generation: Generation) -> dict[str, Any]:
    """The `timings` object; a stage that was not reached is null.

    `prompt_*`, `predicted_*` and `cache_n` are llama.cpp's names: its `prompt_n` counts without
    the cached tokens, its `predicted_ms` begins at the first token.
    """
    stages = generation.stages
    prefill_ms, decode_ms = _ms(stages.prefill_ns), _ms(stages.decode_ns)
    prompt_n = stages.prompt_tokens - stages.cached_tokens
    return {
        "schema": SCHEMA,
        **{f"{name}_ms": _ms(ns) for name, ns in timeline.stages.items()},
        "queue_ms": _ms(stages.queue_ns),
        "prefill_ms": prefill_ms,
        "decode_ms": decode_ms,
        "prompt_n": prompt_n,
        "cached_n": stages.cached_tokens,
        "cache_n": stages.cached_tokens,
        "prompt_ms": prefill_ms,
        "prompt_per_second": _rate(prompt_n, prefill_ms),
        "predicted_n": stages.output_tokens,
        "predicted_ms": decode_ms,
        "predicted_per_second": _rate(stages.output_tokens - 1, decode_ms),
        "received_ns": timeline.received_ns,
        "admitted_ns": stages.admitted_ns,
        "scheduled_ns": stages.scheduled_ns,
        "first_token_ns": stages.first_token_ns,
        "last_token_ns": stages.last_token_ns,
    }


def _ms(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e6


def _rate(count: int, ms: float | None) -> float | None:
    return None if not ms or count <= 0 else count / ms * 1e3
