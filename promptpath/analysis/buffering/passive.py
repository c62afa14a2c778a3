"""What happens to the stream, from arrivals alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, log2

from promptpath.analysis.buffering.batches import batches
from promptpath.analysis.buffering.bursts import Burst
from promptpath.analysis.buffering.hold import FIRST_BURST, Hold, estimate_hold, tolerated_ns
from promptpath.analysis.buffering.judgement import Answer, Guess, why
from promptpath.analysis.buffering.layers import by_layers, fixed_frames, intact, size_buffer
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.buffering.thresholds import (
    ALONE,
    COLLECTED,
    DISTINCT,
    DRAIN_NS,
    FEW_FULL,
    HARMLESS_NS,
    INITIAL_WINDOW,
    MIN_EVENTS,
    NEARLY_ALL,
    NOTABLE,
    PATTERN,
)
from promptpath.model.units import Ns, format_duration


def decide(shape: Shape, hold: Hold | None) -> Guess:
    """The answer for a stream whose sender does not stamp its events; `hold` is the estimate, None
    for too few events."""
    if hold is None or shape.events < MIN_EVENTS:
        return _too_few(shape)
    tolerated = tolerated_ns(shape.evidence)
    if found := _one_event_hold(shape) or whole_body(shape):
        return found
    if found := _healthy(shape, hold, tolerated):
        return found
    if estimate_hold(shape, with_first=False).p90_ns <= tolerated and (found := initial(shape)):
        return found
    if len(shape.multi) < PATTERN and shape.together < NEARLY_ALL:
        return stall(shape.multi)
    return by_layers(shape) or batches(shape)


def _too_few(shape: Shape) -> Guess:
    return Guess(
        answer=Answer.INCONCLUSIVE,
        because=why(f"{shape.events} events with content, {MIN_EVENTS} are needed"),
        next_test="ask for a longer answer (--max-tokens)",
    )


def stall(bursts: Sequence[Burst]) -> Guess:
    """Events were held, but in these few bursts only."""
    count = len(bursts)
    return Guess(
        answer=Answer.INCONCLUSIVE,
        because=why(
            f"events were held in {count} burst{'' if count == 1 else 's'} only, the rest passed: a"
            f" stall, {PATTERN} make a pattern",
            tuple(burst.first_event for burst in bursts),
        ),
        alternatives=(Answer.STREAMING, Answer.CLIENT_LAG),
        next_test="ask again, for a longer answer (--max-tokens)",
    )


# -- one event behind, all at once -----------------------------------------------------------------


def _one_event_hold(shape: Shape) -> Guess | None:
    if shape.per_burst >= COLLECTED or shape.cut_mid_event <= NEARLY_ALL:
        return None
    share = round(100 * shape.cut_mid_event)
    return Guess(
        answer=Answer.ONE_EVENT_HOLD,
        because=why(f"{share} % of bursts end within an event whose rest comes with the next one"),
        layer="body",
        period_ns=round(shape.median_gap_ns),
        next_test="ask without compression (Accept-Encoding: identity)",
    )


def drain_ns(shape: Shape) -> Ns:
    """How long a finished body takes to arrive: TCP doubles what it sends each round trip (RFC
    5681, slow start), twice that for losses on the way."""
    rounds = ceil(log2(sum(shape.evidence.reads.size) / INITIAL_WINDOW + 1))
    return DRAIN_NS + 2 * rounds * shape.evidence.rtt_ns


def whole_body(shape: Shape) -> Guess | None:
    """Everything within the time a finished body takes, after a wait many times as long. A fast
    sender's events travel one by one; a finished body's share segments."""
    events = shape.evidence.events
    segments = shape.segments_per_event
    alone = segments is not None and abs(segments - 1) <= ALONE
    if shape.span_ns > min(drain_ns(shape), shape.waited_ns // 4) or alone:
        return None
    if shape.per_burst < 3 and shape.events > FIRST_BURST * shape.per_burst:
        return None
    said = (
        f"all {shape.events} events came within {format_duration(shape.span_ns)},"
        f" {format_duration(shape.waited_ns)} after the request"
    )
    numbers = (events.number[0], events.number[-1])
    if shape.waited_ns - shape.evidence.rtt_ns < HARMLESS_NS:
        return Guess(
            answer=Answer.INCONCLUSIVE,
            because=why(said + ": too short an answer to tell a box from a fast server", numbers),
            alternatives=(Answer.WHOLE_BODY, Answer.SERVER_BATCH),
            next_test="ask for a longer answer (--max-tokens)",
        )
    because = why(said, numbers)
    if "content-length" in shape.evidence.headers:
        because += why("the head has a Content-Length: the body was complete before it left")
    others = (Answer.COMPRESSION,) if shape.compressed else (Answer.SIZE_BUFFER,)
    return Guess(
        answer=Answer.WHOLE_BODY,
        because=because,
        layer="body",
        size_bytes=shape.evidence.body_bytes,
        alternatives=(*others, Answer.SERVER_BATCH),
        next_test="ask the server directly; ask for a longer answer, as a buffer larger than the"
        " answer looks the same",
    )


# -- healthy ---------------------------------------------------------------------------------------


def _healthy(shape: Shape, hold: Hold, tolerated: Ns) -> Guess | None:
    if hold.p90_ns > tolerated and shape.together >= FEW_FULL:
        return None
    if found := _perhaps_held(shape, hold, tolerated):
        return found
    per_frame = shape.per_frame or 0.0
    said = (
        f"hold of 90 % of events at most {format_duration(min(hold.p90_ns, tolerated))},"
        f" {format_duration(tolerated)} are tolerated at this round trip"
    )
    if per_frame >= COLLECTED and shape.mid_event < NOTABLE and not fixed_frames(shape):
        return Guess(
            answer=Answer.SERVER_BATCH,
            because=why(said) + why(f"{per_frame:.1f} whole events an HTTP frame"),
            layer="http-frame",
        )
    return Guess(
        answer=Answer.STREAMING,
        because=why(said)
        + why(f"{shape.events} events in {len(shape.full)} bursts, {shape.per_burst:.2f} each"),
    )


def _perhaps_held(shape: Shape, hold: Hold, tolerated: Ns) -> Guess | None:
    """A small hold beside plain traces of somebody's queue: not healthy, and not proven."""
    backlog = intact(shape) and shape.mid_event - shape.cut_mid_event > NEARLY_ALL
    if backlog:
        return Guess(
            answer=Answer.INCONCLUSIVE,
            because=why(
                f"{round(100 * shape.mid_event)} % of bursts are full TCP segments that end within"
                " an event: somebody's send queue hardly ever ran empty, how long it is cannot be"
                " seen"
            ),
            layer="segment",
            alternatives=(Answer.THROTTLE, Answer.TRANSPORT_CORK),
            next_test="ask for a slower stream, and over another link",
        )
    buffer = None if hold.p90_ns + hold.error_ns <= tolerated else size_buffer(shape)
    if buffer is None:
        return None
    return replace(
        buffer,
        answer=Answer.INCONCLUSIVE,
        because=buffer.because
        + why(
            f"hold {format_duration(hold.p90_ns)} +- {format_duration(hold.error_ns)},"
            f" {format_duration(tolerated)} are tolerated at this round trip"
        ),
        alternatives=(Answer.SIZE_BUFFER, Answer.STREAMING),
        next_test="ask for smaller events, or from nearer",
    )


# -- initial hold ----------------------------------------------------------------------------------


def initial(shape: Shape) -> Guess | None:
    """The beginning came in one burst, and the rest in others: where that rest passes unheld, only
    the beginning was held."""
    first, rest = shape.full[0], shape.full[1:]
    if first.events < FIRST_BURST or len(rest) < PATTERN:
        return None
    if first.events < DISTINCT * max(burst.events for burst in rest):
        return None
    evidence = shape.evidence
    with_head = evidence.events.at_ns[0] - evidence.head_ns < evidence.rtt_ns // 2 + DRAIN_NS
    size = evidence.frames[0] if evidence.frames else first.size
    return Guess(
        answer=Answer.HEADERS_HELD if with_head else Answer.INITIAL_HOLD,
        because=why(
            f"the first {first.events} events ({size} bytes) came at once"
            f"{' with the head' if with_head else ''}, the others one by one",
            (evidence.events.number[0], evidence.events.number[first.events - 1]),
        ),
        layer="body",
        size_bytes=size,
        next_test="send a comment of some kB before the first event",
    )
