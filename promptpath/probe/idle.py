"""The streams of `promptpath idle`: every kind of silence at once, so that one pass as long as the
longest timer sought finds them all."""

from __future__ import annotations

from dataclasses import replace

from promptpath.model.plan import Plan
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns
from promptpath.probe.active import CALIBRATE, SILENCE, StreamTest, ask_for

KEEPALIVE_NS = NS_PER_S
"""Between two keepalives: a third of the shortest timer sought (`SHORTEST_NS`)."""
SHORTEST_NS = 3 * NS_PER_S
"""A timer below it fires while a model thinks; nobody runs one in front of streams."""
BUSY_NS = 200 * NS_PER_MS
"""Between two events of the busy stream: no idle timer of a second or more can fire in it."""
LATE_NS = 2 * NS_PER_S
"""A timer set to the longest time sought fires up to 1.1 s after it (measured on 42 proxy
configurations: lazy timers, 1 s ticks, delayed close): the silence lasts so much longer."""
AFTER_NS = 2_500 * NS_PER_MS
"""After the silence: the closing events, and a second for a cut that only the next write shows."""
TICKS = 2
"""Events before and after the silence."""
TICK_NS = 100 * NS_PER_MS
"""Between two of them (docs/commands/serve.md)."""

SILENCES: tuple[tuple[str, str], ...] = (
    ("head", "none"),
    ("body", "none"),
    ("body", "comment"),
    ("stream", "none"),
    ("stream", "comment"),
    ("stream", "event"),
    ("stream", "busy"),
)
"""Where the silence lies, and what breaks it."""
KEPT = "kept"
"""The eighth test: an idle connection between two requests."""


def idle_tests(plan: Plan, longest_ns: Ns) -> list[StreamTest]:
    """The tests that find every timer up to `longest_ns`."""
    silence_ns = longest_ns + LATE_NS
    limits = replace(plan.limits, total_ns=silence_ns + AFTER_NS, first_token_ns=None, idle_ns=None)
    plan = replace(plan, limits=limits)
    tests = [_silence(plan, at, keepalive, silence_ns, longest_ns) for at, keepalive in SILENCES]
    short = {"events": 1, "min_gap_ms": 0, "max_gap_ms": 0}
    kept = StreamTest(
        plan=ask_for(plan, CALIBRATE, short),
        about=_about(KEPT, "none", silence_ns, longest_ns, None),
        keep_idle_ns=silence_ns,
    )
    return [*tests, kept]


def _silence(plan: Plan, at: str, keepalive: str, silence_ns: Ns, longest_ns: Ns) -> StreamTest:
    interval_ns = BUSY_NS if keepalive == "busy" else KEEPALIVE_NS
    knobs: dict[str, str | int | float] = {
        "silence_ms": silence_ns // NS_PER_MS,
        "at": at,
        "keepalive": "event" if keepalive == "busy" else keepalive,
        "interval_ms": interval_ns // NS_PER_MS,
        "events": TICKS,
    }
    between_ns = None if keepalive == "none" else interval_ns
    return StreamTest(
        plan=ask_for(plan, SILENCE, knobs),
        about=_about(at, keepalive, silence_ns, longest_ns, between_ns),
    )


def _about(
    at: str, keepalive: str, silence_ns: Ns, longest_ns: Ns, interval_ns: Ns | None
) -> dict[str, str | int | None]:
    """The fact: what was asked for."""
    return {
        "command": "idle",
        "at": at,
        "keepalive": keepalive,
        "silence_ns": silence_ns,
        "longest_ns": longest_ns,
        "interval_ns": interval_ns,
        "last_sent_ns": (TICKS - 1) * TICK_NS if at == "stream" else 0,
    }
