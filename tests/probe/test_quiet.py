"""A response that goes quiet: when it is looked at, and what an ACK's age says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from promptpath.model.names import STREAM_QUIET
from promptpath.model.units import NS_PER_MS, NS_PER_S
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.quiet import (
    ALIVE,
    FIRST_LOOK_NS,
    MOST_NOTES,
    UNANSWERED,
    UNKNOWN,
    QuietWatch,
    peer_state,
)
from promptpath.probe.recorder import Recorder
from tests.probe.hand_time import HandTime, hand_clock

S = NS_PER_S


class IdleLink:
    """A link on which nothing happens; its kernel says when the last ACK came."""

    conn = 1

    def __init__(self, last_ack_ms: int | None) -> None:
        self.last_ack_ms = last_ack_ms

    def info(self) -> dict[str, int] | None:
        return None if self.last_ack_ms is None else {"last_ack_recv_ms": self.last_ack_ms}

    def write(self, data: bytes, mark: str | None = None) -> None:
        raise AssertionError

    async def drain(self) -> None:
        raise AssertionError

    async def receive(self, deadline_ns: int | None = None) -> list[Chunk | Closed]:
        await asyncio.sleep(0)
        raise AssertionError

    def sent(self, mark: str) -> Sent:
        raise AssertionError

    async def sent_wire(self, mark: str, deadline_ns: int) -> Sent:
        raise AssertionError

    def rebind(self, recorder: Recorder) -> None:
        raise AssertionError

    async def close(self) -> None:
        raise AssertionError

    def abort(self) -> None:
        raise AssertionError


def watch(last_ack_ms: int | None) -> tuple[QuietWatch, Recorder, HandTime]:
    clock, hand = hand_clock()
    recorder = Recorder(clock)
    return QuietWatch(recorder, IdleLink(last_ack_ms)), recorder, hand


def notes(recorder: Recorder) -> list[dict[str, Any]]:
    return [fact.value for fact in recorder.log.facts if fact.key == STREAM_QUIET]


@pytest.mark.parametrize(
    ("quiet_s", "ack_ms", "state"),
    [
        (7.0, 2_000, ALIVE),
        (7.0, 6_000, ALIVE),
        (7.0, 6_500, UNANSWERED),
        (7.0, 7_000, UNANSWERED),
        (28.0, 4_900, ALIVE),
        (7.0, None, UNKNOWN),
    ],
)
def test_an_ack_younger_than_the_silence_answered_a_keepalive(
    quiet_s: float, ack_ms: int | None, state: str
) -> None:
    age_ns = None if ack_ms is None else ack_ms * NS_PER_MS
    assert peer_state(round(quiet_s * S), age_ns) == state


def test_silence_is_noted_after_7_14_and_28_seconds_and_anew_after_each_byte() -> None:
    quiet, recorder, hand = watch(2_000)
    for due_s in (7, 14, 28):
        look_ns = quiet.next_look_ns
        assert look_ns == due_s * S
        hand.advance(look_ns - recorder.now_ns())
        quiet.look()
    assert [note["quiet_ns"] for note in notes(recorder)] == [7 * S, 14 * S, 28 * S]
    assert {note["peer"] for note in notes(recorder)} == {ALIVE}
    quiet.heard()
    assert quiet.next_look_ns == recorder.now_ns() + FIRST_LOOK_NS


def test_a_response_that_is_quiet_again_and_again_does_not_fill_the_trace() -> None:
    quiet, recorder, hand = watch(None)
    while (look_ns := quiet.next_look_ns) is not None:
        hand.advance(look_ns - recorder.now_ns())
        quiet.look()
        quiet.heard()
    assert len(notes(recorder)) == MOST_NOTES
