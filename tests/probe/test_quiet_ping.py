"""A quiet HTTP/2 response: its peer is asked once by PING, on handed-in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from promptpath.model.names import MARK_PING_ACK, STREAM_QUIET
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns
from promptpath.probe.connect import Connection
from promptpath.probe.exchange import Exchange
from promptpath.probe.recorder import Recorder
from promptpath.wire.h2 import H2Connection
from tests.probe.hand_time import hand_clock
from tests.probe.scripted_link import PLAN, At, ScriptedLink, scene

HEAD = [(":status", "200"), ("content-type", "text/event-stream")]
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
S = NS_PER_S

AckAge = Callable[[float], float | None]
"""Age of the last ACK (ms) at an instant (ms) of the run."""


class H2Peer(ScriptedLink):
    """hyper-h2's server at the other end: an event at each of `texts_ms`, the last one closes. It
    answers a PING after `ping_ms` (None: never)."""

    def __init__(
        self, recorder: Recorder, time: Any, texts_ms: list[int], ping_ms: int | None, acks: AckAge
    ) -> None:
        super().__init__(recorder.clock, time)
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.server.initiate_connection()
        self.pings_ms: list[float] = []
        self.answers_ms: list[float] = []
        """Marks of the trace."""
        self._texts_ms, self._ping_ms, self._acks = texts_ms, ping_ms, acks

    def info(self) -> dict[str, int] | None:
        age_ms = self._acks(self._now_ms())
        return None if age_ms is None else {"last_ack_recv_ms": round(age_ms)}

    def write(self, data: bytes, mark: str | None = None) -> None:
        super().write(data, mark)
        for event in self.server.receive_data(data):
            if isinstance(event, h2.events.PingReceived):
                self.pings_ms.append(self._now_ms())
                reply = self.server.data_to_send()
                if self._ping_ms is not None:
                    self._plan(self._now_ms() + self._ping_ms, reply)
            if isinstance(event, h2.events.RequestReceived):
                self._answer(event.stream_id)
        self.server.data_to_send()  # ACKs of SETTINGS and windows: of no interest here

    def _answer(self, stream: int) -> None:
        self.server.send_headers(stream, HEAD)
        for at_ms in self._texts_ms[:-1]:
            self.server.send_data(stream, TEXT)
            self._plan(at_ms, self.server.data_to_send())
        self.server.send_data(stream, DONE, end_stream=True)
        self._plan(self._texts_ms[-1], self.server.data_to_send())

    def _plan(self, at_ms: float, data: bytes) -> None:
        steps = sorted([*self._script, At(at_ms, data)], key=lambda step: step.ms)
        self._script.clear()
        self._script.extend(steps)

    def _now_ms(self) -> float:
        return self._clock.now_ns() / NS_PER_MS


def lively(now_ms: float) -> float | None:
    """Each keepalive is answered."""
    return 100.0


def unknown(now_ms: float) -> float | None:
    """A system that does not say."""
    return None


def dead_since(at_ms: float) -> AckAge:
    """No ACK after this instant."""
    return lambda now_ms: max(0.0, now_ms - at_ms)


def quiet(
    *texts_ms: int, ping_ms: int | None, acks: AckAge = lively, ping: bool = True
) -> tuple[list[dict[str, Any]], H2Peer]:
    """The notes of a response whose events come at these instants, and its peer."""
    clock, time = hand_clock()
    recorder = Recorder(clock)
    link = H2Peer(recorder, time, list(texts_ms), ping_ms, acks)
    connection = Connection(PLAN.target, link, H2Connection(), None, False)
    exchange = Exchange(recorder, PLAN, connection, None, ping=ping)
    reader = asyncio.run(exchange.run())
    assert reader.ended and reader.content_events == len(texts_ms) - 1
    marks = [mark for mark in recorder.log.marks if mark.name == MARK_PING_ACK]
    link.answers_ms = [mark.at_ns / NS_PER_MS for mark in marks]
    return [fact.value for fact in recorder.log.facts if fact.key == STREAM_QUIET], link


def told(notes: list[dict[str, Any]]) -> list[tuple[Ns, str, str | None, Ns | None]]:
    """(quiet_ns, peer, peer_http, ping_rtt_ns) of each note."""
    return [
        (note["quiet_ns"], note["peer"], note["peer_http"], note["ping_rtt_ns"]) for note in notes
    ]


def test_an_answered_ping_is_noted_at_once_and_does_not_end_the_silence() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=30)
    rtt_ns = 30 * NS_PER_MS
    assert told(notes) == [
        (7 * S, "alive", None, None),
        (7 * S + rtt_ns, "alive", "answered", rtt_ns),
        (14 * S, "alive", "answered", rtt_ns),
    ]
    assert {note["since_ns"] for note in notes} == {S}
    assert peer.pings_ms == [8000] and peer.answers_ms == [8030]  # one a silence


def test_a_box_that_only_acknowledges_tcp_leaves_the_ping_unanswered() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=None)
    assert told(notes) == [
        (7 * S, "alive", None, None),
        (14 * S, "alive", "unanswered", None),
    ]
    assert peer.pings_ms == [8000]


def test_a_path_that_looks_dead_is_left_to_its_keepalives() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=None, acks=dead_since(1000))
    assert [(note["peer"], note["peer_http"]) for note in notes] == [("unanswered", None)] * 2
    assert peer.pings_ms == []


def test_a_path_that_died_under_the_ping_is_no_box_that_answers_tcp() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=None, acks=dead_since(7000))
    assert peer.pings_ms == [8000]
    assert [note["peer"] for note in notes] == ["alive", "unanswered"]


def test_where_acks_are_unknown_keepalives_have_their_say_first() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=30, acks=unknown)
    assert peer.pings_ms == [15_000]
    assert [note["peer_http"] for note in notes] == [None, None, "answered"]
    assert {note["peer"] for note in notes} == {"unknown"}


def test_each_silence_has_a_ping_of_its_own() -> None:
    notes, peer = quiet(1000, 10_000, 20_000, ping_ms=30)
    assert peer.pings_ms == [8000, 17_000]
    assert [note["peer_http"] for note in notes] == [None, "answered"] * 2


def test_an_answer_that_comes_after_the_silence_belongs_to_none() -> None:
    notes, peer = quiet(1000, 10_000, 18_000, ping_ms=5000)
    assert peer.pings_ms == [8000, 17_000] and peer.answers_ms == [13_000]
    assert told(notes) == [(7 * S, "alive", None, None)] * 2  # once in each silence


def test_a_response_that_goes_on_is_asked_nothing() -> None:
    assert quiet(1000, 7000, 13_000, ping_ms=30)[0] == []


def test_a_test_stream_whose_silence_is_ours_is_asked_nothing() -> None:
    notes, peer = quiet(1000, 20_000, ping_ms=30, ping=False)
    assert peer.pings_ms == []
    assert len(notes) == 2 and all("peer_http" not in note for note in notes)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_http_1_has_no_ping(method: str) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    made = scene(At(5, head), At(20_000, b"{}"))
    asyncio.run(Exchange(made.recorder, replace(PLAN, method=method), made.connection, None).run())
    notes = made.facts(STREAM_QUIET)
    assert len(notes) == 2 and not any("peer_http" in note for note in notes)
    assert list(made.link.marks) == ["request-1"]
