"""Kernel time stamps of packets: the socket options and the ancillary data they come back in.

Linux stamps a received packet when it enters the network stack and, on request, a sent one when the
driver takes it (`wire`) and, on TCP, when the peer's ACK covers it (`acked`). No privilege is
needed. Reference: Documentation/networking/timestamping.rst of the kernel. Elsewhere the
functions say False or give nothing, and callers fall back to the user clock.

The receive option belongs before `connect()`, the send options after it: the kernel answers
EINVAL to OPT_ID on an unconnected TCP socket.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum

LINUX = sys.platform == "linux"

SO_TIMESTAMPING = 37
"""asm-generic/socket.h, SO_TIMESTAMPING_OLD: three timespec of 64-bit words on 64-bit machines."""
_SCM_TIMESTAMPING = frozenset({37, 65})
"""The old and the new (64-bit everywhere) type of the control message."""

# linux/net_tstamp.h
_TX_SOFTWARE = 1 << 1
_RX_SOFTWARE = 1 << 3
_SOFTWARE = 1 << 4
_OPT_ID = 1 << 7
_TX_ACK = 1 << 9
_OPT_TSONLY = 1 << 11
_OPT_ID_TCP = 1 << 16
_RECEIVE = _RX_SOFTWARE | _SOFTWARE
_SEND = _RECEIVE | _TX_SOFTWARE | _TX_ACK | _OPT_ID | _OPT_TSONLY

# linux/errqueue.h
_ORIGIN_TIMESTAMPING = 4
_IP_RECVERR = 11
_IPV6_RECVERR = 25
_MSG_ERRQUEUE = getattr(socket, "MSG_ERRQUEUE", 0x2000)

_TIMESPECS = struct.Struct("=qqqqqq")
"""scm_timestamping: software, (unused), hardware."""
_EXTENDED_ERROR = struct.Struct("=IBBBBII")
"""sock_extended_err: errno, origin, type, code, pad, info, data."""

ANCILLARY_BYTES = 128
"""Room for one scm_timestamping message (48 bytes and its header)."""
_ERROR_ANCILLARY_BYTES = 512
"""Room for a stamp and an extended error with its address."""
_REPORTS_AT_ONCE = 256
"""Error queue entries read in one go, so that a flood of them cannot hold up the loop."""

Ancillary = Iterable[tuple[int, int, bytes]]


class SendKind(IntEnum):
    """Which instant of a sent byte a report tells (SCM_TSTAMP_*)."""

    WIRE = 0
    """SCM_TSTAMP_SND: the driver took the packet."""
    ACKED = 2
    """SCM_TSTAMP_ACK: the peer acknowledged it."""


def enable_receive(sock: socket.socket) -> bool:
    """Ask for receive stamps; False where the system has none. Call it before `connect()`: with the
    option set just before data, 21 of 50 first segments carried no stamp (measured)."""
    return LINUX and _set(sock, _RECEIVE)


def enable_send(sock: socket.socket) -> bool:
    """Ask for send stamps too, counted from the next byte (TCP) or datagram (UDP) sent; False where
    the system has none. A TCP socket must be connected and have nothing in flight."""
    if not LINUX:
        return False
    if sock.type == socket.SOCK_STREAM and _set(sock, _SEND | _OPT_ID_TCP):
        return True
    # Kernels before 6.2 lack OPT_ID_TCP; with nothing in flight plain OPT_ID counts the same.
    return _set(sock, _SEND)


def _set(sock: socket.socket, flags: int) -> bool:
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, flags)
    except OSError:
        return False
    return True


def receive_stamp(ancillary: Ancillary) -> int | None:
    """The CLOCK_REALTIME ns at which the last packet of a read arrived; None when not stamped."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind in _SCM_TIMESTAMPING:
            if len(data) < _TIMESPECS.size:
                return None
            seconds, nanoseconds = _TIMESPECS.unpack_from(data)[:2]
            return (int(seconds) * 1_000_000_000 + int(nanoseconds)) or None
    return None


def send_report(ancillary: Ancillary) -> tuple[SendKind, int, int] | None:
    """One error queue entry as (kind, id, CLOCK_REALTIME ns); None when it is no send stamp. The id
    is the last byte's offset (TCP) or the datagram's number (UDP), modulo 2^32."""
    realtime_ns = receive_stamp(ancillary)
    for level, kind, data in ancillary:
        if (level, kind) not in (
            (socket.IPPROTO_IP, _IP_RECVERR),
            (socket.IPPROTO_IPV6, _IPV6_RECVERR),
        ):
            continue
        if len(data) < _EXTENDED_ERROR.size or realtime_ns is None:
            return None
        _, origin, _, _, _, info, identifier = _EXTENDED_ERROR.unpack_from(data)
        if origin != _ORIGIN_TIMESTAMPING or info not in (SendKind.WIRE, SendKind.ACKED):
            return None
        return SendKind(info), identifier, realtime_ns
    return None


def read_error_queue(sock: socket.socket) -> Iterator[tuple[SendKind, int, int]]:
    """The send stamps that wait on a socket, at most 256. An undrained queue keeps the descriptor
    ready and the loop spinning. Never raises."""
    if not LINUX:
        return
    for _ in range(_REPORTS_AT_ONCE):
        try:
            _, ancillary, _, _ = sock.recvmsg(
                1, _ERROR_ANCILLARY_BYTES, _MSG_ERRQUEUE | socket.MSG_DONTWAIT
            )
        except OSError:
            return
        report = send_report(ancillary)
        if report is not None:
            yield report
