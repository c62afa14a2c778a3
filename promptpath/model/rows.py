"""The rows of a trace, as they stand in JSON and as analysis reads them.

Spans, marks and facts are few; arrivals and events are many and live in the columnar log
(`model.log`), these classes being views on one row of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from promptpath.model.enums import Clock, EventKind, FactSource, Layer, Outcome, Stage
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A measured interval of one attempt."""

    id: int
    """Unique in the trace, counted from 1."""
    parent: int | None
    """The span this one is part of."""
    conn: int | None
    """Connection number, counted from 1; null before there is one."""
    stage: Stage
    name: str
    """What was attempted, for example "connect" or "handshake"; see docs/reference/trace.md."""
    start_ns: Ns
    end_ns: Ns | None
    """Null when the run was cut before the end."""
    outcome: Outcome
    error: str | None
    """Why it did not end `ok`."""

    @property
    def duration_ns(self) -> Ns | None:
        """End minus start, or None when it never ended."""
        return None if self.end_ns is None else self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """Bytes that arrived together at one layer."""

    layer: Layer
    span: int | None
    """The span (a connection's or a stream's) they belong to."""
    at_ns: Ns
    lo_ns: Ns
    hi_ns: Ns
    exact: bool
    clock: Clock
    offset: int
    """Position of the first byte in this layer's byte stream."""
    size: int
    """Payload bytes."""
    segments: int | None
    """TCP data segments this read held (`segment-read` only, where TCP_INFO exists)."""
    ooo: int | None
    """Out-of-order packets received so far on the connection (`segment-read` only)."""
    pending: int | None
    """Bytes of an unfinished event after these (`body` only)."""

    @property
    def stamp(self) -> Stamp:
        """The instant with its error."""
        return Stamp(self.at_ns, self.lo_ns, self.hi_ns, self.clock, self.exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """What one frame of the stream meant. The stamp is of its last byte, `first_*` of its first."""

    kind: EventKind
    at_ns: Ns
    lo_ns: Ns
    hi_ns: Ns
    exact: bool
    clock: Clock
    first_at_ns: Ns
    first_lo_ns: Ns
    first_hi_ns: Ns
    tokens: int | None
    """Model tokens it carried; None when unknown."""
    chars: int
    """Characters of text, reasoning, refusal or tool arguments."""
    bytes: int
    """Bytes on the wire, framing included."""
    seq: int | None
    """The sender's own sequence number."""
    server_ns: int | None
    """The sender's own clock at sending; not ours."""
    data: str | None = None
    """The frame's data; only with --keep-content."""
    text: str | None = None
    """The text it carried; only with --keep-content."""

    @property
    def stamp(self) -> Stamp:
        """The instant of the last byte with its error."""
        return Stamp(self.at_ns, self.lo_ns, self.hi_ns, self.clock, self.exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something known, with how we know it. Keys are listed in `model.names`."""

    key: str
    value: Json
    source: FactSource
    span: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An instant that is no interval and no payload: a TLS message, a send stamp, a SETTINGS
    frame. Names are listed in `model.names`."""

    stage: Stage
    name: str
    span: int | None
    conn: int | None
    at_ns: Ns
    lo_ns: Ns
    hi_ns: Ns
    exact: bool
    clock: Clock
    detail: dict[str, Json] = field(default_factory=dict)

    @property
    def stamp(self) -> Stamp:
        """The instant with its error."""
        return Stamp(self.at_ns, self.lo_ns, self.hi_ns, self.clock, self.exact)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """The wall clock jumped during the run; kernel stamps taken across it are widened."""

    at_ns: Ns
    step_ns: Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockInfo:
    """Which clock the run used and how well."""

    source: Clock
    """`kernel` when receive stamps come from the kernel."""
    epoch_unix_ns: int
    """Wall-clock time of instant 0, for people and for joining with other logs only."""
    epoch_monotonic_ns: int
    """CLOCK_MONOTONIC at instant 0, for joining with logs of the same machine."""
    rx_stamps: bool
    """The kernel stamps received bytes."""
    tx_stamps: bool
    """The kernel stamps sent bytes (wire and ACK)."""
    segment_counter: bool
    """TCP_INFO counts data segments, so stamps can be certified."""
    mapping_error_ns: Ns | None
    """Width of the REALTIME/MONOTONIC bracket (worst of the run); null with `user`."""
    steps: tuple[ClockStep, ...] = ()
