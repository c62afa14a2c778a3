"""Making sockets: what is set before they connect, and addresses as the socket calls want them."""

from __future__ import annotations

import errno
import os
import socket

from promptpath.probe import kernel_stamps

KEEPALIVE_IDLE_S = 5
KEEPALIVE_INTERVAL_S = 1
KEEPALIVE_PROBES = 3
"""A silent drop in the path (firewall, NAT) shows after 8 s instead of never; it is not traffic
to a layer 7 proxy's idle timer (measured: ETIMEDOUT after 8.3 s)."""

_SO_BINDTODEVICE = getattr(socket, "SO_BINDTODEVICE", 25)


def prepare(sock: socket.socket, *, stamps: bool) -> None:
    """Set what must be set before connecting: non-blocking, receive stamps, no Nagle, keepalive."""
    sock.setblocking(False)
    if stamps:
        kernel_stamps.enable_receive(sock)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_PROBES),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def bind(sock: socket.socket, source: str | None, interface: str | None) -> None:
    """--source and --interface. Raises OSError."""
    if interface is not None:
        sock.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, interface.encode() + b"\0")
    if source is not None:
        same_family = (":" in source) == (sock.family == socket.AF_INET6)
        if not same_family:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        sock.bind(socket_address(source, 0))


def socket_address(address: str, port: int) -> tuple[str, int] | tuple[str, int, int, int]:
    """A literal as the socket calls want it; "fe80::1%eth0" names its interface. Raises OSError."""
    host, _, zone = address.partition("%")
    six = ":" in host
    # The socket calls would look a name up, and wait for it; this raises for all but a literal.
    socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, host)
    if not six:
        return host, port
    scope = int(zone) if zone.isdigit() else socket.if_nametoindex(zone) if zone else 0
    return host, port, 0, scope
