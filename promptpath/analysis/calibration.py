"""One stream of a calibration: when each event was sent, when it arrived, how long it was held.

The server stamps each event with its own clock. The smallest difference of arrival and sending over
all streams is the path itself and the clocks' offset; what an event took beyond it, somebody held
it (minimum filter). Every stream ends right after its last event, and no box holds an ended one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from promptpath.analysis.buffering.hold import TOLERATED_NS, reached_by_a_tenth
from promptpath.analysis.facts import Facts, rtt_ns, whole
from promptpath.analysis.stats import median
from promptpath.model.enums import EventKind, Layer
from promptpath.model.names import (
    HTTP_HEADERS,
    HTTP_STATUS,
    HTTP_VERSION,
    MARK_HEAD,
    TEST,
    TLS_CIPHER,
    TLS_VERSION,
)
from promptpath.model.redact import printable
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, Ns

SILENCE_NS = 5 * NS_PER_MS
"""Between two releases: above the pace of the ramp (4 ms), whose events nobody holds come without
such a pause."""
SAME_SHARE = 0.9
"""Of the releases must have one size, to the byte, to be a buffer's (measured: 100 % for nginx' 4,
8 and 16 kB, and for every other fixed buffer)."""
FEW = 4
"""Releases below which no size is told from chance; 600 kB have nine of the largest buffer."""
FRAMING_BYTES = 64
"""What frames put around an event: a chunk's two lines some 9 bytes, a DATA frame's head 9 (RFC
9113, 4.1). A size so little above the events' own is no buffer's."""
_NAME_CHARS = 60

_RECORD_OVERHEAD = {"TLSv1.3": 22}
"""Bytes of a record that are not plaintext: header 5, content type 1, tag 16 (RFC 8446, 5.2)."""
_OLD_OVERHEAD = (("CHACHA20", 21), ("GCM", 29), ("CCM", 29))
"""TLS 1.2: header 5, tag 16, and an explicit nonce of 8 but for ChaCha20 (RFC 5288; RFC 7905)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One event with both of its times, on clocks of their own."""

    seq: int
    sent_ns: Ns
    """By the server's clock."""
    at_ns: Ns
    """CLOCK_MONOTONIC of this machine."""
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What a test stream brought."""

    run: int
    """Index of its trace."""
    kind: str
    """ramp | single | sweep | variant."""
    name: str
    gap_ns: Ns | None
    preamble_bytes: int
    status: int | None
    http: str | None
    headers: dict[str, str]
    whole: bool
    """Its end event came."""
    events: tuple[Sent, ...]
    frames: tuple[int, ...]
    """Payload bytes of each chunk or DATA frame."""
    records: tuple[int, ...]
    """Plaintext bytes of each TLS record of the body; empty where they cannot be told."""
    released: tuple[int, ...]
    """Body bytes that came together, between two pauses; the last, which the end releases, left
    out."""
    rtt_ns: Ns

    @property
    def tolerated_ns(self) -> Ns:
        """The hold at the 90th percentile that counts as passing."""
        return TOLERATED_NS + self.rtt_ns // 2


def streams_of(traces: Sequence[Trace]) -> list[Stream]:
    """The streams of a calibration among these traces."""
    found = []
    for run, trace in enumerate(traces):
        facts = Facts(trace)
        about = facts.record(TEST)
        if about.get("command") == "calibrate":
            found.append(_stream(trace, run, facts, about))
    return found


def _stream(trace: Trace, run: int, facts: Facts, about: dict[str, object]) -> Stream:
    head = next(trace.marks_of(MARK_HEAD), None)
    head_ns = 0 if head is None else head.at_ns
    return Stream(
        run=run,
        kind=str(about.get("kind")),
        name=printable(str(about.get("name") or about.get("kind")))[:_NAME_CHARS],
        gap_ns=whole(about.get("gap_ns")),
        preamble_bytes=whole(about.get("preamble_bytes")) or 0,
        status=facts.whole(HTTP_STATUS),
        http=facts.text(HTTP_VERSION),
        headers=facts.headers(HTTP_HEADERS),
        whole=any(event.kind is EventKind.END for event in trace.events),
        events=_events(trace),
        frames=tuple(a.size for a in trace.arrivals if a.layer is Layer.HTTP_FRAME),
        records=_records(trace, facts, head_ns),
        released=_released(trace),
        rtt_ns=rtt_ns(facts) or 0,
    )


def _events(trace: Trace) -> tuple[Sent, ...]:
    start_ns = trace.clock.epoch_monotonic_ns
    return tuple(
        Sent(
            seq=event.seq,
            sent_ns=event.server_ns,
            at_ns=start_ns + event.at_ns,
            size_bytes=event.bytes,
        )
        for event in trace.events
        if event.seq is not None and event.server_ns is not None
    )


def _records(trace: Trace, facts: Facts, head_ns: Ns) -> tuple[int, ...]:
    overhead = _RECORD_OVERHEAD.get(facts.text(TLS_VERSION) or "")
    if overhead is None:
        cipher = facts.text(TLS_CIPHER) or ""
        overhead = next((size for name, size in _OLD_OVERHEAD if name in cipher), None)
    if overhead is None:
        return ()
    return tuple(
        arrival.size - overhead
        for arrival in trace.arrivals
        if arrival.layer is Layer.TLS_RECORD and arrival.at_ns > head_ns
    )


def _released(trace: Trace) -> tuple[int, ...]:
    sizes: list[int] = []
    last_ns: Ns | None = None
    for arrival in trace.arrivals:
        if arrival.layer is not Layer.BODY:
            continue
        if last_ns is None or arrival.at_ns - last_ns >= SILENCE_NS:
            sizes.append(0)
        sizes[-1] += arrival.size
        last_ns = arrival.at_ns
    return tuple(sizes[:-1])


# -- holds -----------------------------------------------------------------------------------------


def fastest_ns(streams: Sequence[Stream]) -> Ns | None:
    """The smallest difference of arrival and sending of any event; None without events."""
    return min((e.at_ns - e.sent_ns for s in streams for e in s.events), default=None)


def holds_ns(stream: Stream, fastest: Ns) -> list[Ns]:
    """How long each event was held, in order of arrival."""
    return [event.at_ns - event.sent_ns - fastest for event in stream.events]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The holds of one stream in three numbers."""

    p50_ns: Ns
    p90_ns: Ns
    """A tenth of the events were held at least so long."""
    max_ns: Ns
    passes: bool


def held(stream: Stream, fastest: Ns) -> Held | None:
    """The holds; None without a stamped event."""
    holds = sorted(holds_ns(stream, fastest))
    if not holds:
        return None
    p90_ns = round(reached_by_a_tenth(holds))
    return Held(
        p50_ns=round(median(holds)),
        p90_ns=p90_ns,
        max_ns=holds[-1],
        passes=p90_ns <= stream.tolerated_ns,
    )


# -- the ramp: a buffer's size ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A buffer of a fixed size."""

    size_bytes: int
    layer: str
    """http-frame | tls-record | body: where that size shows."""
    share: float
    """Of the releases that have exactly this size."""
    releases: int


def buffer_of(stream: Stream) -> Buffer | None:
    """The buffer that the ramp shows, to the byte; None where no size repeats, or where everything
    came at once: then the pieces are how a whole body was written."""
    if _came_at_once(stream):
        return None
    own = {event.size_bytes for event in stream.events}
    burst = _repeated(stream.released[1:], own)
    frame = _repeated(stream.frames[1:-1], own)
    record = _repeated(_full(stream.records[1:-1]), own)
    if burst is not None and frame is not None and burst[0] == frame[0]:
        return Buffer(size_bytes=burst[0], layer="http-frame", share=burst[1], releases=burst[2])
    for layer, found in (("body", burst), ("tls-record", record), ("http-frame", frame)):
        if found is not None:
            size, share, count = found
            return Buffer(size_bytes=size, layer=layer, share=share, releases=count)
    return None


def _came_at_once(stream: Stream) -> bool:
    """Whether the events arrived in less than half of the time in which they were sent, as from a
    box that keeps a body to its end (lighttpd then fills TLS records, a scanner chunks)."""
    if len(stream.events) < FEW:
        return False
    first, last = stream.events[0], stream.events[-1]
    return 2 * (last.at_ns - first.at_ns) < last.sent_ns - first.sent_ns


def _full(records: Sequence[int]) -> list[int]:
    """Without the records that hold a chunk's few bytes of framing alone."""
    return [size for size in records if size > 16]


def _repeated(sizes: Sequence[int], own: set[int]) -> tuple[int, float, int] | None:
    """The size that nearly all have, its share and their number; None where it is an event's own
    size in its frame, as it would be without a buffer."""
    if len(sizes) < FEW:
        return None
    size, count = Counter(sizes).most_common(1)[0]
    share = count / len(sizes)
    if share < SAME_SHARE or any(0 <= size - event <= FRAMING_BYTES for event in own):
        return None
    return size, share, len(sizes)


def frames_intact(stream: Stream) -> bool:
    """Whether each HTTP frame carries one event, as the server sent it: nobody above HTTP's framing
    collected anything."""
    own = {event.size_bytes for event in stream.events}
    alone = sum(size in own for size in stream.frames)
    return bool(stream.frames) and alone >= SAME_SHARE * len(stream.frames)


# -- single events: a timer, or a box that waits for the next one ----------------------------------

PASSES, TIMER, NEXT_EVENT, TO_THE_END, MIXED, SHORT = (
    "passes",
    "timer",
    "next-event",
    "to-the-end",
    "mixed",
    "too-short",
)
NEAR_NS = 50 * NS_PER_MS
"""How near two instants are that belong together: the delayed ACK of 40 ms (RFC 9293, 3.8.6.3) and
scheduling lie below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """What becomes of an event after which nothing is sent."""

    answer: str
    timer_ns: Ns | None
    """The time after which it is let go."""
    spread_ns: Ns
    holds_ns: tuple[Ns, ...]


def single_of(stream: Stream, fastest: Ns) -> Single:
    """The answer of the stream of single events. Its last event and its end are sent together and
    say nothing; nor does the first one: it follows the head, with which a timer may have begun
    (measured: 193 ms of HAProxy's 200)."""
    lone = stream.events[1:-2]
    holds = holds_ns(stream, fastest)[1:-2]
    if not stream.whole or len(lone) < 3:
        return Single(answer=SHORT, timer_ns=None, spread_ns=0, holds_ns=tuple(holds))
    spread = max(holds) - min(holds)
    answer, timer_ns = MIXED, None
    end_ns = stream.events[-1].at_ns
    if sorted(holds)[-2] <= stream.tolerated_ns:
        # One may have met a busy machine.
        answer = PASSES
    elif all(end_ns - event.at_ns <= NEAR_NS for event in lone):
        answer = TO_THE_END
    elif _wait_for_next(stream.events[1:-1], fastest):
        answer = NEXT_EVENT
    elif min(holds) > stream.tolerated_ns and _one_time(holds):
        # Scheduling and queues only add: the smallest is the nearest.
        answer, timer_ns = TIMER, min(holds)
    return Single(answer=answer, timer_ns=timer_ns, spread_ns=spread, holds_ns=tuple(holds))


def _one_time(holds: Sequence[Ns]) -> bool:
    """All but one were held for the same time."""
    ordered = sorted(holds)
    return ordered[-2] - ordered[0] <= NEAR_NS


def _wait_for_next(events: Sequence[Sent], fastest: Ns) -> bool:
    return all(
        0 <= event.at_ns - after.sent_ns - fastest <= NEAR_NS for event, after in pairwise(events)
    )


# -- the sweep: an initial hold --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """How many bytes a response must have before its beginning is let go."""

    held_bytes: int
    """The most that was still held."""
    passed_bytes: int
    """The least that passed."""

    @property
    def exact(self) -> bool:
        """To the byte."""
        return self.passed_bytes - self.held_bytes <= 1


def sweep_of(streams: Sequence[Stream], fastest: Ns) -> Sweep | None:
    """The initial hold between a size that was held and a larger one that passed; None where none
    was held, or where no size helps: then it is no initial hold."""
    held_at: list[int] = []
    passed_at: list[int] = []
    for stream in streams:
        if stream.kind != "sweep" or not stream.whole or not stream.events or not stream.gap_ns:
            continue
        first = stream.events[0]
        size = stream.preamble_bytes + first.size_bytes
        late = first.at_ns - first.sent_ns - fastest > stream.gap_ns // 2
        (held_at if late else passed_at).append(size)
    if not held_at or not passed_at or max(held_at) >= max(passed_at):
        return None
    most_held = max(size for size in held_at if size < max(passed_at))
    least_passed = min(size for size in passed_at if size > most_held)
    return Sweep(held_bytes=most_held, passed_bytes=least_passed)


def next_sizes(streams: Sequence[Stream], fastest: Ns, most: int = 8) -> list[int]:
    """Sizes of comments that narrow the sweep; empty when it is exact, or there is no hold."""
    found = sweep_of(streams, fastest)
    sweeps = [s for s in streams if s.kind == "sweep" and s.events]
    if found is None or found.exact or not sweeps:
        return []
    # The event's own size may differ by the digits of a number in it.
    own = min(sweeps, key=lambda s: abs(s.preamble_bytes - found.passed_bytes)).events[0].size_bytes
    room = found.passed_bytes - found.held_bytes
    steps = min(most, room - 1)
    asked = {s.preamble_bytes for s in sweeps}
    sizes = [found.held_bytes + room * (n + 1) // (steps + 1) - own for n in range(steps)]
    return [size for size in dict.fromkeys(sizes) if size >= 0 and size not in asked]
