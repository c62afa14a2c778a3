"""The stream that goes quiet, exact in virtual time."""

from __future__ import annotations

import pytest

from tests.reference_server.harness import ask

MS = 1_000_000
PATH = "/promptpath/silence"


def _times_ms(query: str) -> list[tuple[float, bytes]]:
    answer = ask("GET", f"{PATH}?{query}")
    assert answer.status == 200
    return [(round(at_ns / MS), piece.split(b"\n")[0]) for at_ns, piece in answer.pieces[:-1]]


TICK, END = b"event: tick", b"event: end"


def test_without_keepalive_nothing_is_sent_for_the_whole_silence() -> None:
    assert _times_ms("silence_ms=60000&events=1") == [(0, TICK), (60_100, TICK), (60_200, END)]


@pytest.mark.parametrize(
    ("keepalive", "line"), [("comment", b": keepalive"), ("event", b"event: keepalive")]
)
def test_keepalives_come_at_their_interval(keepalive: str, line: bytes) -> None:
    query = f"silence_ms=1000&events=1&keepalive={keepalive}&interval_ms=300"
    got = _times_ms(query)
    assert got[1:4] == [(400, line), (700, line), (1000, line)]
    assert got[4] == (1100, TICK)


def test_the_silence_can_lie_before_the_first_event_or_before_the_head() -> None:
    body = ask("GET", f"{PATH}?silence_ms=5000&at=body")
    assert (body.head_ns, body.pieces[0][0] // MS) == (0, 5000)
    head = ask("GET", f"{PATH}?silence_ms=5000&at=head")
    assert head.head_ns // MS == 5000


@pytest.mark.parametrize(
    "query", ["silence_ms=-1", "keepalive=ping", "at=head&keepalive=comment", "interval_ms=1"]
)
def test_a_wrong_knob_is_a_400(query: str) -> None:
    assert ask("GET", f"{PATH}?{query}").status == 400
