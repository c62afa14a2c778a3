"""What happens to the stream when its sender stamps each event: the hold is measured, not guessed,
and the sender's own batches fall out. No clock synchronisation is needed: the fastest event is the
zero of the rest.

Only stamps of events with content, from a clock fine enough (analysis/sender_clock.py), are used.
The times in keepalive comments are not, neither whole seconds nor finer: theirs is another clock.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from promptpath.analysis.buffering.batches import timer_by_stamps
from promptpath.analysis.buffering.bursts import Burst
from promptpath.analysis.buffering.evidence import Evidence
from promptpath.analysis.buffering.hold import Hold, excess_ns, reached_by_a_tenth, tolerated_ns
from promptpath.analysis.buffering.judgement import Answer, Guess, why
from promptpath.analysis.buffering.layers import by_layers
from promptpath.analysis.buffering.passive import initial, stall, whole_body
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.buffering.thresholds import (
    COLLECTED,
    FEW_FULL,
    MOST,
    NEARLY_ALL,
    PATTERN,
)
from promptpath.analysis.stats import median
from promptpath.model.units import NS_PER_MS, Ns, format_duration

TOGETHER_NS = NS_PER_MS
"""Stamps closer than this are of one write (measured: 0.1 ms apart); a step of a model takes
longer."""
BEHIND_EARLY_NS = NS_PER_MS
BEHIND_LATE_NS = 6 * NS_PER_MS
"""An event that waits for the next one arrives with it: 1 ms before by the stamps' spread, 6 ms
after by the proxies' own time (measured: p99 4 ms on loopback)."""
GROWTH = 2.0
GROWTH_NS = 100 * NS_PER_MS
"""A throttled stream's delay at least doubles from its first tenth to its last, by more than what
people notice (0.1 s: Nielsen 1993)."""


def decide_stamped(shape: Shape, hold: Hold) -> Guess:
    """The answer for a stream of enough events, all stamped."""
    evidence = shape.evidence
    tolerated = tolerated_ns(evidence)
    if _waits_for_next(shape):
        return _one_event_hold(shape)
    if hold.p90_ns <= tolerated:
        return _unheld(shape, hold, tolerated)
    at_once = whole_body(shape)
    if at_once is not None and at_once.answer is Answer.WHOLE_BODY:
        return replace(at_once, alternatives=at_once.alternatives[:1])
    excess = excess_ns(evidence)
    first = shape.full[0].events
    rest = sorted(excess[first:])
    if rest and reached_by_a_tenth(rest) <= tolerated and (found := initial(shape)):
        return found
    held = _held_bursts(shape, excess, tolerated)
    if len(held) < PATTERN and shape.together < NEARLY_ALL:
        return stall(held)
    if (steps := _steps(shape, excess)) is not None:
        return _once_later(shape, steps)
    if _grows(shape, excess):
        return _throttle(shape, excess)
    return by_layers(shape, held=True) or timer_by_stamps(shape)


def send_gaps_ns(evidence: Evidence) -> list[Ns]:
    """Gaps between the stamps, in the order of sending."""
    sent = sorted(evidence.events.server_ns)
    return [after - before for before, after in pairwise(sent)]


def _unheld(shape: Shape, hold: Hold, tolerated: Ns) -> Guess:
    said = why(
        f"by the sender's stamps 90 % of events were held {format_duration(hold.p90_ns)} at most,"
        f" {format_duration(tolerated)} are tolerated at this round trip"
    )
    gaps = send_gaps_ns(shape.evidence)
    steps = 1 + sum(gap >= TOGETHER_NS for gap in gaps)
    if shape.events / steps < COLLECTED:
        return Guess(answer=Answer.STREAMING, because=said)
    return Guess(
        answer=Answer.SERVER_BATCH,
        because=said + why(f"the sender sent {shape.events} events in {steps} steps"),
        layer="body",
    )


def _steps(shape: Shape, excess: list[Ns]) -> list[int] | None:
    """Of a stream of single events: where the delay rose by half of all it has, if that happened
    too seldom for a pattern and lasts. A throttle's delay grows with each event."""
    rises = [
        index
        for index in range(1, len(excess))
        if excess[index] - excess[index - 1] >= max(excess) * MOST
    ]
    few = 0 < len(rises) < PATTERN and shape.together < FEW_FULL
    stays = _ends(excess)[1] >= max(excess) * MOST
    return rises if few and stays else None


def _once_later(shape: Shape, steps: list[int]) -> Guess:
    numbers = tuple(shape.evidence.events.number[index] for index in steps)
    return Guess(
        answer=Answer.INCONCLUSIVE,
        because=why(
            f"by the sender's stamps the delay rose {len(steps)} times only, at once, and stayed:"
            " the way became longer, or somebody paused and did not catch up",
            numbers,
        ),
        alternatives=(Answer.STREAMING, Answer.THROTTLE),
        next_test="ask again",
    )


def _held_bursts(shape: Shape, excess: list[Ns], tolerated: Ns) -> list[Burst]:
    """The bursts in which an event was held longer than is tolerated."""
    found, index = [], 0
    for burst in shape.full:
        if max(excess[index : index + burst.events]) > tolerated:
            found.append(burst)
        index += burst.events
    return found


def _waits_for_next(shape: Shape) -> bool:
    """Sharp only where the window in which "with the next" lies is small beside the gaps, or where
    events are cut."""
    window = BEHIND_EARLY_NS + BEHIND_LATE_NS
    sharp = window < median(send_gaps_ns(shape.evidence)) / 2 or shape.cut_mid_event > NEARLY_ALL
    if shape.per_burst >= COLLECTED or not sharp:
        return False
    events = shape.evidence.events
    offset = min(at - sent for at, sent in zip(events.at_ns, events.server_ns, strict=True))
    rows = sorted(zip(events.server_ns, events.at_ns, strict=True))
    behind = [
        -BEHIND_EARLY_NS <= at - offset - next_sent <= BEHIND_LATE_NS and next_sent > sent
        for (sent, at), (next_sent, _) in pairwise(rows)
    ]
    return sum(behind) > MOST * len(behind)


def _one_event_hold(shape: Shape) -> Guess:
    return Guess(
        answer=Answer.ONE_EVENT_HOLD,
        because=why("by the sender's stamps each event arrives when the next one is sent"),
        layer="body",
        period_ns=round(median(send_gaps_ns(shape.evidence))),
        next_test="ask without compression (Accept-Encoding: identity)",
    )


def _ends(excess: list[Ns]) -> tuple[float, float]:
    tenth = max(2, len(excess) // 10)
    return median(excess[:tenth]), median(excess[-tenth:])


def _grows(shape: Shape, excess: list[Ns]) -> bool:
    head, tail = _ends(excess)
    return tail > head + GROWTH_NS and tail > GROWTH * max(head, shape.median_gap_ns)


def _throttle(shape: Shape, excess: list[Ns]) -> Guess:
    head, tail = _ends(excess)
    read = sum(shape.evidence.reads.size)
    return Guess(
        answer=Answer.THROTTLE,
        because=why(
            f"by the sender's stamps the delay grows from {format_duration(round(head))} to"
            f" {format_duration(round(tail))}"
        ),
        layer="segment",
        size_bytes=round(read * 1_000_000_000 / shape.span_ns) if shape.span_ns else None,
        next_test="ask for a slower stream: a throttle lets it pass",
    )
