"""TCP_INFO: what the kernel knows of a connection, by name.

Offsets are those of `struct tcp_info` in linux/tcp.h, which only ever grows at its end: fields
beyond the length the kernel returns are left out.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

from promptpath.probe.kernel_stamps import LINUX

_TCP_INFO = 11
_SO_MEMINFO = 55
_MEMINFO = struct.Struct("=I")
"""sock_diag.h, SK_MEMINFO_RMEM_ALLOC: bytes held for received packets, out of order ones
included."""
_MOST_BYTES = 512

FIELDS: tuple[tuple[str, str, int], ...] = (
    ("state", "B", 0),
    ("ca_state", "B", 1),
    ("retransmits", "B", 2),
    ("rto_us", "I", 8),
    ("snd_mss_bytes", "I", 16),
    ("rcv_mss_bytes", "I", 20),
    ("unacked", "I", 24),
    ("sacked", "I", 28),
    ("lost", "I", 32),
    ("retrans", "I", 36),
    ("last_data_sent_ms", "I", 44),
    ("last_data_recv_ms", "I", 52),
    ("last_ack_recv_ms", "I", 56),
    ("pmtu_bytes", "I", 60),
    ("rtt_us", "I", 68),
    ("rttvar_us", "I", 72),
    ("snd_ssthresh", "I", 76),
    ("snd_cwnd", "I", 80),
    ("advmss_bytes", "I", 84),
    ("reordering", "I", 88),
    ("rcv_rtt_us", "I", 92),
    ("rcv_space_bytes", "I", 96),
    ("total_retrans", "I", 100),
    ("pacing_rate_bytes_per_s", "Q", 104),
    ("bytes_acked", "Q", 120),
    ("bytes_received", "Q", 128),
    ("segs_out", "I", 136),
    ("segs_in", "I", 140),
    ("notsent_bytes", "I", 144),
    ("min_rtt_us", "I", 148),
    ("data_segs_in", "I", 152),
    ("data_segs_out", "I", 156),
    ("delivery_rate_bytes_per_s", "Q", 160),
    ("busy_time_us", "Q", 168),
    ("rwnd_limited_us", "Q", 176),
    ("sndbuf_limited_us", "Q", 184),
    ("delivered", "I", 192),
    ("delivered_ce", "I", 196),
    ("bytes_sent", "Q", 200),
    ("bytes_retrans", "Q", 208),
    ("dsack_dups", "I", 216),
    ("reord_seen", "I", 220),
    ("rcv_ooopack", "I", 224),
    ("snd_wnd_bytes", "I", 228),
    ("rcv_wnd_bytes", "I", 232),
    ("rehash", "I", 236),
    ("total_rto", "H", 240),
)
"""(name with its unit, struct format, offset); a name without a unit counts packets or events."""

_SLOTS = tuple((name, struct.Struct(f"={code}"), offset) for name, code, offset in FIELDS)
_COUNTERS = struct.Struct("=B23xI28xI24xI40xQ16xI68xI")
"""state, unacked, last_ack_recv, advmss, bytes_received, data_segs_in, rcv_ooopack: 228 bytes."""

_FIN_NOT_SEEN = frozenset({1, 4, 5})
"""tcp_states.h: ESTABLISHED, FIN_WAIT1, FIN_WAIT2: states in which the peer's FIN has not
arrived."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The few fields that certify a read, taken under the socket's lock, hence of one instant."""

    state: int
    unacked: int
    """Segments of ours in flight."""
    last_ack_ms: int
    """Since the last segment with an ACK came in."""
    advmss_bytes: int
    """The largest segment the peer may send us."""
    bytes_received: int
    """In-order bytes received since the beginning; the FIN counts as one."""
    data_segs_in: int
    """Segments with payload received, duplicates and out-of-order ones included, modulo 2^32."""
    rcv_ooopack: int
    """Segments that arrived out of order."""

    @property
    def fin_seen(self) -> bool:
        """Whether the peer's FIN (or a reset) was processed."""
        return self.state not in _FIN_NOT_SEEN


def read_info(sock: socket.socket) -> dict[str, int] | None:
    """All fields this kernel has, by name; None where the system has no TCP_INFO or the socket is
    closed."""
    raw = _getsockopt(sock, socket.IPPROTO_TCP, _TCP_INFO, _MOST_BYTES)
    return None if raw is None else decode_info(raw)


def decode_info(raw: bytes) -> dict[str, int]:
    """The fields that lie within what the kernel returned."""
    return {
        name: slot.unpack_from(raw, offset)[0]
        for name, slot, offset in _SLOTS
        if offset + slot.size <= len(raw)
    }


def read_counters(sock: socket.socket) -> Counters | None:
    """The certifying fields; None before Linux 5.4 (no rcv_ooopack) and elsewhere."""
    raw = _getsockopt(sock, socket.IPPROTO_TCP, _TCP_INFO, _COUNTERS.size)
    if raw is None or len(raw) < _COUNTERS.size:
        return None
    return Counters(*_COUNTERS.unpack(raw))


def receive_memory_bytes(sock: socket.socket) -> int | None:
    """Memory the kernel holds for received packets of this socket; None where it does not say. Zero
    proves that both its receive queue and its out-of-order queue are empty."""
    raw = _getsockopt(sock, socket.SOL_SOCKET, _SO_MEMINFO, _MEMINFO.size)
    return None if raw is None or len(raw) < _MEMINFO.size else int(_MEMINFO.unpack(raw)[0])


def _getsockopt(sock: socket.socket, level: int, option: int, size: int) -> bytes | None:
    if not LINUX:
        return None
    try:
        return sock.getsockopt(level, option, size)
    except OSError:
        return None
