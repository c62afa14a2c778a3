"""A response that has gone quiet: is the path dead, or does somebody behind it think?

The kernel sends TCP keepalives once nothing has come for 5 s (probe.sockets), and notes when the
last ACK came. An ACK younger than the silence is an answered keepalive: the connection's other end,
the server or the box nearest to us, is alive. Noted while it happens.
"""

from __future__ import annotations

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


class QuietWatch:
    """Watches one response on one link."""

    def __init__(self, recorder: Recorder, link: Link) -> None:
        self._recorder = recorder
        self._link = link
        self._since_ns = recorder.now_ns()
        self._wait_ns = FIRST_LOOK_NS
        self._notes = 0

    def heard(self) -> None:
        """Bytes came: silence begins anew."""
        self._since_ns = self._recorder.now_ns()
        self._wait_ns = FIRST_LOOK_NS

    @property
    def next_look_ns(self) -> Ns | None:
        """When to look next, if nothing comes; None once enough was noted."""
        return None if self._notes >= MOST_NOTES else self._since_ns + self._wait_ns

    def look(self) -> None:
        """Nothing has come until now: note what the kernel knows of the peer."""
        quiet_ns = self._recorder.now_ns() - self._since_ns
        info = self._link.info()
        ack_ms = None if info is None else info.get("last_ack_recv_ms")
        ack_ns = None if ack_ms is None else ack_ms * NS_PER_MS
        value: dict[str, Json] = {
            "since_ns": self._since_ns,
            "quiet_ns": quiet_ns,
            "peer": peer_state(quiet_ns, ack_ns),
            "last_ack_ns": ack_ns,
        }
        self._recorder.observed(STREAM_QUIET, value)
        self._notes += 1
        self._wait_ns *= 2


def peer_state(quiet_ns: Ns, last_ack_ns: Ns | None) -> str:
    """alive | unanswered | unknown, from the length of the silence and the age of the last ACK."""
    if last_ack_ns is None:
        return UNKNOWN
    return ALIVE if last_ack_ns <= quiet_ns - KEEPALIVE_INTERVAL_S * NS_PER_S else UNANSWERED
