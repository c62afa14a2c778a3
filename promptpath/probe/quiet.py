"""A response that has gone quiet: is the path dead, or does somebody behind it think?

The kernel sends TCP keepalives once nothing has come for 5 s (probe.sockets), and notes when the
last ACK came. An ACK younger than the silence is an answered keepalive: the connection's other end,
the server or the box nearest to us, is alive. Over HTTP/2 it is then asked once by PING, which
HTTP's own layer must answer (RFC 9113, 6.7): a box that only acknowledges TCP does not.
Noted while it happens.
"""

from __future__ import annotations

from collections.abc import Callable

from promptpath.model.names import STREAM_QUIET
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns
from promptpath.probe.link import Link
from promptpath.probe.recorder import Recorder
from promptpath.probe.sockets import KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S

FIRST_LOOK_NS = (KEEPALIVE_IDLE_S + 2 * KEEPALIVE_INTERVAL_S) * NS_PER_S
"""After two keepalives, the second a full interval old: an answered one is seen whatever the
path's length, and the third, after which the kernel gives up, is still to come."""
MOST_NOTES = 16
"""Notes of one response; each silence is noted after 7, 14, 28 ... s."""
ALIVE, UNANSWERED, UNKNOWN = "alive", "unanswered", "unknown"
ANSWERED = "answered"


class QuietWatch:
    """Watches one response on one link. `ping` sends a PING and names its last byte for
    `Link.sent`; None where HTTP has none."""

    def __init__(
        self, recorder: Recorder, link: Link, ping: Callable[[], str | None] | None = None
    ) -> None:
        self._recorder = recorder
        self._link = link
        self._ping = ping
        self._ping_mark: str | None = None
        """Of this silence's PING, once it was sent."""
        self._asked_ns = 0
        self._rtt_ns: Ns | None = None
        self._since_ns = recorder.now_ns()
        self._wait_ns = FIRST_LOOK_NS
        self._notes = 0

    def heard(self) -> None:
        """Bytes came: silence begins anew."""
        self._since_ns = self._recorder.now_ns()
        self._wait_ns = FIRST_LOOK_NS
        self._ping_mark = self._rtt_ns = None

    @property
    def next_look_ns(self) -> Ns | None:
        """When to look next, if nothing comes; None once enough was noted."""
        return None if self._notes >= MOST_NOTES else self._since_ns + self._wait_ns

    def look(self) -> None:
        """Nothing has come until now: note what is known of the peer, and ask it once."""
        peer = self._note()
        self._wait_ns *= 2
        if self._ping is not None and self._ping_mark is None and self._may_ask(peer):
            self._asked_ns = self._recorder.now_ns()
            self._ping_mark = self._ping()

    def answered(self, at_ns: Ns) -> None:
        """The answer to the PING came."""
        if self._ping_mark is None:
            return  # it was sent in an earlier silence
        sent = self._link.sent(self._ping_mark)
        left = sent.wire or sent.written
        self._rtt_ns = max(0, at_ns - (self._asked_ns if left is None else left.at_ns))
        self._note()

    def _may_ask(self, peer: str) -> bool:
        """Not on a path that looks dead: the kernel sends no keepalive while data is unacknowledged
        and would find the death in a quarter of an hour instead of 8 s (tcp(7), tcp_retries2).
        Where ACKs are unknown, keepalives have had their say by the second look."""
        quiet_ns = self._recorder.now_ns() - self._since_ns
        return peer == ALIVE or (peer == UNKNOWN and quiet_ns >= 2 * FIRST_LOOK_NS)

    def _note(self) -> str:
        now_ns = self._recorder.now_ns()
        info = self._link.info()
        ack_ms = None if info is None else info.get("last_ack_recv_ms")
        ack_ns = None if ack_ms is None else ack_ms * NS_PER_MS
        peer = peer_state(now_ns - self._since_ns, ack_ns)
        waits = self._ping_mark is not None and self._rtt_ns is None
        if waits and ack_ns is not None and ack_ns >= now_ns - self._asked_ns:
            peer = UNANSWERED  # no ACK for the PING itself
        value: dict[str, Json] = {
            "since_ns": self._since_ns,
            "quiet_ns": now_ns - self._since_ns,
            "peer": peer,
            "last_ack_ns": ack_ns,
        }
        if self._ping is not None:
            value["peer_http"] = ANSWERED if self._rtt_ns is not None else None
            if waits:
                value["peer_http"] = UNANSWERED
            value["ping_rtt_ns"] = self._rtt_ns
        self._recorder.observed(STREAM_QUIET, value)
        self._notes += 1
        return peer


def peer_state(quiet_ns: Ns, last_ack_ns: Ns | None) -> str:
    """alive | unanswered | unknown, from the length of the silence and the age of the last ACK."""
    if last_ack_ns is None:
        return UNKNOWN
    return ALIVE if last_ack_ns <= quiet_ns - KEEPALIVE_INTERVAL_S * NS_PER_S else UNANSWERED
