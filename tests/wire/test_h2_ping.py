"""Our PING and its answer (RFC 9113, section 6.7)."""

from __future__ import annotations

import h2.events
import pytest
from hyperframe.frame import PingFrame

from promptpath.model.names import MARK_PING_ACK
from promptpath.wire.h2 import H2Connection
from promptpath.wire.http import Control, Data, End, HttpEvent
from tests.wire.feeding import at, feed_bytewise
from tests.wire.test_h2 import SSE, Pair


def answers(events: list[HttpEvent]) -> list[tuple[object, int]]:
    """Number and instant of each answered PING."""
    found = [event for event in events if isinstance(event, Control)]
    return [
        (event.detail["ping"], event.stamp.at_ns) for event in found if event.name == MARK_PING_ACK
    ]


def ack(number: int) -> bytes:
    """A PING's answer as it stands on the wire."""
    return PingFrame(0, opaque_data=number.to_bytes(8, "big"), flags=["ACK"]).serialize()


def test_a_ping_goes_out_and_its_answer_is_dated() -> None:
    pair = Pair()
    assert pair.client.ping() == 1
    (asked,) = [event for event in pair.up() if isinstance(event, h2.events.PingReceived)]
    assert len(asked.ping_data) == 8
    events = pair.down(40)
    assert answers(events) == [(1, 40)] and len(events) == 1


def test_an_answer_in_pieces_is_dated_by_its_last_byte() -> None:
    pair = Pair()
    pair.client.ping()
    pair.up()
    wire = pair.server.data_to_send()
    assert answers(feed_bytewise(pair.client.receive, wire)) == [(1, len(wire))]


def test_the_stream_goes_on_around_a_ping() -> None:
    pair = Pair()
    pair.server.send_headers(pair.stream, SSE)
    pair.client.ping()
    pair.up()
    pair.server.send_data(pair.stream, b"data: 1\n\n", end_stream=True)
    events = pair.down(5)
    assert answers(events) == [(1, 5)]
    assert [event.data for event in events if isinstance(event, Data)] == [b"data: 1\n\n"]
    assert any(isinstance(event, End) for event in events)


@pytest.mark.parametrize("number", [0, 2, 2**63])
def test_an_answer_to_no_ping_of_ours_says_nothing(number: int) -> None:
    pair = Pair()
    assert pair.client.receive(ack(1), at(1)) == []  # nothing was asked yet
    pair.client.ping()
    assert pair.client.receive(ack(number), at(2)) == []
    assert answers(pair.client.receive(ack(1), at(3))) == [(1, 3)]


def test_an_answer_given_twice_counts_once() -> None:
    pair = Pair()
    pair.client.ping()
    assert answers(pair.client.receive(ack(1) + ack(1), at(1))) == [(1, 1)]


def test_a_late_answer_is_not_taken_for_the_next_one() -> None:
    pair = Pair()
    assert (pair.client.ping(), pair.client.ping()) == (1, 2)
    assert answers(pair.client.receive(ack(1), at(1))) == []
    assert answers(pair.client.receive(ack(2), at(2))) == [(2, 2)]


def test_a_connection_that_is_over_sends_no_ping() -> None:
    client = H2Connection()
    client.data_to_send()
    client.receive_eof(at(1))
    assert client.ping() is None and client.data_to_send() == b""
