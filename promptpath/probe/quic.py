"""A QUIC connection as a link: datagrams with kernel stamps below, HTTP/3's events above.

`write` and `receive` send what QUIC has to send; `receive` also runs QUIC's timers. Bytes of
streams do not pass through here: a `Chunk` only says that something was completed, and
`H3Connection.receive` hands it over.
"""

from __future__ import annotations

from typing import Final

from promptpath.model.enums import Stage
from promptpath.model.names import (
    MARK_QUIC,
    MARK_QUIC_PACKET,
    QUIC_CLOSE,
    QUIC_ECN,
    QUIC_PACKETS,
    QUIC_PARAMETERS,
    QUIC_RTT,
    TLS_TICKET,
)
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.model.units import Ns
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.udp import UdpLink
from promptpath.wire.h3 import H3_NO_ERROR, H3Connection
from promptpath.wire.quic import IDLE_S
from promptpath.wire.quic_log import PacketRow

MAX_PACKET_MARKS: Final = 4096
"""Packets marked per connection: handshake and first seconds; 16 times as many arrivals as a common
answer has. Lost ones are marked beyond it, up to as many again."""
ICMP_PATIENCE: Final = 3
"""ICMP errors in a row, with no datagram between, until an established connection is called dead:
one alone may be forged or passing (RFC 9000, 14.2.1)."""
_STEPS: Final = {
    ("received", "retry"): "retry",
    ("received", "version_negotiation"): "version-negotiation",
    ("sent", "initial"): "initial-sent",
    ("received", "initial"): "initial-received",
    ("received", "handshake"): "handshake-received",
}


class QuicLink:
    """A `Link` whose bytes are HTTP/3's events."""

    def __init__(
        self, recorder: Recorder, udp: UdpLink, http: H3Connection, span: int | None
    ) -> None:
        self._recorder = recorder
        self._udp = udp
        self.http = http
        self.conn = recorder.new_conn()
        self._span = span
        self._marks: list[str] = []
        """Of requests whose last byte is not in a packet yet."""
        self._packet_marks = 0
        self._lost_marks = 0
        self._errors = 0
        self.last_error: str | None = None
        """Of an ICMP message, since the last datagram."""
        self._told_close = False
        self._closed: Closed | None = None
        self._settled = False
        self.steps: set[str] = set()
        """Of the handshake, so far."""
        self.initials_out = 0
        """Initial packets of ours that carry our ClientHello, repeats included."""
        self.datagrams_out = 0
        self.first_out_ns: Ns | None = None
        self.confirm_by_ns: Ns | None = None
        """When the handshake must be confirmed, once it is completed: until then the server may
        never have had our Finished, and nothing we sent (RFC 9001, 4.1.2)."""
        self.last_stamp: Stamp | None = None
        """Of the latest datagram."""

    # -- sending ---------------------------------------------------------------------------------

    def write(self, data: bytes, mark: str | None = None) -> None:
        """Send what QUIC has to send; the mark names the datagram that completes what streams were
        given so far."""
        if mark is not None:
            self._marks.append(mark)
        self.flush()

    def flush(self) -> None:
        """Send what is due."""
        quic = self.http.quic
        datagrams = quic.datagrams(self._recorder.now_ns())
        for datagram in datagrams:
            if self.first_out_ns is None:
                self.first_out_ns = self._recorder.now_ns()
            self._udp.send(datagram, f"handshake-{self.datagrams_out}" if self._shaking else None)
            self.datagrams_out += 1
        self._note_rows(None)
        if self._marks and quic.all_sent():
            for mark in self._marks:
                self._udp.mark_last(mark)
            self._marks.clear()

    @property
    def _shaking(self) -> bool:
        return self.http.quic.handshake is None and self.datagrams_out < 64

    async def drain(self) -> None:
        """Nothing waits here: a datagram goes or is lost."""
        self.flush()

    def sent(self, mark: str) -> Sent:
        """What is known of the marked datagram; QUIC's ACKs are not the kernel's to tell."""
        return self._udp.sent(mark)

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """`sent`, once the wire stamp is known or the deadline passed."""
        return await self._udp.sent_wire(mark, deadline_ns)

    # -- receiving -------------------------------------------------------------------------------

    async def receive_any(self, deadline_ns: Ns) -> list[Chunk | Closed]:
        """As `receive`, but returns after every datagram, ICMP error and timer."""
        self.flush()
        completed = self._take(await self._next(deadline_ns))
        self.flush()
        return completed

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """That HTTP events were completed, or the end. Raises TimeoutError past the deadline."""
        if self._closed is not None:
            return [self._closed]
        while True:
            self.flush()
            items = await self._next(deadline_ns)
            completed = self._take(items)
            self.flush()
            if completed:
                return completed

    async def _next(self, deadline_ns: Ns | None) -> list[Chunk | Closed]:
        """Datagrams, or nothing when a timer of QUIC's ran out."""
        timer_ns = self.http.quic.timer_ns()
        known = [at for at in (timer_ns, self._confirm_by()) if at is not None]
        own_ns = min(known, default=None)
        first = own_ns is not None and (deadline_ns is None or own_ns < deadline_ns)
        try:
            return await self._udp.receive(own_ns if first else deadline_ns)
        except TimeoutError:
            if not first:
                raise
        now_ns = self._recorder.now_ns()
        if timer_ns is None or now_ns < timer_ns:
            return []  # the handshake was not confirmed in time: `_end` says so
        self.http.take_timer(max(now_ns, timer_ns or 0), user_stamp(now_ns))
        return []

    def _take(self, items: list[Chunk | Closed]) -> list[Chunk | Closed]:
        completed: list[Chunk | Closed] = []
        stamp = user_stamp(self._recorder.now_ns())
        for item in items:
            stamp = item.stamp
            if isinstance(item, Closed):
                self._errors += 1
                self.last_error = item.detail
                continue
            self._errors, self.last_error = 0, None
            self.last_stamp = stamp
            self.http.take_datagram(item.data, stamp)
            self._note_rows(stamp)
        if self.http.has_events:
            completed.append(Chunk(b"", stamp))
        end = self._end(stamp)
        if end is not None:
            completed.append(end)
        return completed

    @property
    def confirmed(self) -> bool:
        """The server said that it has our Finished: HANDSHAKE_DONE, or an ACK of a 1-RTT packet."""
        return "confirmed" in self.steps

    def _confirm_by(self) -> Ns | None:
        return None if self.confirmed else self.confirm_by_ns

    def _unconfirmed(self, stamp: Stamp) -> Closed | None:
        by_ns = self._confirm_by()
        if by_ns is None or self._recorder.now_ns() < by_ns:
            return None
        self._record_close("timer", "unconfirmed", 0, False, "")
        self._closed = Closed("timed-out", stamp, "never confirmed the QUIC handshake,")
        return self._closed

    def _end(self, stamp: Stamp) -> Closed | None:
        """How the connection ended, once."""
        close = self.http.quic.closed
        if close is None:
            if (late := self._unconfirmed(stamp)) is not None:
                return late
            if self._errors < ICMP_PATIENCE or self.http.quic.handshake is None:
                return None
            self._record_close("peer", "icmp", 0, False, self.last_error or "")
            self._closed = Closed("rst", stamp, f"ICMP: {self.last_error}")
            return self._closed
        self._record_close(
            "peer" if close.by_peer else "timer" if close.how == "idle" else "us",
            close.how,
            close.code,
            close.application,
            close.reason,
        )
        clean = close.how == "close" and close.code in (
            (H3_NO_ERROR,) if close.application else (0,)
        )
        how = "fin" if clean else "timed-out" if close.how == "idle" else "rst"
        what = f"CONNECTION_CLOSE {close.code:#x} {close.reason}".strip()
        if close.how != "close":
            what = "was silent for the QUIC idle timeout," if close.how == "idle" else close.how
        self._closed = Closed(how, stamp, what)
        return self._closed

    # -- the rest of a link ----------------------------------------------------------------------

    def info(self) -> dict[str, int] | None:
        """UDP has no TCP_INFO."""
        return None

    @property
    def span(self) -> int | None:
        """The span that datagrams belong to."""
        return self._span

    def set_span(self, span: int | None) -> None:
        """The span of datagrams from now on."""
        self._udp.set_span(span)
        self._span = span

    def rebind(self, recorder: Recorder) -> None:
        """Go on in another run, a warm request on this connection."""
        old = self._recorder.clock.t0_monotonic_ns
        self.http.quic.epoch_ns += recorder.clock.t0_monotonic_ns - old
        self._udp.rebind(recorder)
        self._recorder = recorder
        self._span = None
        self._settled = False
        self.confirm_by_ns = None
        self.conn = recorder.new_conn()

    async def close(self) -> None:
        """CONNECTION_CLOSE, then the socket; never raises."""
        self.abort()

    def abort(self) -> None:
        """Close at once; CONNECTION_CLOSE is one datagram, so both ways are the same."""
        if self.http.quic.closed is None and self.http.quic.handshake is not None:
            self.http.quic.close(H3_NO_ERROR)
            self.flush()
        self.settle()
        self._udp.close()

    # -- what is recorded ------------------------------------------------------------------------

    def settle(self) -> None:
        """Record what the packet log knows at the end of a run; once a run."""
        if self._settled:
            return
        self._settled = True
        log = self.http.quic.log
        rtt, counts, conn = log.rtt, log.counts, self.conn
        if rtt.samples:
            self._recorder.observed(
                QUIC_RTT,
                {
                    "conn": conn,
                    "samples": rtt.samples,
                    "first_ns": rtt.first_ns,
                    "min_ns": rtt.min_ns,
                    "last_ns": rtt.last_ns,
                },
            )
        self._recorder.observed(
            QUIC_PACKETS,
            {
                "conn": conn,
                "sent": counts.sent,
                "received": counts.received,
                "lost": counts.lost,
                "dropped": counts.dropped,
                "duplicates": counts.duplicates,
            },
        )
        not_ect, ect1, ect0, ce = self._udp.ecn
        self._recorder.observed(
            QUIC_ECN, {"conn": conn, "not_ect": not_ect, "ect1": ect1, "ect0": ect0, "ce": ce}
        )
        for ticket in self.http.quic.tickets[:4]:
            self._recorder.reported(
                TLS_TICKET,
                {
                    "lifetime_s": round(
                        (ticket.not_valid_after - ticket.not_valid_before).total_seconds()
                    ),
                    "max_early_data_bytes": ticket.max_early_data_size or None,
                },
            )

    def stamp(self) -> Stamp:
        """Now, as we read it."""
        return user_stamp(self._recorder.now_ns())

    def record_parameters(self) -> None:
        """The server's transport parameters, and the idle timeout that follows from them."""
        found = dict(self.http.quic.log.peer_parameters)
        theirs = found.get("max_idle_timeout")
        ours = round(IDLE_S * 1000)
        limited = isinstance(theirs, int) and theirs > 0
        found["effective_idle_ms"] = min(theirs, ours) if limited else ours  # type: ignore[type-var]
        self._recorder.reported(QUIC_PARAMETERS, found, self._span)

    def _record_close(self, by: str, how: str, code: int, application: bool, reason: str) -> None:
        if self._told_close:
            return
        self._told_close = True
        value: dict[str, Json] = {
            "conn": self.conn,
            "by": by,
            "how": how,
            "code": code,
            "application": application,
            "reason": reason,
        }
        self._recorder.reported(QUIC_CLOSE, value)

    def _note_rows(self, received: Stamp | None) -> None:
        epoch_ns = self.http.quic.epoch_ns
        for row in self.http.quic.log.take():
            stamp = received
            if stamp is None or row.what in ("sent", "lost"):
                stamp = user_stamp(row.at_ns - epoch_ns)
            self._note_step(row, stamp)
            self._note_packet(row, stamp)

    def _note_step(self, row: PacketRow, stamp: Stamp) -> None:
        step = _STEPS.get((row.what, row.kind))
        if step is None and _confirms(row):
            step = "confirmed"
        if step is None and row.what == "received" and "path_challenge" in row.frames:
            step = "path-challenge"
        if step is None or (step in self.steps and step != "initial-sent"):
            return
        if step == "initial-sent":
            if "crypto" not in row.frames:
                return
            self.initials_out += 1
        self.steps.add(step)
        self.mark_step(step, stamp)

    def mark_step(self, step: str, stamp: Stamp) -> None:
        """Record a step of the handshake."""
        self._recorder.mark(
            Stage.QUIC, MARK_QUIC, stamp, span=self._span, conn=self.conn, detail={"step": step}
        )

    def _note_packet(self, row: PacketRow, stamp: Stamp) -> None:
        if row.what == "lost":
            self._lost_marks += 1
            if self._lost_marks > MAX_PACKET_MARKS:
                return
        else:
            self._packet_marks += 1
            if self._packet_marks > MAX_PACKET_MARKS:
                return
        detail: dict[str, Json] = {
            "what": row.what,
            "type": row.kind,
            "number": row.number,
            "size": row.size,
            "frames": list(row.frames),
            "why": row.detail,
        }
        self._recorder.mark(
            Stage.QUIC, MARK_QUIC_PACKET, stamp, span=self._span, conn=self.conn, detail=detail
        )


def _confirms(row: PacketRow) -> bool:
    """RFC 9001, 4.1.2: HANDSHAKE_DONE, or an acknowledgment of a packet under 1-RTT keys."""
    frames = set(row.frames)
    return (
        row.what == "received" and row.kind == "1RTT" and bool(frames & {"handshake_done", "ack"})
    )
