from __future__ import annotations

import socket

import pytest

from promptpath.probe.sockets import prepare, socket_address


def test_a_prepared_socket_notices_dead_peers_and_never_waits() -> None:
    with socket.socket() as sock:
        prepare(sock, stamps=True)
        assert not sock.getblocking()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 5
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3


def test_addresses_are_written_as_the_socket_calls_want_them() -> None:
    assert socket_address("192.0.2.1", 443) == ("192.0.2.1", 443)
    assert socket_address("2001:db8::1", 443) == ("2001:db8::1", 443, 0, 0)
    lo = socket.if_nametoindex("lo")
    assert socket_address("fe80::1%lo", 443) == ("fe80::1", 443, 0, lo)
    assert socket_address("fe80::1%7", 443) == ("fe80::1", 443, 0, 7)
    for address in ("fe80::1%nosuch0", "localhost", "1.2.3", ":::", ""):
        with pytest.raises(OSError):
            socket_address(address, 443)
