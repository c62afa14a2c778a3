"""Whole events in groups: a timer, a buffer or the sender's own batches."""

from __future__ import annotations

from promptpath.analysis.buffering.bursts import variation
from promptpath.analysis.buffering.judgement import Answer, Guess, why
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.buffering.thresholds import (
    COLLECTED,
    MIN_EVENTS,
    MOST,
    NEARLY_ALL,
    NOTABLE,
    STEADY,
)
from promptpath.analysis.stats import quantile
from promptpath.model.units import format_duration

# -- whole events in groups ------------------------------------------------------------------------

NEXT_ACTIVE = (
    "stamp the events at the sender, or ask for a stream of varied gaps: a timer keeps its pace,"
    " a server's batches follow the model"
)
SLIP_EVENTS = 4
"""Speculative decoding gives one to five events a step; below four to a burst, or below eight in a
few bursts only, a count that wavers by one may be that."""


def slips(shape: Shape) -> bool:
    """Burst counts waver by one around a middle: two clocks beat, the events' and somebody's timer.
    A sender's batches have one size, or widely different ones."""
    middle = _middle(shape)
    enough = middle >= 2 * SLIP_EVENTS or len(shape.core) >= MIN_EVENTS
    return middle >= SLIP_EVENTS and enough and _wavers(shape)


def _middle(shape: Shape) -> int:
    ordered = sorted(burst.events for burst in shape.core)
    return ordered[len(ordered) // 2] if len(ordered) >= 3 else 0


def _wavers(shape: Shape) -> bool:
    """Nearly all counts lie within one of the middle one, some beside it."""
    middle = _middle(shape)
    beside = sum(abs(burst.events - middle) == 1 for burst in shape.core)
    same = sum(burst.events == middle for burst in shape.core)
    return beside > 0 and beside + same >= NEARLY_ALL * len(shape.core)


def _timed(shape: Shape) -> bool:
    """The gaps hold still and the bytes do not: for events of one size any slip is one of bytes
    too; where sizes differ, bytes must vary clearly more than gaps. The middle half of the gaps is
    looked at: a stall is nobody's timer."""
    gaps = sorted(shape.gaps)
    if not gaps or quantile(gaps, 0.75) - quantile(gaps, 0.25) > STEADY * quantile(gaps, 0.5):
        return False
    per_event = [burst.size / burst.events for burst in shape.core if burst.events]
    if variation(per_event) < STEADY / 3:
        return True
    return shape.gap_variation < shape.size_variation / 2


def _timer(shape: Shape, said: str, *others: Answer) -> Guess:
    period = round(quantile(sorted(shape.gaps), 0.1)) if shape.gaps else None
    return Guess(
        answer=Answer.TIMER,
        because=why(said),
        layer=_layer(shape),
        period_ns=period,
        alternatives=others,
        next_test="ask the server directly: a timer of its own would stay",
    )


def timer_by_stamps(shape: Shape) -> Guess:
    """The sender sent one by one, and whole events came in groups: only time was waited for."""
    return _timer(
        shape,
        f"events sent one by one came in groups of whole ones, a group every"
        f" {format_duration(round(shape.median_gap_ns))}",
    )


def batches(shape: Shape) -> Guess:
    """Timer, the sender's batches, or neither sure."""
    gap = format_duration(round(shape.median_gap_ns))
    if slips(shape) and _timed(shape) and shape.mid_event < NOTABLE:
        return _timer(
            shape,
            f"groups of whole events every {gap} whose number wavers by one: a timer beats"
            " against the events",
            Answer.SERVER_BATCH,
        )
    if _of_the_sender(shape):
        return Guess(
            answer=Answer.SERVER_BATCH,
            because=why(
                "groups of whole events, of different numbers that the wait before them does not"
                " explain"
            ),
            layer=_layer(shape),
            alternatives=(Answer.PACED_BATCH,),
            next_test=NEXT_ACTIVE,
        )
    return Guess(
        answer=Answer.PACED_BATCH,
        because=why(f"{shape.per_burst:.1f} whole events together every {gap}"),
        layer=_layer(shape),
        period_ns=round(shape.median_gap_ns),
        alternatives=(Answer.TIMER, Answer.SERVER_BATCH, Answer.SIZE_BUFFER),
        next_test=NEXT_ACTIVE,
    )


def _of_the_sender(shape: Shape) -> bool:
    """Numbers and gaps both vary widely, and a longer wait does not bring more events, as it would
    with anybody who only collects."""
    if shape.gap_variation <= STEADY or shape.count_variation <= STEADY or _wavers(shape):
        return False
    return shape.follows < MOST


def _layer(shape: Shape) -> str:
    """Groups in a frame of their own, or frames of one event that travel in groups."""
    return "http-frame" if (shape.per_frame or 0.0) >= COLLECTED else "segment"
