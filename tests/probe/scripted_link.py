"""A link on handed-in time: what arrives and when is written down before, what was sent is kept.

Nothing sleeps. A step that lies at or after the deadline asked for raises TimeoutError, as a real
link does, and the clock then stands at the deadline.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from promptpath.model.enums import Clock
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.model.units import NS_PER_MS, Ns
from promptpath.model.urls import parse_url
from promptpath.probe.clock import RunClock
from promptpath.probe.connect import Connection
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.recorder import Recorder
from promptpath.wire.h1 import H1Connection
from promptpath.wire.http import HttpConnection
from tests.probe.hand_time import HandTime, hand_clock

PLAN = Plan(target=parse_url("http://ai.example/v1/chat/completions"), method="POST", body=b"{}")
UNKNOWN = Sent(written=None, wire=None, acked=None)


def kernel(at_ns: Ns) -> Stamp:
    """A certified instant."""
    return Stamp(at_ns, at_ns, at_ns, Clock.KERNEL, True)


@dataclass(frozen=True, slots=True)
class At:
    """Something arrives at this instant of the run (ms)."""

    ms: float
    what: bytes | str
    """Bytes, or how the peer ends: fin | rst | close-notify | error."""


class ScriptedLink:
    """Plays `script`; a mark's bytes are on the wire `wire_ms` after they were written (None: the
    kernel never says) and acknowledged `ack_ms` after that."""

    def __init__(
        self,
        clock: RunClock,
        time: HandTime,
        script: Iterable[At] = (),
        *,
        wire_ms: float | None = 0.0,
        ack_ms: float | None = None,
    ) -> None:
        self.conn = 1
        self.written = bytearray()
        self.marks: dict[str, Ns] = {}
        self.ended = ""
        """close | abort, once it was."""
        self._clock, self._time = clock, time
        self._script = deque(script)
        self._wire_ms, self._ack_ms = wire_ms, ack_ms
        self._closed: Closed | None = None

    def write(self, data: bytes, mark: str | None = None) -> None:
        self.written += data
        if mark is not None:
            self.marks[mark] = self._clock.now_ns()

    async def drain(self) -> None:
        return

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        if self._closed is not None:
            return [self._closed]
        if not self._script:
            raise AssertionError("read beyond the script")
        step = self._script[0]
        at_ns = round(step.ms * NS_PER_MS)
        if deadline_ns is not None and at_ns >= deadline_ns:
            self._time.advance(max(0, deadline_ns - self._clock.now_ns()))
            raise TimeoutError
        self._script.popleft()
        self._time.advance(max(0, at_ns - self._clock.now_ns()))
        if isinstance(step.what, bytes):
            return [Chunk(step.what, kernel(at_ns))]
        self._closed = Closed(step.what, user_stamp(at_ns))
        return [self._closed]

    def sent(self, mark: str) -> Sent:
        if mark not in self.marks:
            return UNKNOWN
        written = self.marks[mark]
        wire = acked = None
        if self._wire_ms is not None:
            wire = self._once(written + round(self._wire_ms * NS_PER_MS))
        if wire is not None and self._ack_ms is not None:
            acked = self._once(wire.at_ns + round(self._ack_ms * NS_PER_MS))
        return Sent(written=user_stamp(written), wire=wire, acked=acked)

    def _once(self, at_ns: Ns) -> Stamp | None:
        return kernel(at_ns) if at_ns <= self._clock.now_ns() else None

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        return self.sent(mark)

    def rebind(self, recorder: Recorder) -> None:
        self._clock = recorder.clock

    def info(self) -> dict[str, int] | None:
        return None

    async def close(self) -> None:
        self.ended = "close"

    def abort(self) -> None:
        self.ended = "abort"


@dataclass
class Scene:
    """A recorder on hand-moved time and a connection over a scripted link."""

    recorder: Recorder
    link: ScriptedLink
    connection: Connection
    time: HandTime

    def facts(self, key: str) -> list[Json]:
        """All values of a fact."""
        return [fact.value for fact in self.recorder.log.facts if fact.key == key]

    def marks(self, name: str) -> list[float]:
        """The instants (ms) of the marks of this name."""
        return [mark.at_ns / NS_PER_MS for mark in self.recorder.log.marks if mark.name == name]

    def span(self, name: str) -> tuple[float, float | None, str]:
        """(start, end, outcome) of the only span of this name, in ms."""
        (found,) = [span for span in self.recorder.log.spans if span.name == name]
        end = None if found.end_ns is None else found.end_ns / NS_PER_MS
        return found.start_ns / NS_PER_MS, end, found.outcome.value


def scene(
    *script: At,
    plan: Plan = PLAN,
    http: HttpConnection | None = None,
    absolute_form: bool = False,
    secrets: tuple[str, ...] = (),
    wire_ms: float | None = 0.0,
    ack_ms: float | None = None,
) -> Scene:
    """A connection of `plan` that is ready for a request at 0 ms."""
    clock, time = hand_clock()
    recorder = Recorder(clock, secrets=secrets)
    link = ScriptedLink(clock, time, script, wire_ms=wire_ms, ack_ms=ack_ms)
    http = http or H1Connection()
    return Scene(recorder, link, Connection(plan.target, link, http, None, absolute_form), time)
