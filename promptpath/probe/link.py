"""The seam between sockets and everything above: a link gives bytes with their stamps.

`TcpLink` (probe.tcp) is the real one; `TlsLink` (probe.tls) is a link over a link, so TLS in TLS
is two of them; tests use `ScriptedLink` (tests.tools) with handed-in time. All methods are called
on the loop's thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns

if TYPE_CHECKING:
    from promptpath.probe.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes that became readable together."""

    data: bytes
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Closed:
    """The peer will send no more."""

    how: str
    """fin | rst | close-notify | timed-out | error."""
    stamp: Stamp
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of the bytes up to a marked one; each is None where the kernel does not say
    (yet)."""

    written: Stamp | None
    """Handed to the kernel."""
    wire: Stamp | None
    """Left the machine."""
    acked: Stamp | None
    """Covered by the peer's ACK."""


class Link(Protocol):
    """A byte stream to a peer."""

    conn: int
    """Connection number of the trace."""

    def write(self, data: bytes, mark: str | None = None) -> None:
        """Queue bytes; never blocks. `mark` names their last byte for `sent`."""

    async def drain(self) -> None:
        """Wait until all queued bytes were handed to the kernel. Raises MeasureError."""

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """Everything that has arrived, in order, at least one item; after Closed, only Closed
        again. Raises TimeoutError past the deadline (run time, `RunClock.now_ns`)."""

    def sent(self, mark: str) -> Sent:
        """What is known of the marked byte so far."""

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """`sent`, once the wire stamp is known or the deadline passed (no error)."""

    def info(self) -> dict[str, int] | None:
        """A TCP_INFO snapshot by field name; None where the system has none."""

    def rebind(self, recorder: Recorder) -> None:
        """Go on in another run (a warm request on this connection): its recorder, its clock, a new
        connection number. What is at hand but not received yet keeps its instants, on that run's
        clock."""

    async def close(self) -> None:
        """Close in an orderly way; collects last send stamps; never raises."""

    def abort(self) -> None:
        """Close at once."""


@runtime_checkable
class Settling(Protocol):
    """A link that has facts to record once a run is over."""

    def settle(self) -> None:
        """Record them."""
