"""A connected UDP socket whose datagrams carry stamps.

The kernel stamps each datagram by itself, however late we read, so every receive stamp is exact.
Being connected, the socket takes datagrams from its peer alone and hears ICMP port-unreachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from dataclasses import replace
from typing import Self

from promptpath.model.enums import Clock, Layer
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.probe import kernel_stamps
from promptpath.probe.kernel_stamps import SendKind
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.send_stamps import SendLedger
from promptpath.probe.sockets import bind, socket_address
from promptpath.probe.waiting import Signal

DATAGRAM_BYTES = 65_535
"""The largest UDP payload there is (RFC 768: a 16-bit length)."""
READS_AT_ONCE = 64
"""Datagrams read in one turn of the loop."""
INBOX_BYTES = 4 * 1024 * 1024
"""Unread bytes at which we stop reading; the kernel then drops what its own buffer cannot hold."""
RECEIVE_BUFFER_BYTES = 4 * 1024 * 1024
"""Asked of the kernel, which caps it at net.core.rmem_max."""

_TRAFFIC_CLASS = (
    (socket.IPPROTO_IP, getattr(socket, "IP_TOS", 1)),
    (socket.IPPROTO_IPV6, getattr(socket, "IPV6_TCLASS", 67)),
)


class UdpLink:
    """Datagrams to and from one peer. Each is one item of `receive`; a `Closed` item tells of an
    ICMP error and does not end the link."""

    def __init__(self, sock: socket.socket, recorder: Recorder, span: int | None) -> None:
        """Take over a connected non-blocking socket."""
        self._sock = sock
        self._recorder = recorder
        self._clock = recorder.clock
        self._span = span
        self._loop = asyncio.get_running_loop()
        self._stamped = self._clock.support.rx_stamps and kernel_stamps.enable_receive(sock)
        self._send_stamped = self._clock.support.tx_stamps and kernel_stamps.enable_send(sock)
        self._sent = SendLedger(self._clock, last_report=SendKind.WIRE)
        self._since_ns = self._clock.now_ns()
        self._buffer = bytearray(DATAGRAM_BYTES)
        self._offset = 0
        self._inbox: list[Chunk | Closed] = []
        self._inbox_bytes = 0
        self._reading = False
        self._arrived = Signal()
        self.ecn = [0, 0, 0, 0]
        """Datagrams received by ECN codepoint (RFC 3168, 5): not-ECT, ECT(1), ECT(0), CE."""
        self._progress = Signal()
        self._resume_reading()

    @classmethod
    def open(
        cls,
        recorder: Recorder,
        peer: tuple[str, int],
        *,
        span: int | None = None,
        source: str | None = None,
        interface: str | None = None,
    ) -> Self:
        """A link to an (address, port); nothing is sent yet. Raises OSError when the system has no
        route or no such source address."""
        family = socket.AF_INET6 if ":" in peer[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
            _ask_for_ecn(sock)
            bind(sock, source, interface)
            sock.connect(socket_address(*peer))
            return cls(sock, recorder, span)
        except BaseException:
            sock.close()
            raise

    def set_span(self, span: int | None) -> None:
        """The span that arrivals belong to from now on."""
        self._span = span

    # -- sending ---------------------------------------------------------------------------------

    def send(self, data: bytes, mark: str | None = None) -> None:
        """Send one datagram now; `mark` names it for `sent`. An error (an ICMP answer to an earlier
        datagram, a full queue) comes out of `receive` as a Closed item."""
        before_ns = self._clock.now_ns()
        try:
            self._sock.send(data)
        except OSError as error:
            self._hear(error)
            return
        # On UDP the kernel counts datagrams, not bytes.
        self._sent.queue(1, mark)
        self._sent.wrote(1, self._clock.user_stamp(before_ns))

    def mark_last(self, mark: str) -> None:
        """Name the latest datagram for `sent`."""
        self._sent.queue(0, mark)

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """`sent`, once the wire stamp is known, or can no longer come, or the deadline passed."""
        while self.sent(mark).wire is None and self._send_stamped and self._reading:
            try:
                async with asyncio.timeout(self._clock.seconds_until(deadline_ns)):
                    await self._progress.wait()
            except TimeoutError:
                break
        return self.sent(mark)

    def rebind(self, recorder: Recorder) -> None:
        """Go on in another run: its recorder, its clock; marks are forgotten, and datagrams not
        received yet keep their instants."""
        shift_ns = self._clock.t0_monotonic_ns - recorder.clock.t0_monotonic_ns
        self._recorder, self._clock = recorder, recorder.clock
        self._since_ns += shift_ns
        self._sent.rebind(recorder.clock)
        self._inbox = [replace(item, stamp=_shifted(item.stamp, shift_ns)) for item in self._inbox]
        self._span = None

    def sent(self, mark: str) -> Sent:
        """What is known of the marked datagram so far; UDP has no ACK."""
        self._collect_send_stamps()
        return self._sent.sent(mark)

    def _collect_send_stamps(self) -> None:
        if self._send_stamped and self._sock.fileno() >= 0:
            for report in kernel_stamps.read_error_queue(self._sock):
                self._sent.report(*report)
            self._progress.wake()

    # -- receiving -------------------------------------------------------------------------------

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """All datagrams that have arrived, at least one item. Raises TimeoutError past the
        deadline."""
        if not self._inbox:
            async with asyncio.timeout(self._clock.seconds_until(deadline_ns)):
                while not self._inbox:
                    await self._arrived.wait()
        items, self._inbox = self._inbox, []
        self._inbox_bytes = 0
        self._resume_reading()
        return items

    def _resume_reading(self) -> None:
        if not self._reading and self._sock.fileno() >= 0:
            self._loop.add_reader(self._sock.fileno(), self._on_readable)
            self._reading = True

    def _stop_reading(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._sock.fileno())
            self._reading = False

    def _on_readable(self) -> None:
        # An error queue entry wakes the reader too, and would for ever.
        self._collect_send_stamps()
        for _ in range(READS_AT_ONCE):
            if not self._read_once():
                break
        if self._inbox_bytes >= INBOX_BYTES:
            self._stop_reading()
        if self._inbox:
            self._arrived.wake()

    def _read_once(self) -> bool:
        before_ns = self._clock.now_ns()
        try:
            size, ancillary, _, _ = self._sock.recvmsg_into(
                [self._buffer], kernel_stamps.ANCILLARY_BYTES
            )
        except (BlockingIOError, InterruptedError):
            if not self._stamped:
                # The queue was empty: what comes later was not there then.
                self._since_ns = before_ns
            return False
        except OSError as error:
            self._hear(error)
            return True
        self.ecn[_codepoint(ancillary)] += 1
        stamp = self._stamp(kernel_stamps.receive_stamp(ancillary) if self._stamped else None)
        self._recorder.log.add_arrival(
            Layer.DATAGRAM, stamp, span=self._span, offset=self._offset, size=size
        )
        self._offset += size
        self._inbox.append(Chunk(bytes(memoryview(self._buffer)[:size]), stamp))
        # An empty datagram takes memory too.
        self._inbox_bytes += size + 64
        return self._inbox_bytes < INBOX_BYTES

    def _stamp(self, kernel_ns: int | None) -> Stamp:
        if kernel_ns is None:
            return self._clock.user_stamp(self._since_ns)
        stamp = self._clock.stamp_from_realtime(kernel_ns, lo_ns=self._since_ns, exact=True)
        if stamp.clock is Clock.KERNEL:
            return stamp
        # The wall clock stepped: what comes later is stamped by the new one.
        self._since_ns = stamp.at_ns
        return stamp

    def _hear(self, error: OSError) -> None:
        stamp = self._clock.user_stamp(self._since_ns)
        self._inbox.append(Closed("error", stamp, os.strerror(error.errno or 0)))
        self._inbox_bytes += 64
        self._arrived.wake()

    # -- the rest --------------------------------------------------------------------------------

    def close(self) -> None:
        """Close at once; collects last send stamps; whoever waits gets a Closed item."""
        if self._sock.fileno() < 0:
            return
        self._collect_send_stamps()
        self._stop_reading()
        self._sock.close()
        self._progress.wake()
        self._inbox.append(Closed("error", self._clock.user_stamp(), "closed by us"))
        self._arrived.wake()


def _shifted(stamp: Stamp, by_ns: Ns) -> Stamp:
    return replace(
        stamp, at_ns=stamp.at_ns + by_ns, lo_ns=stamp.lo_ns + by_ns, hi_ns=stamp.hi_ns + by_ns
    )


def _ask_for_ecn(sock: socket.socket) -> None:
    """Have the kernel hand over each datagram's traffic class, where it can."""
    ipv6 = sock.family == socket.AF_INET6
    level, option = (
        (socket.IPPROTO_IPV6, getattr(socket, "IPV6_RECVTCLASS", None))
        if ipv6
        else (socket.IPPROTO_IP, getattr(socket, "IP_RECVTOS", None))
    )
    if option is not None:
        with contextlib.suppress(OSError):
            sock.setsockopt(level, option, 1)


def _codepoint(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The ECN bits of a datagram's traffic class; 0 where the kernel does not say."""
    for level, kind, data in ancillary:
        if data and (level, kind) in _TRAFFIC_CLASS:
            return data[0] & 3
    return 0
