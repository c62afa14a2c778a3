"""Certified exactness: when a read held exactly one TCP segment, its stamp is that segment's
arrival.

The kernel stamps a read with the arrival of the LAST segment in it, and late reading loses the
earlier ones. After each read, TCP_INFO gives one consistent picture (it is taken under the
socket's lock): `data_segs_in`, the segments with payload that reached the socket;
`bytes_received`, the in-order bytes; `rcv_ooopack`, the segments that came out of order.

The argument. Call a snapshot *settled* when `bytes_received` equals the bytes read so far: then
every segment counted so far was read, was a duplicate, or waits out of order. Let B be
`data_segs_in` at the last settled snapshot before a read (0 at the connection's birth) and A the
one after it. If the out-of-order queue was empty at B and nothing came out of order since, each
byte of the read came in a segment counted in (B, A]. So A - B = 1 proves that the read is one
segment, and the kernel's stamp its arrival. What could break it, and why it does not:

(a) The FIN is no data and moves no `data_segs_in`, but the kernel appends a bare FIN to the data
    that waits, and its stamp replaces theirs (measured). So a read is certified only if the
    snapshot after it shows that no FIN has come.
(b) A read of part of the queue (full buffer, urgent data, which also ends a read early) leaves an
    unsettled snapshot; B stays, and the next read counts these segments again: safe side. The
    kernel's stamp is then that of the last segment read to its end, no upper bound for a part of
    the next one.
(c) Pure ACKs, window updates and Linux keepalives carry no payload and are not counted. Probes of
    other systems with one byte of garbage are counted: safe side.
(d) A packet that GRO merged counts each of its segments: safe side. One merged before it reached
    this machine's stack (a hypervisor's segmentation offload) is one packet with one arrival
    here; a read larger than the MSS we announced is not certified all the same.
(e) A segment that arrives between `recvmsg` and the snapshot makes A - B = 2: a certificate is lost
    (a window of about 2 us, measured), never a false one given; the snapshot is unsettled besides.
(f) The first read's B is 0: the whole connection's segments count.
(g) A segment that fills a hole releases segments counted earlier, whose stamps lie before the
    bytes were deliverable. So from the first out-of-order segment on nothing is certified, and
    the kernel's stamp is no upper bound either, until the queue is proven empty: a settled
    snapshot, then SO_MEMINFO saying that the socket holds no received packet at all. What comes
    out of order in between shows in the next snapshot's `rcv_ooopack`.
(h) A retransmission that arrives twice, or one the peer merged with new data, counts: safe side, or
    indeed one segment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from promptpath.probe.tcp_info import Counters

_MODULO = 1 << 32
"""data_segs_in and rcv_ooopack are 32-bit counters."""


@dataclass(frozen=True, slots=True)
class Held:
    """What one read held."""

    segments: int
    """Data segments, at most."""
    ooo: int
    """Segments received out of order on this connection so far."""
    one_segment: bool
    """Proven: exactly one segment, so the kernel's stamp is its arrival."""
    bounded: bool
    """Proven: the queue was read to its end and nothing out of order was involved, so the kernel's
    stamp is an upper bound."""


class SegmentLedger:
    """Follows one connection from birth; `read` is called once for each successful read."""

    def __init__(self) -> None:
        self._settled_segments = 0
        self._bytes_read = 0
        self._last_ooo = 0
        self._hole = False

    def read(
        self, size: int, after: Counters, receive_memory_bytes: Callable[[], int | None]
    ) -> Held:
        """Judge a read of `size` bytes by the snapshot taken after it. `receive_memory_bytes` is
        asked only when there may be an out-of-order queue to prove empty."""
        self._bytes_read += size
        if after.rcv_ooopack != self._last_ooo:
            self._hole = True
            self._last_ooo = after.rcv_ooopack
        in_order = not self._hole
        # The FIN counts as a byte.
        emptied = after.bytes_received in (self._bytes_read, self._bytes_read + after.fin_seen)
        segments = (after.data_segs_in - self._settled_segments) % _MODULO
        settled = after.bytes_received == self._bytes_read
        if settled:
            self._settled_segments = after.data_segs_in
            if self._hole and receive_memory_bytes() == 0:
                self._hole = False
        return Held(
            segments=segments,
            ooo=after.rcv_ooopack,
            one_segment=in_order
            and segments == 1
            and 0 < size <= after.advmss_bytes
            and not after.fin_seen,
            bounded=in_order and emptied,
        )

    def more_waits(self, after: Counters) -> bool:
        """Whether bytes were already waiting at that snapshot."""
        return after.bytes_received > self._bytes_read
