"""The evidence of a live (or saved) trace."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from dataclasses import dataclass, field

from promptpath.analysis.buffering.evidence import MISSING, Events, Evidence, Reads
from promptpath.analysis.scan import Scan
from promptpath.model.enums import Clock, EventKind, Layer
from promptpath.model.names import MARK_HEAD, SPAN_HANDSHAKE, SPAN_RESPONSE
from promptpath.model.rows import Arrival
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_S, Ns

NS_PER_DAY = 86_400 * NS_PER_S
MAX_EVENTS = 5_000
"""A rhythm shows in fewer; more would only cost memory."""


@dataclass(slots=True)
class _Layers:
    """The arrivals of the final response, by layer."""

    reads: Reads = field(default_factory=Reads)
    frames: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    body_at: array[int] = field(default_factory=lambda: array("q"))
    body_pending: array[int] = field(default_factory=lambda: array("q"))
    body_size: array[int] = field(default_factory=lambda: array("q"))
    body_bytes: int = 0
    last_ooo: int = 0


def trace_evidence(
    trace: Trace, scan: Scan, headers: dict[str, str], *, rtt_ns: Ns | None, mtu: int | None
) -> Evidence | None:
    """The final response's stream; None where no response head came.

    An event belongs to the read that has its stamp. What came after the last event with content
    (usage, end marker, last chunk) tells nothing of the stream's rhythm and is left out.
    """
    heads = list(trace.marks_of(MARK_HEAD))
    response = next((s for s in reversed(trace.spans) if s.name == SPAN_RESPONSE), None)
    if not heads or response is None:
        return None
    head_ns = heads[-1].at_ns
    content = scan.content
    last_ns = content.at_ns[min(len(content), MAX_EVENTS) - 1] if len(content) else head_ns
    layers = _layers(trace, response.id, response.conn, head_ns, last_ns)
    return Evidence(
        events=_events(trace, scan, layers.reads),
        reads=layers.reads,
        frames=tuple(layers.frames),
        records=tuple(layers.records),
        framed_events=_framed_events(trace, head_ns, last_ns),
        body_bytes=layers.body_bytes,
        headers=headers,
        asked_ns=response.start_ns,
        head_ns=head_ns,
        rtt_ns=rtt_ns or 0,
        mtu=mtu,
        certified=trace.clock.source is Clock.KERNEL and trace.clock.segment_counter,
    )


def _framed_events(trace: Trace, head_ns: Ns, last_ns: Ns) -> int:
    """Events of any kind, bytes that are none left out."""
    count = 0
    for event in trace.events:
        if event.at_ns > last_ns:
            break
        count += event.kind is not EventKind.FOREIGN_BYTES and event.at_ns >= head_ns
    return count


def _layers(trace: Trace, response: int, conn: int | None, head_ns: Ns, last_ns: Ns) -> _Layers:
    on_connection = {span.id for span in trace.spans if span.conn == conn}
    innermost = max(
        (s.id for s in trace.spans if s.name == SPAN_HANDSHAKE and s.conn == conn), default=None
    )
    layers = _Layers()
    for arrival in trace.arrivals:
        if arrival.layer is Layer.SEGMENT_READ and arrival.span in on_connection:
            _take_read(layers, arrival, head_ns, last_ns)
        if arrival.at_ns > last_ns and arrival.span == response:
            break
        if not head_ns <= arrival.at_ns <= last_ns:
            continue
        if arrival.layer is Layer.HTTP_FRAME and arrival.span == response:
            layers.frames.append(arrival.size)
        elif arrival.layer is Layer.TLS_RECORD and arrival.span == innermost:
            layers.records.append(arrival.size)
        elif arrival.layer is Layer.BODY and arrival.span == response:
            layers.body_bytes += arrival.size
            layers.body_at.append(arrival.at_ns)
            layers.body_size.append(arrival.size)
            layers.body_pending.append(MISSING if arrival.pending is None else arrival.pending)
    if not len(layers.reads):
        _read_bodies(layers)
    _add_pending(layers)
    return layers


def _take_read(layers: _Layers, arrival: Arrival, head_ns: Ns, last_ns: Ns) -> None:
    ooo = arrival.ooo or 0
    new, layers.last_ooo = max(0, ooo - layers.last_ooo), max(ooo, layers.last_ooo)
    if not head_ns <= arrival.at_ns <= last_ns:
        return
    reads = layers.reads
    reads.at_ns.append(arrival.at_ns)
    # A saved trace may hold any instants; their difference must fit the column.
    reads.late_ns.append(min(max(0, arrival.at_ns - arrival.lo_ns), NS_PER_DAY))
    reads.size.append(arrival.size)
    reads.segments.append(MISSING if arrival.segments is None else arrival.segments)
    reads.ooo.append(new)


def _read_bodies(layers: _Layers) -> None:
    """A trace without reads from a TCP socket: pieces of the body that came together stand for
    them."""
    reads = layers.reads
    for at_ns, size in zip(layers.body_at, layers.body_size, strict=True):
        if len(reads) and reads.at_ns[-1] == at_ns:
            reads.size[-1] += size
            continue
        reads.at_ns.append(at_ns)
        reads.late_ns.append(0)
        reads.size.append(size)
        reads.segments.append(MISSING)
        reads.ooo.append(0)


def _add_pending(layers: _Layers) -> None:
    """Each read's pending bytes: those after the last body piece with its stamp, or before."""
    at, position, pending = layers.body_at, 0, 0
    for read_ns in layers.reads.at_ns:
        while position < len(at) and at[position] <= read_ns:
            pending = layers.body_pending[position]
            position += 1
        layers.reads.pending.append(pending)


def _events(trace: Trace, scan: Scan, reads: Reads) -> Events:
    events, content = Events(), scan.content
    if not len(reads):
        return events
    for index in range(min(len(content), MAX_EVENTS)):
        at_ns = content.at_ns[index]
        events.number.append(content.index[index])
        events.at_ns.append(at_ns)
        events.server_ns.append(content.server_ns[index])
        # A saved trace may hold any instants: the read at or after it, or the last one.
        events.read.append(min(bisect_left(reads.at_ns, at_ns), len(reads) - 1))
    return events
