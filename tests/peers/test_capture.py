"""The pcap reader: what tcpdump writes, and what is no capture."""

from __future__ import annotations

import socket
import struct

import pytest

from tests.peers.capture import ACK, parse_segment, read_pcap

HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 96, 101)


def ip4(payload: bytes, *, total: int | None = None) -> bytes:
    size = 40 + len(payload) if total is None else total
    addresses = socket.inet_aton("10.0.0.1") + socket.inet_aton("10.0.0.2")
    tcp = struct.pack("!HHIIBBHHH", 5000, 443, 7, 9, 5 << 4, ACK, 0, 0, 0)
    return struct.pack("!BBHHHBBH", 0x45, 0, size, 0, 0, 64, 6, 0) + addresses + tcp + payload


def record(packet: bytes, *, size: int | None = None) -> bytes:
    return struct.pack("<IIII", 1, 500, len(packet), size or len(packet)) + packet


def test_packet_comes_out_with_its_nanoseconds() -> None:
    ((at_ns, size, packet),) = read_pcap(HEADER + record(ip4(b"abc")))
    segment = parse_segment(at_ns, size, packet)
    assert segment is not None
    assert (segment.at_ns, segment.payload, segment.size) == (1_000_000_500, b"abc", 3)
    assert (segment.source, segment.target) == (("10.0.0.1", 5000), ("10.0.0.2", 443))


def test_size_on_the_wire_is_kept_when_the_payload_is_snapped() -> None:
    segment = parse_segment(0, 1040, ip4(b"abc", total=1040))
    assert segment is not None
    assert (segment.size, segment.payload) == (1000, b"abc")


def test_last_packet_cut_short_is_left_out() -> None:
    data = HEADER + record(ip4(b"abc"))
    assert list(read_pcap(data[:-1])) == []
    assert len(list(read_pcap(data + b"\x00" * 15))) == 1


@pytest.mark.parametrize("data", [b"", b"\x00" * 24, HEADER[:20] + struct.pack("<I", 9999)])
def test_what_is_no_nanosecond_capture_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="pcap"):
        list(read_pcap(data))
