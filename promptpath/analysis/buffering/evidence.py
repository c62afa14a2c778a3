"""What a buffering verdict looks at: one stream's events, reads and frames, in columns.

It says nothing of where it came from, a live trace or a recording; times are ns on the client's
clock, `server_ns` on the sender's. Missing columns are empty, missing values -1 (`MISSING`).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from promptpath.analysis.sender_clock import tells_holds
from promptpath.model.units import Ns

MISSING = -1
"""Marks "not known" inside a column; it never leaves analysis."""


def _numbers() -> array[int]:
    return array("q")


@dataclass(slots=True, kw_only=True)
class Events:
    """The events with content in order of arrival, one column a property."""

    number: array[int] = field(default_factory=_numbers)
    """Which event of the trace (or recording) it is."""
    at_ns: array[int] = field(default_factory=_numbers)
    """Arrival of its last byte."""
    read: array[int] = field(default_factory=_numbers)
    """The read that completed it: an index into `Reads`."""
    server_ns: array[int] = field(default_factory=_numbers)
    """When its sender sent it, by the sender's clock. Of events with content only: the stamps of
    keepalive comments come from another clock and are never among them."""

    def __len__(self) -> int:
        return len(self.at_ns)

    @property
    def stamped(self) -> bool:
        """Whether the sender stamped every event, by a clock fine enough to tell of a hold."""
        return MISSING not in self.server_ns and tells_holds(self.server_ns)


@dataclass(slots=True, kw_only=True)
class Reads:
    """The reads from the kernel that brought the body, one column a property."""

    at_ns: array[int] = field(default_factory=_numbers)
    late_ns: array[int] = field(default_factory=_numbers)
    """How long its first bytes may have waited for us: the width of the stamp's interval where the
    stamps are certified, else user time minus the kernel's stamp."""
    size: array[int] = field(default_factory=_numbers)
    """Bytes on the wire (TLS and HTTP framing included)."""
    segments: array[int] = field(default_factory=_numbers)
    ooo: array[int] = field(default_factory=_numbers)
    """Segments that came out of order since the read before."""
    pending: array[int] = field(default_factory=_numbers)
    """Bytes of an unfinished event after it."""

    def __len__(self) -> int:
        return len(self.at_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One stream, as a buffering verdict sees it."""

    events: Events
    reads: Reads
    frames: tuple[int, ...]
    """Payload bytes of each HTTP chunk or DATA frame; empty for a body with neither."""
    records: tuple[int, ...]
    """Ciphertext bytes of each TLS record of the body; empty without TLS."""
    framed_events: int
    """Events of any kind in the body: what frames and records are compared with."""
    body_bytes: int
    """Body bytes after content decoding."""
    headers: dict[str, str]
    """The response's, by lower-case name."""
    asked_ns: Ns
    """The last request byte left."""
    head_ns: Ns
    """The response head was complete."""
    rtt_ns: Ns
    """Round trip to the TCP peer, the smallest seen; 0 when nobody knows."""
    mtu: int | None
    """Path MTU in bytes, as the kernel has it; None when nobody knows."""
    certified: bool
    """Read stamps are intervals that prove what they say (see docs/concepts/stamps.md)."""
