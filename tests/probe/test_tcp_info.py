from __future__ import annotations

import socket
import sys

import pytest

from promptpath.probe import tcp_info
from promptpath.probe.tcp_info import FIELDS, decode_info

linux = pytest.mark.skipif(sys.platform != "linux", reason="TCP_INFO is Linux's")


def connected() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        return client, listener.accept()[0]


def test_fields_beyond_what_the_kernel_returned_are_left_out() -> None:
    assert list(decode_info(bytes(72))) == [name for name, _, offset in FIELDS if offset < 72]
    assert "rtt_us" not in decode_info(bytes(71))
    assert decode_info(b"") == {}


def test_fields_are_read_at_their_offsets() -> None:
    raw = bytearray(256)
    raw[68:72] = (40_168).to_bytes(4, sys.byteorder)
    raw[152:156] = (7).to_bytes(4, sys.byteorder)
    info = decode_info(bytes(raw))
    assert (info["rtt_us"], info["data_segs_in"]) == (40_168, 7)


@linux
def test_the_counters_agree_with_the_named_fields() -> None:
    client, peer = connected()
    with client, peer:
        peer.send(b"x" * 100)
        client.recv(40)
        info, counters = tcp_info.read_info(client), tcp_info.read_counters(client)
        assert info is not None and counters is not None
        assert info["bytes_received"] == counters.bytes_received == 100
        assert info["data_segs_in"] == counters.data_segs_in == 1
        assert info["advmss_bytes"] == counters.advmss_bytes > 0
        assert info["rcv_ooopack"] == counters.rcv_ooopack == 0
        assert not counters.fin_seen
        assert (tcp_info.receive_memory_bytes(client) or 0) > 0
        client.recv(60)
        assert tcp_info.receive_memory_bytes(client) == 0


@linux
def test_a_fin_counts_as_a_byte_and_no_segment() -> None:
    client, peer = connected()
    with client:
        peer.close()
        client.recv(1)
        counters = tcp_info.read_counters(client)
        assert counters is not None and counters.fin_seen
        assert (counters.bytes_received, counters.data_segs_in) == (1, 0)


def test_a_closed_socket_has_no_info() -> None:
    sock = socket.socket()
    sock.close()
    assert tcp_info.read_info(sock) is None
    assert tcp_info.read_counters(sock) is None
    assert tcp_info.receive_memory_bytes(sock) is None


def test_elsewhere_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp_info, "LINUX", False)
    with socket.socket() as sock:
        assert tcp_info.read_info(sock) is None
