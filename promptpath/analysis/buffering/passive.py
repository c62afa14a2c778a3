"""What happens to the stream, from arrivals alone.

Each intermediary makes the layers anew that it ends, so the layers tell who collected: bytes kept
below HTTP leave frames of one event each, a buffer above it makes large frames. Thresholds carry
their source; "measured" means the recordings named in docs/concepts/buffering.md.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil, log2

from promptpath.analysis.buffering.bursts import variation
from promptpath.analysis.buffering.hold import FIRST_BURST, Hold, estimate_hold, tolerated_ns
from promptpath.analysis.buffering.judgement import Answer, Guess
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.stats import quantile
from promptpath.model.report import Evidence as Reason
from promptpath.model.units import NS_PER_MS, Ns, format_duration

MIN_EVENTS = 8
"""Fewer say nothing about a rhythm; measured: the classifier tuned on 1,610 recorded streams
refuses shorter ones."""
SINGLE = 1.35
"""Events per frame up to which frames count as one event each; measured: 1.08 at most on healthy
paths, 1.29 where a proxy merges two now and then, 2.5 and more where frames hold groups."""
COLLECTED = 1.5
"""From here on frames, records or bursts hold several; between SINGLE and this neither is said."""
MOST = 0.5
"""A majority."""
NOTABLE = 0.3
"""Of bursts ending within an event. Senders flush whole events, so a buffer that cuts anywhere
shows in nearly all bursts (measured: 0.95 and more), one that does not in few (0.05 at most)."""
NEARLY_ALL = 0.8
"""Leaves room for the odd burst that two bursts made; measured: 0.95 and more where it is meant."""
STEADY = 0.15
"""Coefficient of variation of a quantity that is fixed; measured: medians of 0.00 for buffers'
bytes, 0.00 for timers' gaps on loopback, 0.46 for gaps of speculative decoding."""
HARMLESS_NS = 300 * NS_PER_MS
"""An answer that comes at once this soon harms nobody: three times the pause people notice
(0.1 s: Miller 1968; Nielsen 1993, chapter 5)."""
DRAIN_NS = 100 * NS_PER_MS
"""A finished body that takes longer than people notice (0.1 s, same source) to hand over is not
"at once"; measured: 8.9 ms at most for 400 kB, transport aside."""
INITIAL_WINDOW = 14_600
"""Bytes TCP sends at once at the start (RFC 6928: ten segments)."""
MIN_BUFFER = 2048
"""The smallest power of two that is a buffer somewhere (measured: 2,048 to 65,536)."""
TLS_BIG = 4096
"""A record this large holds many small events; nginx' ssl_buffer_size and OpenSSL's records are 4
to 16 KiB (RFC 8446, 5.1: 2^14 at most)."""
LOSSY = 0.15
"""Share of bursts with an out-of-order segment above which loss explains them; measured: 0.06 at
most where a cork does on a lossy link, 0.65 and more where loss does."""
ALONE = 0.1
"""How far from one the number of segments an event may be where each event has its own."""
FEW_FULL = 0.2
"""Share of events in bursts of several below which less than a tenth can have been held: with two
in a burst, half of these."""


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
    return by_layers(shape) or _batches(shape)


def by_layers(shape: Shape) -> Guess | None:
    """Who collected the events of a stream that was held, by the layers at which they are still
    single; None where whole events came in groups that each layer shows as one."""
    return (
        _compression(shape)
        or _tls_records(shape)
        or _size_buffer(shape)
        or _loss(shape)
        or _client_lag(shape)
        or _below_http(shape)
    )


def _why(text: str, events: tuple[int, ...] = ()) -> tuple[Reason, ...]:
    return (Reason(text=text, events=events),)


def _too_few(shape: Shape) -> Guess:
    return Guess(
        answer=Answer.INCONCLUSIVE,
        because=_why(f"{shape.events} events with content, {MIN_EVENTS} are needed"),
        next_test="ask for a longer answer (--max-tokens)",
    )


# -- one event behind, all at once -----------------------------------------------------------------


def _one_event_hold(shape: Shape) -> Guess | None:
    if shape.per_burst >= COLLECTED or shape.cut_mid_event <= NEARLY_ALL:
        return None
    share = round(100 * shape.cut_mid_event)
    return Guess(
        answer=Answer.ONE_EVENT_HOLD,
        because=_why(f"{share} % of bursts end within an event whose rest comes with the next one"),
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
            because=_why(said + ": too short an answer to tell a box from a fast server", numbers),
            alternatives=(Answer.WHOLE_BODY, Answer.SERVER_BATCH),
            next_test="ask for a longer answer (--max-tokens)",
        )
    because = _why(said, numbers)
    if "content-length" in shape.evidence.headers:
        because += _why("the head has a Content-Length: the body was complete before it left")
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
    if per_frame >= COLLECTED and shape.mid_event < NOTABLE and not _fixed_frames(shape):
        return Guess(
            answer=Answer.SERVER_BATCH,
            because=_why(said) + _why(f"{per_frame:.1f} whole events an HTTP frame"),
            layer="http-frame",
        )
    return Guess(
        answer=Answer.STREAMING,
        because=_why(said)
        + _why(f"{shape.events} events in {len(shape.full)} bursts, {shape.per_burst:.2f} each"),
    )


def _perhaps_held(shape: Shape, hold: Hold, tolerated: Ns) -> Guess | None:
    """A small hold beside plain traces of somebody's queue: not healthy, and not proven."""
    backlog = _intact(shape) and shape.mid_event - shape.cut_mid_event > NEARLY_ALL
    if backlog:
        return Guess(
            answer=Answer.INCONCLUSIVE,
            because=_why(
                f"{round(100 * shape.mid_event)} % of bursts are full TCP segments that end within"
                " an event: somebody's send queue hardly ever ran empty, how long it is cannot be"
                " seen"
            ),
            layer="segment",
            alternatives=(Answer.THROTTLE, Answer.TRANSPORT_CORK),
            next_test="ask for a slower stream, and over another link",
        )
    buffer = None if hold.p90_ns + hold.error_ns <= tolerated else _size_buffer(shape)
    if buffer is None:
        return None
    return replace(
        buffer,
        answer=Answer.INCONCLUSIVE,
        because=buffer.because
        + _why(
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
    first = shape.full[0]
    if first.events < FIRST_BURST or len(shape.full) < FIRST_BURST:
        return None
    evidence = shape.evidence
    with_head = evidence.events.at_ns[0] - evidence.head_ns < evidence.rtt_ns // 2 + DRAIN_NS
    size = evidence.frames[0] if evidence.frames else first.size
    return Guess(
        answer=Answer.HEADERS_HELD if with_head else Answer.INITIAL_HOLD,
        because=_why(
            f"the first {first.events} events ({size} bytes) came at once"
            f"{' with the head' if with_head else ''}, the others one by one",
            (evidence.events.number[0], evidence.events.number[first.events - 1]),
        ),
        layer="body",
        size_bytes=size,
        next_test="send a comment of some kB before the first event",
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
        because=_why(
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
        because=_why(
            f"HTTP frames of one event each, but {per_record:.1f} events a TLS record, the largest"
            f" {largest} bytes"
        ),
        layer="tls-record",
        size_bytes=largest,
        next_test="ask over HTTP/2, or in clear text",
    )


def _fixed_frames(shape: Shape) -> bool:
    size, share = shape.frame_mode
    return share >= MOST and size >= MIN_BUFFER and size & (size - 1) == 0


def _size_buffer(shape: Shape) -> Guess | None:
    per_frame = shape.per_frame
    size, share = shape.frame_mode
    if per_frame is not None and per_frame >= COLLECTED and share >= MOST:
        cut = shape.mid_event > NOTABLE
        if cut or _fixed_frames(shape):
            said = f"{round(100 * share)} % of HTTP frames have exactly {size} bytes"
            said += ", bursts end within an event" if cut else ", whole events as it happens"
            return Guess(
                answer=Answer.SIZE_BUFFER,
                because=_why(said),
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
        because=_why(
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
    sizes = sorted(burst.size for burst in shape.core)
    return round(quantile(sizes, 0.5)) if sizes else None


# -- below HTTP ------------------------------------------------------------------------------------


def _intact(shape: Shape) -> bool:
    return shape.per_frame is not None and shape.per_frame < SINGLE


def _own_segments(shape: Shape) -> bool:
    """About one segment an event where several came together: they travelled alone."""
    segments = shape.segments_per_event
    return segments is not None and segments >= 1 / SINGLE


def _loss(shape: Shape) -> Guess | None:
    if shape.lossy_bursts < LOSSY or not (_intact(shape) or _own_segments(shape)):
        return None
    return Guess(
        answer=Answer.LOSS,
        because=_why(
            f"{shape.out_of_order} segments came out of order, in"
            f" {round(100 * shape.lossy_bursts)} % of the bursts"
        ),
        layer="segment",
        period_ns=shape.evidence.rtt_ns or None,
        next_test="repeat over another link",
    )


def _client_lag(shape: Shape) -> Guess | None:
    """Each event in a segment of its own, small ones, several waiting when we read."""
    if not _own_segments(shape) or shape.out_of_order or shape.per_frame is None:
        return None
    if not _intact(shape) or shape.mid_event > NOTABLE:
        return None
    by_read = Counter(shape.evidence.events.read)
    together = sum(n for n in by_read.values() if n >= 2)
    in_bursts = sum(burst.events for burst in shape.multi)
    if together < MOST * in_bursts:
        return None
    late = [burst.late_ns for burst in shape.multi]
    return Guess(
        answer=Answer.CLIENT_LAG,
        because=_why(
            "each event came in a TCP segment of its own, and several waited in this machine's"
            f" socket when it was read, the first up to {format_duration(max(late))}"
        ),
        layer="segment",
        period_ns=round(shape.median_gap_ns),
        next_test="run on an idle machine",
    )


def _below_http(shape: Shape) -> Guess | None:
    frames = shape.frames_per_burst
    if shape.together < FEW_FULL:
        return None
    segmented = shape.mid_event - shape.cut_mid_event > NOTABLE
    if frames is None or not (_intact(shape) or frames >= COLLECTED or segmented):
        return None
    if shape.cut_mid_event > MOST and not shape.compressed and _even(shape):
        rate = _usual_size(shape) or 0
        return Guess(
            answer=Answer.THROTTLE,
            because=_why(
                f"HTTP frames intact, bursts of {rate} bytes every"
                f" {format_duration(round(shape.median_gap_ns))}, cut anywhere"
            ),
            layer="segment",
            size_bytes=rate,
            period_ns=round(shape.median_gap_ns),
            next_test="ask for a slower stream: a throttle lets it pass",
        )
    return Guess(
        answer=Answer.TRANSPORT_CORK,
        because=_why(
            f"{frames:.1f} HTTP frames a burst, each as its sender made it, a burst every"
            f" {format_duration(round(shape.median_gap_ns))}"
        ),
        layer="segment",
        period_ns=round(shape.median_gap_ns),
        alternatives=(Answer.TIMER,) if shape.evidence.rtt_ns < NS_PER_MS else (Answer.LOSS,),
        next_test="ask over HTTP/2 or TLS, where a sender's cork rarely applies",
    )


def _even(shape: Shape) -> bool:
    return shape.size_variation < STEADY and shape.gap_variation < STEADY


# -- whole events in groups ------------------------------------------------------------------------

NEXT_ACTIVE = (
    "stamp the events at the sender, or ask for a stream of varied gaps: a timer keeps its pace,"
    " a server's batches follow the model"
)
SLIP_EVENTS = 4
"""Speculative decoding gives one to five events a step; below four to a burst, a count that
wavers by one may be that."""


def slips(shape: Shape) -> bool:
    """Burst counts waver by one around a middle: two clocks beat, the events' and somebody's timer.
    A sender's batches have one size, or widely different ones."""
    middle = _middle(shape)
    return middle >= SLIP_EVENTS and _wavers(shape)


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
    too; where sizes differ, bytes must vary clearly more than gaps."""
    per_event = [burst.size / burst.events for burst in shape.core if burst.events]
    if variation(per_event) < STEADY / 3:
        return True
    return shape.gap_variation < shape.size_variation / 2


def _timer(shape: Shape, said: str, *others: Answer) -> Guess:
    period = round(quantile(sorted(shape.gaps), 0.1)) if shape.gaps else None
    return Guess(
        answer=Answer.TIMER,
        because=_why(said),
        layer="http-frame",
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


def _batches(shape: Shape) -> Guess:
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
            because=_why(
                "groups of whole events, one HTTP frame each, of different numbers that the wait"
                " before them does not explain"
            ),
            layer="http-frame",
            alternatives=(Answer.PACED_BATCH,),
            next_test=NEXT_ACTIVE,
        )
    return Guess(
        answer=Answer.PACED_BATCH,
        because=_why(f"{shape.per_burst:.1f} whole events together every {gap}"),
        layer="http-frame",
        period_ns=round(shape.median_gap_ns),
        alternatives=(Answer.TIMER, Answer.SERVER_BATCH, Answer.SIZE_BUFFER),
        next_test=NEXT_ACTIVE,
    )


def _of_the_sender(shape: Shape) -> bool:
    """Numbers and gaps both vary widely, and a longer wait does not bring more events, as it would
    with anybody who only collects."""
    if shape.gap_variation <= STEADY or shape.count_variation <= STEADY or _wavers(shape):
        return False
    return follows(shape) < MOST


def follows(shape: Shape) -> float:
    """Correlation of a burst's event count with the gap before it, -1..1; 0 for too few."""
    pairs = [
        (float(after.start_ns - before.start_ns), float(after.events))
        for before, after in zip(shape.bursts, shape.bursts[1:], strict=False)
        if after.events
    ][:-1]
    if len(pairs) < 3:
        return 0.0
    mean_gap = sum(gap for gap, _ in pairs) / len(pairs)
    mean_count = sum(count for _, count in pairs) / len(pairs)
    both = sum((gap - mean_gap) * (count - mean_count) for gap, count in pairs)
    gaps = sum((gap - mean_gap) ** 2 for gap, _ in pairs)
    counts = sum((count - mean_count) ** 2 for _, count in pairs)
    return both / (gaps * counts) ** 0.5 if gaps > 0 and counts > 0 else 0.0
