"""What aioquic tells of its packets, kept as rows: which number went when, what it held, what was
acknowledged and what was lost.

aioquic writes qlog through an object it is given; this one keeps facts instead of JSON, takes no
time of its own and no random source: whoever drives the connection says which instant it is. Our
own round-trip samples come from here because aioquic floors its estimate at 1 ms (measured).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, cast

from aioquic.quic.logger import QuicLogger, QuicLoggerTrace

from promptpath.model.rows import Json
from promptpath.model.units import Ns

_APPLICATION: Final = frozenset({"0RTT", "1RTT"})
"""Packet types that share one number space (RFC 9000, 12.3)."""
MAX_UNACKED: Final = 4096
"""Sent packets remembered until they are acknowledged; bounds memory where no ACK comes."""
MAX_ROWS: Final = 4096
"""Rows kept until they are taken: one datagram brings a handful."""
_ACK_ELICITING_NOT: Final = frozenset({"ack", "padding", "connection_close"})
"""RFC 9002, section 2."""


@dataclass(frozen=True, slots=True)
class PacketRow:
    """One packet: sent, received, lost or dropped."""

    what: str
    """sent | received | lost | dropped."""
    kind: str
    """initial | handshake | 0RTT | 1RTT | retry | version_negotiation | "" where not known."""
    number: int | None
    size: int | None
    """Bytes of the packet."""
    frames: tuple[str, ...]
    at_ns: Ns
    detail: str | None = None
    """Why it was dropped."""


@dataclass(slots=True)
class QuicRtt:
    """Round trips of ack-eliciting packets whose number is the largest acknowledged (RFC 9002,
    5.1), the peer's own delay still inside."""

    samples: int = 0
    first_ns: Ns | None = None
    last_ns: Ns | None = None
    min_ns: Ns | None = None

    def add(self, sample_ns: Ns) -> None:
        """One more."""
        self.samples += 1
        self.last_ns = sample_ns
        if self.first_ns is None:
            self.first_ns = sample_ns
        if self.min_ns is None or sample_ns < self.min_ns:
            self.min_ns = sample_ns


@dataclass(slots=True)
class QuicCounts:
    """Packets of a connection."""

    sent: int = 0
    received: int = 0
    lost: int = 0
    dropped: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class _Sent:
    at_ns: Ns
    eliciting: bool


class PacketLog(QuicLoggerTrace):
    """The trace that aioquic writes to. `now_ns` is set before each call into aioquic."""

    def __init__(self) -> None:
        super().__init__(is_client=True, odcid=b"")
        self.now_ns: Ns = 0
        self.rows: deque[PacketRow] = deque(maxlen=MAX_ROWS)
        self.rtt = QuicRtt()
        self.counts = QuicCounts()
        self.peer_parameters: dict[str, Json] = {}
        self.server_versions: tuple[int, ...] = ()
        """Of a Version Negotiation packet."""
        self.unexpected = 0
        """Retry and Version Negotiation packets where none was due: a second Retry is one."""
        self.h3_frames: deque[tuple[int, int]] = deque()
        """(stream, length) of each DATA frame whose head came, in order."""
        self._unacked: dict[tuple[str, int], _Sent] = {}
        self._pending: list[dict[str, Any]] = []
        """Packets of the datagram in hand: aioquic fills their list of frames as it reads them."""

    def encode_http3_data_frame(self, length: int, stream_id: int) -> dict[str, Any]:
        """Called for DATA frames alone."""
        return {"data_length": length, "stream_id": stream_id}

    def log_event(self, *, category: str, event: str, data: dict[str, Any]) -> None:
        """aioquic's one entry point."""
        match event:
            case "packet_sent":
                self._sent(data)
            case "packet_received":
                self._received(data)
            case "packet_dropped":
                self._dropped(data)
            case "packet_lost":
                self._lost(data)
            case "parameters_set" if data.get("owner") == "remote":
                self.peer_parameters = _parameters(data)
            case "version_information" if "server_versions" in data:
                self.server_versions = tuple(int(each) for each in data["server_versions"])
            case "frame_parsed" if "data_length" in data:
                self.h3_frames.append((data["stream_id"], data["data_length"]))

    def take(self) -> list[PacketRow]:
        """The rows since the last call."""
        rows = list(self.rows)
        self.rows.clear()
        return rows

    # -- what happened ---------------------------------------------------------------------------

    def _sent(self, data: dict[str, Any]) -> None:
        kind, number, size, frames = _packet(data)
        self.counts.sent += 1
        if number is not None:
            eliciting = bool(set(frames) - _ACK_ELICITING_NOT)
            self._unacked[_space(kind), number] = _Sent(self.now_ns, eliciting)
            if len(self._unacked) > MAX_UNACKED:
                del self._unacked[next(iter(self._unacked))]
        self._row("sent", kind, number, size, frames)

    def _received(self, data: dict[str, Any]) -> None:
        self.counts.received += 1
        self._pending.append(data)

    def settle(self) -> None:
        """A datagram was taken in: tell its packets, and count what their ACKs acknowledge."""
        pending, self._pending = self._pending, []
        for data in pending:
            kind, number, size, frames = _packet(data)
            self._row("received", kind, number, size, frames)
            for frame in data.get("frames") or ():
                if frame.get("frame_type") == "ack":
                    self._acked(_space(kind), frame.get("acked_ranges") or [])

    def _acked(self, space: str, ranges: list[list[int]]) -> None:
        largest = max((each[-1] for each in ranges), default=None)
        if largest is None:
            return
        sent = self._unacked.get((space, largest))
        if sent is not None and sent.eliciting:
            self.rtt.add(max(self.now_ns - sent.at_ns, 0))
        for key in [
            key
            for key in self._unacked
            if key[0] == space and any(low <= key[1] <= high for low, high in ranges)
        ]:
            del self._unacked[key]

    def _lost(self, data: dict[str, Any]) -> None:
        self.counts.lost += 1
        kind, number = str(data.get("type", "")), data.get("packet_number")
        if isinstance(number, int):
            self._unacked.pop((_space(kind), number), None)
        self._row("lost", kind, number, None, ())

    def _dropped(self, data: dict[str, Any]) -> None:
        trigger = str(data.get("trigger", "unknown"))
        self.unexpected += trigger == "unexpected_packet"
        if trigger == "duplicate":
            self.counts.duplicates += 1
        else:
            self.counts.dropped += 1
        size = (data.get("raw") or {}).get("length")
        self._row("dropped", "", None, size, (), trigger)

    def _row(
        self,
        what: str,
        kind: str,
        number: int | None,
        size: int | None,
        frames: tuple[str, ...],
        detail: str | None = None,
    ) -> None:
        self.rows.append(PacketRow(what, kind, number, size, frames, self.now_ns, detail))


class PacketLogger(QuicLogger):
    """Gives aioquic our trace."""

    def __init__(self) -> None:
        super().__init__()
        self.log = PacketLog()

    def start_trace(self, is_client: bool, odcid: bytes) -> QuicLoggerTrace:
        """The one connection's log."""
        return self.log

    def end_trace(self, trace: QuicLoggerTrace) -> None:
        """Nothing to write."""


def _space(kind: str) -> str:
    return "application" if kind in _APPLICATION else kind


def _packet(data: dict[str, Any]) -> tuple[str, int | None, int | None, tuple[str, ...]]:
    header = data.get("header") or {}
    frames = tuple(str(each.get("frame_type")) for each in data.get("frames") or ())
    size = (data.get("raw") or {}).get("length")
    return str(header.get("packet_type", "")), header.get("packet_number"), size, frames


def _parameters(data: dict[str, Any]) -> dict[str, Json]:
    """Numbers and switches; connection ids and tokens are nobody's business."""
    hidden = ("connection_id", "token", "address")
    return {
        str(key): cast(Json, value)
        for key, value in data.items()
        if isinstance(value, bool | int | float) and not any(word in key for word in hidden)
    }
