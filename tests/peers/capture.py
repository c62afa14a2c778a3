"""tcpdump as the judge: what was on the wire, and when, to the nanosecond."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.process import START_S, PeerFailedError, tail
from tests.peers.require import require

_GLOBAL_HEADER = struct.Struct("<IHHiIII")
_PACKET_HEADER = struct.Struct("<IIII")
_NANOSECOND_MAGIC = 0xA1B23C4D
"""pcap-savefile(5)."""
_LINK_HEADER_BYTES = {1: 14, 101: 0, 12: 0, 113: 16, 276: 20}
"""EN10MB, RAW (both numbers), LINUX_SLL, LINUX_SLL2."""
_TCP = 6
_IMMEDIATE_DRAIN_S = 0.05
_BLOCK_DRAIN_S = 1.2
"""tcpdump asks libpcap for a time-out of 1 s, after which the kernel hands over a block that is not
full (packet(7), TPACKET_V3)."""
FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10


@dataclass(frozen=True, slots=True)
class Segment:
    """One captured TCP segment."""

    at_ns: int
    """CLOCK_REALTIME of the capture."""
    source: tuple[str, int]
    target: tuple[str, int]
    sequence: int
    acknowledgement: int
    flags: int
    payload: bytes
    """As far as it was captured."""
    size: int
    """Bytes of payload on the wire."""


def read_pcap(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Each packet of a little-endian nanosecond pcap: (ns, wire length, IP packet as captured).

    A last packet cut short is left out; another format raises ValueError.
    """
    if len(data) < _GLOBAL_HEADER.size:
        raise ValueError("not a pcap: no header")
    magic, _, _, _, _, _, link = _GLOBAL_HEADER.unpack_from(data)
    if magic != _NANOSECOND_MAGIC or link not in _LINK_HEADER_BYTES:
        raise ValueError(f"not a nanosecond pcap of IP packets: magic {magic:#x}, link {link}")
    skip = _LINK_HEADER_BYTES[link]
    offset = _GLOBAL_HEADER.size
    while offset + _PACKET_HEADER.size <= len(data):
        seconds, nanoseconds, captured, size = _PACKET_HEADER.unpack_from(data, offset)
        offset += _PACKET_HEADER.size
        if offset + captured > len(data):
            return
        yield (
            seconds * 1_000_000_000 + nanoseconds,
            size - skip,
            data[offset + skip : offset + captured],
        )
        offset += captured


def parse_segment(at_ns: int, wire_size: int, packet: bytes) -> Segment | None:
    """The TCP segment in an IP packet; None when it holds none (fragments are not joined)."""
    if len(packet) < 40:
        return None
    if packet[0] >> 4 == 4:
        header, protocol = (packet[0] & 15) * 4, packet[9]
        total = int.from_bytes(packet[2:4], "big") or wire_size
        source, target = packet[12:16], packet[16:20]
        family = socket.AF_INET
    else:
        header, protocol = 40, packet[6]
        total = 40 + int.from_bytes(packet[4:6], "big")
        source, target = packet[8:24], packet[24:40]
        family = socket.AF_INET6
    if protocol != _TCP or len(packet) < header + 20:
        return None
    from_port, to_port, sequence, acknowledgement, offset, flags = struct.unpack_from(
        "!HHIIBB", packet, header
    )
    start = header + (offset >> 4) * 4
    return Segment(
        at_ns=at_ns,
        source=(socket.inet_ntop(family, source), from_port),
        target=(socket.inet_ntop(family, target), to_port),
        sequence=sequence,
        acknowledgement=acknowledgement,
        flags=flags,
        payload=packet[start:total],
        size=total - start,
    )


def segments(path: Path) -> list[Segment]:
    """All TCP segments of a capture, in order."""
    parsed = (parse_segment(*packet) for packet in read_pcap(path.read_bytes()))
    return [segment for segment in parsed if segment is not None]


@contextlib.contextmanager
def capture(
    path: Path,
    interface: str,
    condition: str,
    *,
    prefix: Sequence[str] = (),
    snap_bytes: int = 256,
    inbound_only: bool = False,
    immediate: bool = True,
) -> Iterator[Path]:
    """Capture into `path` while the block runs; the file is complete after it.

    `prefix` is put before the command (`ip netns exec NAME`). tcpdump reads a memory-mapped ring
    and does not disturb kernel receive stamps, which a plain packet socket does. `immediate` wakes
    it for every packet; without, it costs the machine less, and ending takes a second longer.
    """
    program = require("tcpdump")
    log = path.with_suffix(".log")
    command = [*prefix, program, "-i", interface, "-w", str(path), "-s", str(snap_bytes)]
    command += ["--time-stamp-precision=nano", "-U", "-n", "-Z", "root", "-B", "16384"]
    command += ["-Q", "in"] if inbound_only else []
    command += ["--immediate-mode"] if immediate else []
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, condition], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_listening(process, log)
        yield path
        time.sleep(_IMMEDIATE_DRAIN_S if immediate else _BLOCK_DRAIN_S)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)


def _wait_until_listening(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while b"listening on" not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise PeerFailedError(f"tcpdump did not start: {tail(log)}")
        time.sleep(0.01)


def dropped(path: Path) -> int:
    """How many packets the kernel dropped from that capture, by tcpdump's closing words."""
    words = path.with_suffix(".log").read_text().split()
    return int(words[words.index("dropped") - 2]) if "dropped" in words else 0


def can_capture() -> bool:
    """Whether this user may open a packet socket."""
    return os.getuid() == 0
