"""When marked bytes were handed to the kernel, left on the wire and were acknowledged.

The kernel identifies a send stamp by the last byte's offset in the stream, modulo 2^32, and
reports one for each system call at most: small sends that leave in one packet share the later
one's report, and a retransmission reports again. So the first report whose offset reaches the
marked byte is the answer: exactly its instant when the offsets are equal, else an upper bound
(the interval begins when the byte was handed over).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from promptpath.model.stamp import Stamp
from promptpath.probe.clock import RunClock
from promptpath.probe.kernel_stamps import SendKind
from promptpath.probe.link import Sent

_MODULO = 1 << 32
_MOST_IN_FLIGHT = 4096
"""Sends remembered until their ACK; bounds memory where reports never come."""
_UNKNOWN = Sent(written=None, wire=None, acked=None)


@dataclass(slots=True)
class _Mark:
    offset: int
    """Of the marked byte."""
    sent: Sent


class SendLedger:
    """The send side of one stream: offsets written, marks, and the reports that came back."""

    def __init__(self, clock: RunClock, *, last_report: SendKind = SendKind.ACKED) -> None:
        """`last_report` is the final thing the kernel says of a send: WIRE on UDP."""
        self._clock = clock
        self._last_report = last_report
        self._marks: dict[str, _Mark] = {}
        self._queued = 0
        self._written = 0
        self._last_written: Stamp | None = None
        self._reached: dict[SendKind, tuple[int, Stamp]] = {}
        self._in_flight: deque[tuple[int, int]] = deque(maxlen=_MOST_IN_FLIGHT)

    def rebind(self, clock: RunClock) -> None:
        """Go on in another run: marks and stamps of the last one are forgotten, offsets go on."""
        self._clock = clock
        self._marks.clear()
        self._reached.clear()
        self._in_flight.clear()
        self._last_written = None

    # -- what we do ------------------------------------------------------------------------------

    def queue(self, size: int, mark: str | None) -> None:
        """Bytes were accepted for sending; `mark` names the last byte so far."""
        self._queued += size
        if mark is None:
            return
        entry = self._marks[mark] = _Mark(self._queued - 1, _UNKNOWN)
        if self._written >= self._queued:
            # The marked byte left earlier: the latest of what was seen covers it.
            entry.sent = replace(_UNKNOWN, written=self._last_written)
            for kind, (offset, stamp) in self._reached.items():
                self._settle(entry, kind, offset, stamp)

    def wrote(self, size: int, stamp: Stamp) -> None:
        """The kernel took `size` further bytes, within `stamp`'s interval."""
        self._written += size
        self._last_written = stamp
        self._in_flight.append((self._written, stamp.lo_ns))
        for entry in self._marks.values():
            if entry.sent.written is None and entry.offset < self._written:
                entry.sent = replace(entry.sent, written=stamp)

    # -- what the kernel says --------------------------------------------------------------------

    def report(self, kind: SendKind, identifier: int, realtime_ns: int) -> None:
        """One entry of the error queue."""
        offset = self._full_offset(identifier)
        lo_ns = None if offset is None else self._handed_over_ns(offset)
        if offset is None or lo_ns is None:
            # A retransmission of what was acknowledged, or of an earlier run.
            return
        stamp = self._clock.stamp_from_realtime(realtime_ns, lo_ns=lo_ns, exact=True)
        known = self._reached.get(kind)
        if known is None or known[0] < offset:
            self._reached[kind] = (offset, stamp)
        for entry in self._marks.values():
            self._settle(entry, kind, offset, stamp)
        if kind is self._last_report:
            while self._in_flight and self._in_flight[0][0] <= offset + 1:
                self._in_flight.popleft()

    def _handed_over_ns(self, offset: int) -> int | None:
        """The earliest instant at which the send that carried this byte can have begun."""
        return next((lo_ns for end, lo_ns in self._in_flight if offset < end), None)

    def _full_offset(self, identifier: int) -> int | None:
        """The stream offset of a 32-bit id: the last one not beyond what was written."""
        last = self._written - 1
        offset = last - (last - identifier) % _MODULO
        return offset if offset >= 0 else None

    @staticmethod
    def _settle(entry: _Mark, kind: SendKind, offset: int, stamp: Stamp) -> None:
        written = entry.sent.written
        if offset < entry.offset or written is None:
            return
        if offset > entry.offset or not stamp.exact:
            stamp = replace(stamp, lo_ns=min(written.lo_ns, stamp.at_ns), exact=False)
        if kind is SendKind.WIRE and entry.sent.wire is None:
            entry.sent = replace(entry.sent, wire=stamp)
        elif kind is SendKind.ACKED and entry.sent.acked is None:
            entry.sent = replace(entry.sent, acked=stamp)

    # -- answers ---------------------------------------------------------------------------------

    def sent(self, mark: str) -> Sent:
        """What is known of the marked byte; nothing of an unknown mark."""
        entry = self._marks.get(mark)
        return _UNKNOWN if entry is None else entry.sent

    @property
    def outstanding(self) -> bool:
        """Whether reports of written bytes are still to come."""
        return bool(self._in_flight)
