"""A TCP connection whose bytes carry stamps: the link everything above reads from.

Own non-blocking socket on the selector loop. Each read is one `recvmsg` (bytes and the kernel's
receive stamp) and one TCP_INFO snapshot; `probe.segments` says what the pair proves, and the
stamp follows:

- one segment, proven: the kernel's instant, exact;
- several segments in order: [previous arrival, this read's kernel stamp], the best estimate its
  end;
- loss, a full buffer, no kernel stamp or no counters: [previous arrival, now], on the user clock.

Send stamps come back on the socket's error queue (`probe.send_stamps`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
from collections import deque
from dataclasses import replace

from promptpath.errors import MeasureError
from promptpath.model.enums import Clock, Layer, Stage
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.model.units import NS_PER_MS, Ns
from promptpath.probe import kernel_stamps, tcp_info
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.segments import Held, SegmentLedger
from promptpath.probe.send_stamps import SendLedger
from promptpath.probe.waiting import Signal

READ_BYTES = 256 * 1024
"""Larger than what a burst queues (tcp_rmem starts at 128 KiB), so that one read empties the
queue."""
READS_AT_ONCE = 16
"""Reads in one turn of the loop, so that a fast sender cannot starve the rest."""
INBOX_BYTES = 512 * 1024
"""Unread bytes at which we stop reading until the consumer caught up; TCP then slows the sender.
What one turn of the consumer takes is twenty times as much while it is records, frames and rows of
the log (measured: 4 MiB of small events, 60 MB)."""

_ITEM_BYTES = 256
"""What a chunk and its stamp take beside their bytes (about 250, by sys.getsizeof), so that a flood
of one-byte segments is bounded too."""

_buffer = bytearray(READ_BYTES)
"""Where every link reads into, one at a time on the loop's thread; what came is copied out at once.
A buffer for each link would be 64 fresh pages between the connection and the ClientHello (measured:
0.15 to 0.2 ms)."""

_JIFFY_MS = 10
"""The coarsest kernel tick (HZ=100): how wrong tcpi_last_ack_recv may be."""

_ENDS = {errno.ECONNRESET: "rst", errno.ETIMEDOUT: "timed-out"}
"""Errors of a read that say how the connection ended; timed-out: the peer's machine, or the path
to it, answered neither data nor keepalives."""


class TcpLink:
    """A connected socket as a `probe.link.Link`."""

    def __init__(
        self,
        sock: socket.socket,
        recorder: Recorder,
        *,
        conn: int,
        since_ns: Ns,
        span: int | None = None,
        stage: Stage = Stage.TCP,
    ) -> None:
        """Take over a connected non-blocking socket on which `prepare` was called before
        connecting; nothing may have been sent. No byte of the peer's can have arrived before
        `since_ns`."""
        self.conn = conn
        self.stage = stage
        self.pauses = 0
        """How often reading stopped because the consumer lagged: stamps after that are late."""
        self._sock = sock
        self._recorder = recorder
        self._clock = recorder.clock
        self._span = span
        self._loop = asyncio.get_running_loop()
        self._peer = _peer_name(sock)
        support = self._clock.support
        self._stamped = support.rx_stamps
        self._segments = SegmentLedger() if support.segment_counter else None
        self._floor_ns = since_ns
        self._offset = 0
        self._inbox: list[Chunk | Closed] = []
        self._inbox_bytes = 0
        self._closed: Closed | None = None
        self._reading = False
        self._outbox: deque[memoryview] = deque()
        self._writing = False
        self._write_error: OSError | None = None
        self._sent = SendLedger(self._clock)
        self._send_stamped = support.tx_stamps and kernel_stamps.enable_send(sock)
        self._arrived = Signal()
        self._progress = Signal()
        self._no_end_ns = since_ns
        self._quiet = True
        self._begun = False

    def set_span(self, span: int | None) -> None:
        """The span that arrivals belong to from now on."""
        self._span = span

    def rebind(self, recorder: Recorder) -> None:
        """Go on in another run (a warm request on this connection): its recorder, its clock, a
        connection number of its own. Marks are forgotten; bytes that came in between keep their
        instants, which lie before the new t0."""
        shift_ns = self._clock.t0_monotonic_ns - recorder.clock.t0_monotonic_ns
        self._recorder, self._clock = recorder, recorder.clock
        self._floor_ns += shift_ns
        self._no_end_ns += shift_ns
        self._sent.rebind(recorder.clock)
        self._inbox = [replace(item, stamp=_shifted(item.stamp, shift_ns)) for item in self._inbox]
        if self._closed is not None:
            self._closed = replace(self._closed, stamp=_shifted(self._closed.stamp, shift_ns))
        self._span = None
        self.conn = recorder.new_conn()

    # -- sending ---------------------------------------------------------------------------------

    def write(self, data: bytes, mark: str | None = None) -> None:
        """Queue bytes; never blocks, never raises. `mark` names the last byte written so far."""
        self._sent.queue(len(data), mark)
        if not data or self._write_error is not None:
            return
        self._outbox.append(memoryview(data))
        self._flush()
        self._begin_reading()

    def _flush(self) -> None:
        while self._outbox:
            piece = self._outbox[0]
            before_ns = self._clock.now_ns()
            try:
                size = self._sock.send(piece)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                self._write_error = error
                self._outbox.clear()
                break
            # The bytes were with the kernel before the call returned, on a loopback even with the
            # peer: their wire stamp must not lie before this one.
            after_ns = self._clock.now_ns()
            self._sent.wrote(size, Stamp(before_ns, before_ns, after_ns, Clock.USER, False))
            self._quiet = False
            if size < len(piece):
                self._outbox[0] = piece[size:]
            else:
                self._outbox.popleft()
        self._watch_writable(bool(self._outbox))
        if not self._outbox:
            self._progress.wake()

    def _watch_writable(self, wanted: bool) -> None:
        if wanted and not self._writing:
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        elif self._writing and not wanted:
            self._loop.remove_writer(self._sock.fileno())
        self._writing = wanted

    def _on_writable(self) -> None:
        # An error queue entry wakes the writer too, and would for ever.
        self._collect_send_stamps()
        self._flush()

    async def drain(self) -> None:
        """Wait until all queued bytes were handed to the kernel. Raises MeasureError when the
        connection does not take them any more."""
        while self._outbox and self._write_error is None:
            await self._progress.wait()
        if self._write_error is not None:
            raise self._broken(self._write_error)

    def _broken(self, error: OSError) -> MeasureError:
        reset = error.errno in (errno.ECONNRESET, errno.EPIPE)
        return MeasureError(
            "the connection was closed while we were sending"
            if reset
            else f"sending failed: {os.strerror(error.errno or 0)}",
            stage=self.stage.value,
            code="reset" if reset else "send-failed",
            expected="a connection that takes the whole request",
            where=f"tcp, {self._peer}",
            hint="look at the response, if one came: a server may refuse a request early",
        )

    def sent(self, mark: str) -> Sent:
        """What is known of the marked byte so far."""
        self._collect_send_stamps()
        return self._sent.sent(mark)

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """`sent`, once the wire stamp is known, or can no longer come, or the deadline passed."""
        while (
            self.sent(mark).wire is None
            and self._send_stamped
            and self._reading
            and self._write_error is None
        ):
            try:
                async with asyncio.timeout(self._clock.seconds_until(deadline_ns)):
                    await self._progress.wait()
            except TimeoutError:
                break
        return self.sent(mark)

    def _collect_send_stamps(self) -> None:
        if not self._send_stamped or self._sock.fileno() < 0:
            return
        news = False
        for kind, identifier, realtime_ns in kernel_stamps.read_error_queue(self._sock):
            self._sent.report(kind, identifier, realtime_ns)
            news = True
        if news:
            self._progress.wake()

    # -- receiving -------------------------------------------------------------------------------

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """Everything that has arrived, in order, at least one item; after Closed, only Closed
        again. Raises TimeoutError past the deadline."""
        self._begin_reading()
        if not self._inbox and self._closed is None:
            async with asyncio.timeout(self._clock.seconds_until(deadline_ns)):
                while not self._inbox:
                    await self._arrived.wait()
        if not self._inbox and self._closed is not None:
            return [self._closed]
        items, self._inbox = self._inbox, []
        self._inbox_bytes = 0
        self._resume_reading()
        return items

    def _begin_reading(self) -> None:
        """With the first write or wait: a new descriptor in the selector takes 0.035 ms (measured),
        which would stand between the connection and the first byte sent."""
        if not self._begun:
            self._begun = True
            self._resume_reading()

    def _resume_reading(self) -> None:
        if not self._reading and self._closed is None:
            self._loop.add_reader(self._sock.fileno(), self._on_readable)
            self._reading = True

    def _stop_reading(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._sock.fileno())
            self._reading = False
            # Whoever waits for a send stamp would not be woken any more.
            self._progress.wake()

    def _on_readable(self) -> None:
        if self._sent.outstanding:
            # Before the bytes: the end of the request is then known before its answer.
            self._collect_send_stamps()
        for turn in range(READS_AT_ONCE):
            more = self._read_once()
            if more is None and turn == 0:
                # Woken for the error queue alone.
                self._collect_send_stamps()
            if not more or self._inbox_bytes >= INBOX_BYTES:
                break
        if self._inbox_bytes >= INBOX_BYTES:
            self.pauses += 1
            self._stop_reading()
        if self._inbox:
            self._arrived.wake()

    def _read_once(self) -> bool | None:
        """One system call: whether more is waiting; None when there was nothing."""
        before_ns = self._clock.now_ns()
        try:
            size, ancillary, _, _ = self._sock.recvmsg_into(
                [_buffer], kernel_stamps.ANCILLARY_BYTES
            )
        except (BlockingIOError, InterruptedError):
            self._saw_no_end(before_ns)
            return None
        except OSError as error:
            how = _ENDS.get(error.errno or 0, "error")
            self._end(how, os.strerror(error.errno or 0))
            return None
        if size == 0:
            self._end("fin", "")
            return None
        after = None if self._segments is None else tcp_info.read_counters(self._sock)
        held = None
        if self._segments is not None and after is not None:
            held = self._segments.read(size, after, self._receive_memory)
            if not after.fin_seen:
                self._saw_no_end(before_ns)
        kernel_ns = kernel_stamps.receive_stamp(ancillary) if self._stamped else None
        full = size == READ_BYTES
        stamp = self._stamp(kernel_ns, held, full, before_ns)
        self._keep(size, stamp, held)
        if self._segments is None or after is None or after.fin_seen:
            return full
        return self._segments.more_waits(after)

    def _receive_memory(self) -> int | None:
        return tcp_info.receive_memory_bytes(self._sock)

    def _stamp(self, kernel_ns: int | None, held: Held | None, full: bool, before_ns: Ns) -> Stamp:
        floor_ns = self._floor_ns
        if kernel_ns is None or held is None or not held.bounded or full:
            stamp = self._clock.user_stamp(floor_ns)
        else:
            stamp = self._clock.stamp_from_realtime(
                kernel_ns, lo_ns=floor_ns, exact=held.one_segment
            )
        if stamp.clock is Clock.KERNEL:
            # What comes later came after this; minus the mapping's error.
            self._floor_ns = max(floor_ns, 2 * stamp.at_ns - stamp.hi_ns)
        elif not full and (held is None or held.bounded):
            # The read emptied the queue: what comes later was not there when it began.
            self._floor_ns = max(floor_ns, before_ns)
        return stamp

    def _keep(self, size: int, stamp: Stamp, held: Held | None) -> None:
        self._recorder.log.add_arrival(
            Layer.SEGMENT_READ,
            stamp,
            span=self._span,
            offset=self._offset,
            size=size,
            segments=None if held is None else held.segments,
            ooo=None if held is None else held.ooo,
        )
        self._offset += size
        self._inbox.append(Chunk(bytes(memoryview(_buffer)[:size]), stamp))
        self._inbox_bytes += size + _ITEM_BYTES

    def _end(self, how: str, detail: str) -> None:
        now_ns = self._clock.now_ns()
        lo_ns = max(self._floor_ns, self._no_end_ns)
        if how == "fin":
            lo_ns = max(lo_ns, self._fin_floor_ns(now_ns))
        self._closed = Closed(how, user_stamp(now_ns, min(lo_ns, now_ns)), detail)
        self._inbox.append(self._closed)
        self._stop_reading()

    def _saw_no_end(self, at_ns: Ns) -> None:
        """Neither FIN nor RST had come by then. Quiet: neither can an ACK of bytes of ours come
        later, unless we write again."""
        self._no_end_ns = at_ns
        self._quiet = not self._sent.outstanding

    def _fin_floor_ns(self, now_ns: Ns) -> Ns:
        """A bare FIN carries no stamp. It carries an ACK, though, and if the connection was quiet
        before, the kernel's age of the last ACK is the FIN's age."""
        counters = tcp_info.read_counters(self._sock) if self._segments is not None else None
        if counters is None or not self._quiet or counters.unacked:
            return 0
        return now_ns - (counters.last_ack_ms + _JIFFY_MS) * NS_PER_MS

    # -- the rest --------------------------------------------------------------------------------

    def info(self) -> dict[str, int] | None:
        """A TCP_INFO snapshot by field name; None where the system has none or after closing."""
        return None if self._sock.fileno() < 0 else tcp_info.read_info(self._sock)

    async def close(self) -> None:
        """Say FIN and close; collects last send stamps; never raises."""
        self._collect_send_stamps()
        self._release()

    def abort(self) -> None:
        """Close at once with RST: the peer stops generating."""
        if self._sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._release()

    def _release(self) -> None:
        if self._sock.fileno() < 0:
            return
        self._stop_reading()
        self._watch_writable(False)
        self._outbox.clear()
        self._sock.close()
        if self._closed is None:
            self._closed = Closed("error", self._clock.user_stamp(), "closed by us")
            self._inbox.append(self._closed)
        if self._write_error is None:
            self._write_error = OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        self._arrived.wake()
        self._progress.wake()


def _peer_name(sock: socket.socket) -> str:
    try:
        host, port = sock.getpeername()[:2]
    except OSError:
        return "peer gone"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _shifted(stamp: Stamp, by_ns: Ns) -> Stamp:
    return Stamp(
        stamp.at_ns + by_ns, stamp.lo_ns + by_ns, stamp.hi_ns + by_ns, stamp.clock, stamp.exact
    )
