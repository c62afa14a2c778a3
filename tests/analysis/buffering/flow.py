"""Streams as they come through boxes: what the sender sends, carried by a box, seen by a client.

    flow = held_until(4096, steady(200, gap_ms=10, size=97))

A flow becomes evidence directly (`evidence_of`) or a trace (`trace_of`). Pure arithmetic on ms.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from promptpath.analysis.buffering.evidence import MISSING, Events, Evidence, Reads
from promptpath.model.enums import EventKind, Layer
from promptpath.model.stamp import Stamp
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, ns

ASKED_MS = 10.0
"""The request's last byte left."""
HEAD_MS = 12.0
CHUNK_OVERHEAD = 8
RTT_MS = 1.0


@dataclass(frozen=True, slots=True)
class Sent:
    """One event at its sender."""

    at_ms: float
    size: int


@dataclass(slots=True)
class Delivery:
    """One read at the client."""

    at_ms: float
    events: list[int]
    """Events it completes."""
    size: int
    pending: int = 0
    segments: int = 1
    ooo: int = 0
    late_ms: float = 0.0


@dataclass(slots=True)
class Flow:
    """A stream as it arrives."""

    sent: Sequence[Sent]
    deliveries: list[Delivery]
    frames: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=lambda: dict(CLEAN_HEADERS))
    rtt_ms: float = RTT_MS
    mtu: int | None = 65535
    head_ms: float = HEAD_MS


def steady(count: int, *, gap_ms: float, size: int, ttft_ms: float = 100.0) -> list[Sent]:
    """Events of one size at even gaps."""
    return [Sent(ttft_ms + index * gap_ms, size) for index in range(count)]


def varied(
    count: int, *, gap_ms: float, size: int, seed: int = 1, ttft_ms: float = 100.0
) -> list[Sent]:
    """Events whose sizes and gaps vary by half around the middle, as a model's do."""
    dice = random.Random(seed)
    at_ms, sent = ttft_ms, []
    for _ in range(count):
        sent.append(Sent(at_ms, round(size * dice.uniform(0.5, 1.5))))
        at_ms += gap_ms * dice.uniform(0.5, 1.5)
    return sent


def one_by_one(sent: Sequence[Sent], *, jitter_ms: float = 0.0, seed: int = 1) -> Flow:
    """Nobody holds anything: a frame, a segment, a read an event."""
    dice = random.Random(seed)
    deliveries, before = [], 0.0
    for index, event in enumerate(sent):
        before = max(before, event.at_ms + dice.uniform(0, jitter_ms))
        deliveries.append(Delivery(before, [index], event.size + CHUNK_OVERHEAD))
    return Flow(sent, deliveries, frames=[event.size for event in sent])


def held_until(bytes_: int, sent: Sequence[Sent]) -> Flow:
    """A buffer: a frame of `bytes_` whenever so many have come, the rest at the end."""
    deliveries: list[Delivery] = []
    frames: list[int] = []
    held, waiting = 0, []
    for index, event in enumerate(sent):
        held += event.size
        waiting.append(index)
        while held >= bytes_:
            held -= bytes_
            cut = held > 0
            done = waiting[:-1] if cut else waiting
            waiting = waiting[-1:] if cut else []
            pending = sent[index].size - held if cut else 0
            deliveries.append(Delivery(event.at_ms, done, bytes_ + CHUNK_OVERHEAD, pending))
            frames.append(bytes_)
    if held:
        deliveries.append(Delivery(sent[-1].at_ms + 1, waiting, held + CHUNK_OVERHEAD))
        frames.append(held)
    return Flow(sent, deliveries, frames=frames)


def grouped(sent: Sequence[Sent], groups: Sequence[tuple[float, list[int]]]) -> Flow:
    """Whole events in groups, a frame each."""
    deliveries, frames = [], []
    for at_ms, indices in groups:
        size = sum(sent[index].size for index in indices)
        deliveries.append(Delivery(at_ms, indices, size + CHUNK_OVERHEAD))
        frames.append(size)
    return Flow(sent, deliveries, frames=frames)


def timed(period_ms: float, sent: Sequence[Sent]) -> Flow:
    """A timer that never stops flushes whatever has come."""
    ticks: dict[int, list[int]] = {}
    for index, event in enumerate(sent):
        ticks.setdefault(int(event.at_ms // period_ms) + 1, []).append(index)
    return grouped(sent, [(tick * period_ms, held) for tick, held in sorted(ticks.items())])


def whole(sent: Sequence[Sent]) -> Flow:
    """Everything at the end."""
    flow = grouped(sent, [(sent[-1].at_ms + 5, list(range(len(sent))))])
    flow.head_ms = sent[-1].at_ms + 5
    return flow


def batched(counts: Sequence[int], *, step_ms: float, size: int) -> Flow:
    """A server that emits `counts` events a step of `step_ms` an event."""
    sent: list[Sent] = []
    groups: list[tuple[float, list[int]]] = []
    at_ms = 100.0
    for count in counts:
        groups.append((at_ms + 0.2, list(range(len(sent), len(sent) + count))))
        sent += [Sent(at_ms, size)] * count
        at_ms += count * step_ms
    return grouped(sent, groups)


def one_behind(sent: Sequence[Sent], *, keep: int = 5) -> Flow:
    """The last `keep` bytes of an event come with the next one."""
    deliveries = [Delivery(sent[0].at_ms, [], sent[0].size - keep, sent[0].size - keep)]
    for index in range(1, len(sent)):
        part = sent[index].size - keep
        deliveries.append(Delivery(sent[index].at_ms, [index - 1], keep + part, part))
    deliveries.append(Delivery(sent[-1].at_ms + 1, [len(sent) - 1], keep))
    return Flow(sent, deliveries, frames=[d.size for d in deliveries])


def corked(period_ms: float, sent: Sequence[Sent]) -> Flow:
    """Frames as they were made, collected into a segment every `period_ms`."""
    flow = timed(period_ms, sent)
    flow.frames = [event.size for event in sent]
    return flow


def in_records(bytes_: int, sent: Sequence[Sent]) -> Flow:
    """Frames as they were made, in TLS records of `bytes_`."""
    flow = held_until(bytes_, sent)
    flow.records = [frame + 22 for frame in flow.frames]
    flow.frames = [event.size for event in sent]
    return flow


def read_late(pause_ms: float, sent: Sequence[Sent], *, seed: int = 1) -> Flow:
    """A client that reads again only after half to one and a half `pause_ms`: a segment an event,
    several a read."""
    dice = random.Random(seed)
    groups: list[tuple[float, list[int]]] = []
    until = 0.0
    for index, event in enumerate(sent):
        if event.at_ms > until:
            until = max(until, event.at_ms) + pause_ms * dice.uniform(0.5, 1.5)
            groups.append((until, []))
        groups[-1][1].append(index)
    flow = grouped(sent, groups)
    flow.frames = [event.size for event in sent]
    for delivery in flow.deliveries:
        delivery.segments = len(delivery.events)
        delivery.late_ms = delivery.at_ms - sent[delivery.events[0]].at_ms
    return flow


def lossy(sent: Sequence[Sent], *, rtt_ms: float, every: int) -> Flow:
    """Every `every`th segment is lost and comes a round trip later; those behind it wait."""
    deliveries: list[Delivery] = []
    until, waiting = 0.0, []
    for index, event in enumerate(sent):
        if index % every == 0:
            until = event.at_ms + rtt_ms
        waiting.append(index)
        following = sent[index + 1].at_ms if index + 1 < len(sent) else float("inf")
        if following >= until:
            size = sum(sent[i].size + CHUNK_OVERHEAD for i in waiting)
            at_ms = max(until, event.at_ms)
            behind = len(waiting) - 1
            deliveries.append(Delivery(at_ms, waiting, size, segments=len(waiting), ooo=behind))
            waiting = []
    return Flow(sent, deliveries, frames=[event.size for event in sent], rtt_ms=rtt_ms)


def throttled(bytes_per_tick: int, tick_ms: float, sent: Sequence[Sent]) -> Flow:
    """So many bytes a tick and no more, frames cut anywhere."""
    total = sum(event.size for event in sent)
    ends, position = [], 0
    for event in sent:
        position += event.size
        ends.append(position)
    deliveries: list[Delivery] = []
    passed, at_ms, done = 0, 100.0, 0
    while passed < total:
        at_ms += tick_ms
        come = max((end for end, s in zip(ends, sent, strict=True) if s.at_ms <= at_ms), default=0)
        give = min(bytes_per_tick, come - passed)
        if give <= 0:
            continue
        passed += give
        first = done
        while done < len(ends) and ends[done] <= passed:
            done += 1
        pending = passed - (ends[done - 1] if done else 0)
        deliveries.append(Delivery(at_ms, list(range(first, done)), give, pending))
    return Flow(sent, deliveries, frames=[event.size for event in sent])


def start_held(bytes_: int, sent: Sequence[Sent], *, with_head: bool = True) -> Flow:
    """The first `bytes_` wait, then everything passes."""
    held, index = 0, 0
    while held < bytes_:
        held += sent[index].size
        index += 1
    flow = one_by_one(sent[index:])
    for delivery in flow.deliveries:
        delivery.events = [number + index for number in delivery.events]
    at_ms = sent[index - 1].at_ms
    first = Delivery(at_ms, list(range(index)), held + CHUNK_OVERHEAD)
    flow.deliveries.insert(0, first)
    flow.frames.insert(0, held)
    flow.head_ms = at_ms if with_head else HEAD_MS
    flow.sent = sent
    return flow


# -- what a client sees ----------------------------------------------------------------------------


def evidence_of(flow: Flow, *, stamps: bool = False, offset_ms: float = 5_000.123) -> Evidence:
    """As evidence; with `stamps` the sender's clock is `offset_ms` ahead of ours."""
    events, reads = Events(), Reads()
    for number, delivery in enumerate(flow.deliveries):
        reads.at_ns.append(ns(delivery.at_ms))
        reads.late_ns.append(ns(delivery.late_ms))
        reads.size.append(delivery.size)
        reads.segments.append(delivery.segments)
        reads.ooo.append(delivery.ooo)
        reads.pending.append(delivery.pending)
        for index in delivery.events:
            sent_ns = ns(flow.sent[index].at_ms + offset_ms) if stamps else MISSING
            events.number.append(index)
            events.at_ns.append(ns(delivery.at_ms))
            events.read.append(number)
            events.server_ns.append(sent_ns)
    return Evidence(
        events=events,
        reads=reads,
        frames=tuple(flow.frames),
        records=tuple(flow.records),
        framed_events=len(events),
        body_bytes=sum(event.size for event in flow.sent),
        headers=flow.headers,
        asked_ns=ns(ASKED_MS),
        head_ns=ns(flow.head_ms),
        rtt_ns=ns(flow.rtt_ms),
        mtu=flow.mtu,
        certified=True,
    )


def trip_of(flow: Flow, *, stamps: bool = False, offset_ms: float = 5_000.123) -> TraceBuilder:
    """As a trip whose trace holds the same evidence; ended, with its end marker."""
    trip = TraceBuilder()
    trip.error_ns = 0
    trip.now_ns = ns(ASKED_MS)
    trip.tcp_info("end", rtt_ms=flow.rtt_ms, pmtu_bytes=flow.mtu or 0)
    response = trip.request(0).log.spans[-1].id
    trip.head(flow.head_ms - ASKED_MS, headers=flow.headers)
    frames, left_frames = list(flow.frames), 0
    for number, delivery in enumerate(flow.deliveries):
        last = number == len(flow.deliveries) - 1
        trip.now_ns = ns(delivery.at_ms)
        here = trip.now_ns
        late = Stamp(here, here - ns(delivery.late_ms), here, trip.clock, delivery.late_ms == 0)
        trip.log.add_arrival(
            Layer.SEGMENT_READ,
            late,
            span=response,
            offset=0,
            size=delivery.size,
            segments=delivery.segments,
            ooo=sum(d.ooo for d in flow.deliveries[: number + 1]),
        )
        left_frames += delivery.size
        while frames and (last or frames[0] <= left_frames):
            left_frames -= frames[0]
            size = frames.pop(0)
            trip.log.add_arrival(Layer.HTTP_FRAME, late, span=response, offset=0, size=size)
        body = sum(flow.sent[index].size for index in delivery.events)
        trip.log.add_arrival(
            Layer.BODY, late, span=response, offset=0, size=body, pending=delivery.pending
        )
        for index in delivery.events:
            sent_ms = flow.sent[index].at_ms + offset_ms
            trip.log.add_event(
                EventKind.TEXT,
                late,
                late,
                tokens=1,
                chars=4,
                size_bytes=flow.sent[index].size,
                server_ns=ns(sent_ms) if stamps else None,
            )
    return trip.after(1).marker().end()
