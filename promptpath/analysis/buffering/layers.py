"""Who collected the events, by the layers at which they are still single.

Each intermediary makes anew the layers that it ends: bytes kept below HTTP leave frames of one
event each, a buffer above it makes large frames.
"""

from __future__ import annotations

from collections import Counter

from promptpath.analysis.buffering.bursts import SILENCE_NS
from promptpath.analysis.buffering.judgement import Answer, Guess, why
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.buffering.thresholds import (
    COLLECTED,
    CORK_NS,
    FEW_FULL,
    LOSSY,
    MIN_BUFFER,
    MIN_EVENTS,
    MOST,
    NOTABLE,
    SINGLE,
    STEADY,
    TLS_BIG,
)
from promptpath.analysis.stats import quantile
from promptpath.model.units import format_duration


def by_layers(shape: Shape, *, held: bool = False) -> Guess | None:
    """Who collected the events of a stream, by the layers at which they are still single; None
    where whole events came in groups that each layer shows as one, or that the sender may have
    written together. `held`: the sender's stamps say that he did not."""
    return (
        _compression(shape)
        or _tls_records(shape)
        or size_buffer(shape)
        or _loss(shape)
        or _client_lag(shape, held)
        or _below_http(shape, held)
    )


# -- above HTTP framing ----------------------------------------------------------------------------


def _compression(shape: Shape) -> Guess | None:
    per_frame = shape.per_frame if shape.per_frame is not None else shape.per_burst
    if not shape.compressed or per_frame < COLLECTED:
        return None
    if shape.mid_event <= NOTABLE and shape.per_burst <= MIN_EVENTS:
        return None
    coding = shape.evidence.headers.get("content-encoding", "")
    return Guess(
        answer=Answer.COMPRESSION,
        because=why(
            f"Content-Encoding {coding[:20]}, {per_frame:.0f} events an HTTP frame,"
            f" {round(100 * shape.mid_event)} % of bursts end within an event"
        ),
        layer="http-frame",
        size_bytes=_usual_size(shape),
        alternatives=(Answer.SIZE_BUFFER,),
        next_test="ask without compression (Accept-Encoding: identity)",
    )


def _tls_records(shape: Shape) -> Guess | None:
    per_frame, per_record = shape.per_frame, shape.per_record
    if per_frame is None or per_record is None or per_frame >= SINGLE or per_record < COLLECTED:
        return None
    largest = max(shape.evidence.records)
    if largest < TLS_BIG:
        return None
    return Guess(
        answer=Answer.TLS_RECORD_BUFFER,
        because=why(
            f"HTTP frames of one event each, but {per_record:.1f} events a TLS record, the largest"
            f" {largest} bytes"
        ),
        layer="tls-record",
        size_bytes=largest,
        next_test="ask over HTTP/2, or in clear text",
    )


def fixed_frames(shape: Shape) -> bool:
    """Most HTTP frames have one size, and that of a buffer: a power of two."""
    size, share = shape.frame_mode
    return share >= MOST and size >= MIN_BUFFER and size & (size - 1) == 0


def size_buffer(shape: Shape) -> Guess | None:
    """Frames of one size that cut events, or bursts of one size that do, where there are no frames
    of one event each."""
    per_frame = shape.per_frame
    size, share = shape.frame_mode
    if per_frame is not None and per_frame >= COLLECTED and share >= MOST:
        cut = shape.mid_event > NOTABLE
        if cut or fixed_frames(shape):
            said = f"{round(100 * share)} % of HTTP frames have exactly {size} bytes"
            said += ", bursts end within an event" if cut else ", whole events as it happens"
            return Guess(
                answer=Answer.SIZE_BUFFER,
                because=why(said),
                layer="http-frame",
                size_bytes=size,
                alternatives=() if cut else (Answer.TIMER, Answer.SERVER_BATCH),
                next_test=None if cut else "ask for an answer whose events differ in size",
                doubtful=not cut,
            )
    intact = per_frame is not None and per_frame < SINGLE
    if intact or shape.cut_mid_event <= MOST or shape.size_variation >= STEADY:
        return None
    return Guess(
        answer=Answer.SIZE_BUFFER,
        because=why(
            f"bursts of {_usual_size(shape)} bytes each, whatever the time between, that end within"
            " an event"
        ),
        layer="body",
        size_bytes=_usual_size(shape),
    )


def _usual_size(shape: Shape) -> int | None:
    size, share = shape.frame_mode
    if share >= MOST:
        return size
    return _usual_burst(shape)


def _usual_burst(shape: Shape) -> int | None:
    sizes = sorted(burst.size for burst in shape.core)
    return round(quantile(sizes, 0.5)) if sizes else None


# -- below HTTP ------------------------------------------------------------------------------------


def intact(shape: Shape) -> bool:
    """HTTP frames hold one event each, as senders make them."""
    return shape.per_frame is not None and shape.per_frame < SINGLE


def _own_segments(shape: Shape) -> bool:
    """About one segment an event where several came together: they travelled alone."""
    segments = shape.segments_per_event
    return segments is not None and segments >= 1 / SINGLE


def _loss(shape: Shape) -> Guess | None:
    if shape.lossy_bursts < LOSSY or not (intact(shape) or _own_segments(shape)):
        return None
    return Guess(
        answer=Answer.LOSS,
        because=why(
            f"{shape.out_of_order} segments came out of order, in"
            f" {round(100 * shape.lossy_bursts)} % of the bursts"
        ),
        layer="segment",
        period_ns=shape.evidence.rtt_ns or None,
        next_test="repeat over another link",
    )


def _client_lag(shape: Shape, held: bool) -> Guess | None:
    """Each event in a segment of its own, small ones, several waiting when we read. A sender that
    writes several at once leaves the same, unless more came after a longer wait."""
    if not _own_segments(shape) or shape.out_of_order or shape.per_frame is None:
        return None
    if not intact(shape) or shape.mid_event > NOTABLE:
        return None
    by_read = Counter(shape.evidence.events.read)
    together = sum(n for n in by_read.values() if n >= 2)
    in_bursts = sum(burst.events for burst in shape.multi)
    if together < MOST * in_bursts:
        return None
    if not held and shape.follows < MOST:
        return Guess(
            answer=Answer.INCONCLUSIVE,
            because=why(
                "each event came in a TCP segment of its own, several in one read: they were sent"
                " together, or waited in this machine's socket"
            ),
            layer="segment",
            alternatives=(Answer.SERVER_BATCH, Answer.CLIENT_LAG),
            next_test="run on an idle machine, and ask the server directly",
        )
    late = [burst.late_ns for burst in shape.multi]
    return Guess(
        answer=Answer.CLIENT_LAG,
        because=why(
            "each event came in a TCP segment of its own, and several waited in this machine's"
            f" socket when it was read, the first up to {format_duration(max(late))}"
        ),
        layer="segment",
        period_ns=round(shape.median_gap_ns),
        next_test="run on an idle machine",
    )


def _waited(shape: Shape) -> bool:
    """Somebody below HTTP waited: more came after a longer wait, or the wait is one that TCP's
    senders know: 200 ms and the next event, a round trip, a full segment."""
    gap = shape.median_gap_ns
    usual = quantile(sorted(burst.events for burst in shape.core), 0.5) if shape.core else 0.0
    next_event = gap / max(1.0, usual)
    armed = CORK_NS - SILENCE_NS <= gap <= CORK_NS + next_event + SILENCE_NS
    acked = abs(gap - shape.evidence.rtt_ns) <= SILENCE_NS
    filled = shape.full_segment is not None and (_usual_burst(shape) or 0) >= shape.full_segment
    return shape.follows >= MOST or armed or acked or filled


def _below_http(shape: Shape, held: bool) -> Guess | None:
    frames = shape.frames_per_burst
    if shape.together < FEW_FULL:
        return None
    segmented = shape.mid_event - shape.cut_mid_event > NOTABLE
    if frames is None or not (intact(shape) or frames >= COLLECTED or segmented):
        return None
    if shape.cut_mid_event > MOST and not shape.compressed and _even(shape):
        rate = _usual_size(shape) or 0
        return Guess(
            answer=Answer.THROTTLE,
            because=why(
                f"HTTP frames intact, bursts of {rate} bytes every"
                f" {format_duration(round(shape.median_gap_ns))}, cut anywhere"
            ),
            layer="segment",
            size_bytes=rate,
            period_ns=round(shape.median_gap_ns),
            next_test="ask for a slower stream: a throttle lets it pass",
        )
    if not (held or segmented or _waited(shape)):
        return None
    return Guess(
        answer=Answer.TRANSPORT_CORK,
        because=why(
            f"{frames:.1f} HTTP frames a burst, each as its sender made it, a burst every"
            f" {format_duration(round(shape.median_gap_ns))}"
        ),
        layer="segment",
        period_ns=round(shape.median_gap_ns),
        alternatives=() if held else (Answer.SERVER_BATCH,),
        next_test="ask over HTTP/2 or TLS, where a sender's cork rarely applies",
    )


def _even(shape: Shape) -> bool:
    return shape.size_variation < STEADY and shape.gap_variation < STEADY
