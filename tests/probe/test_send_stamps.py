from __future__ import annotations

import pytest

from promptpath.model.enums import Clock
from promptpath.probe.kernel_stamps import SendKind
from promptpath.probe.link import Sent
from promptpath.probe.send_stamps import SendLedger
from tests.probe.hand_time import hand_clock

MS = 1_000_000
WIRE, ACKED = SendKind.WIRE, SendKind.ACKED


class Stream:
    """A ledger, and a hand that sends."""

    def __init__(self) -> None:
        self.clock, self.time = hand_clock()
        self.ledger = SendLedger(self.clock)

    def send(self, size: int, mark: str | None = None) -> None:
        """Queue and hand over; the system call takes 10 us."""
        self.ledger.queue(size, mark)
        before_ns = self.clock.now_ns()
        self.time.advance(10_000)
        self.ledger.wrote(size, self.clock.user_stamp(before_ns))

    def report(self, kind: SendKind, identifier: int, after_ns: int = MS) -> int:
        """The kernel reports `after_ns` later; the instant in run time."""
        self.time.advance(after_ns)
        self.ledger.report(kind, identifier % 2**32, self.time.kernel_stamp())
        return self.clock.now_ns()


def test_a_report_of_the_marked_byte_itself_is_exact() -> None:
    stream = Stream()
    stream.send(100, "request")
    wire_ns = stream.report(WIRE, 99)
    acked_ns = stream.report(ACKED, 99)
    sent = stream.ledger.sent("request")
    assert sent.written is not None and (sent.written.lo_ns, sent.written.at_ns) == (0, 10_000)
    assert sent.wire is not None and sent.wire.exact and sent.wire.at_ns == wire_ns
    assert sent.acked is not None and sent.acked.exact and sent.acked.at_ns == acked_ns


def test_a_report_of_a_later_byte_bounds_an_earlier_one() -> None:
    stream = Stream()
    stream.send(100, "head")
    stream.send(50, "body")
    wire_ns = stream.report(WIRE, 149)
    head, body = stream.ledger.sent("head").wire, stream.ledger.sent("body").wire
    assert head is not None and not head.exact
    assert (head.lo_ns, head.at_ns, head.hi_ns) == (0, wire_ns, wire_ns)
    assert body is not None and body.exact


def test_a_report_of_an_earlier_byte_says_nothing_of_a_later_one() -> None:
    stream = Stream()
    stream.send(100)
    stream.send(50, "body")
    stream.report(WIRE, 99)
    stream.report(ACKED, 99)
    assert stream.ledger.sent("body").wire is None
    assert stream.ledger.sent("body").acked is None
    assert stream.ledger.outstanding


def test_a_retransmission_does_not_move_the_first_wire_stamp() -> None:
    stream = Stream()
    stream.send(100, "request")
    first_ns = stream.report(WIRE, 99)
    stream.report(WIRE, 99, after_ns=200 * MS)
    wire = stream.ledger.sent("request").wire
    assert wire is not None and wire.at_ns == first_ns


def test_offsets_go_on_beyond_four_gigabytes() -> None:
    stream = Stream()
    stream.send(2**32 - 10)
    stream.report(ACKED, 2**32 - 11)
    stream.send(100, "request")
    wire_ns = stream.report(WIRE, 2**32 + 89)
    wire = stream.ledger.sent("request").wire
    assert wire is not None and wire.exact and wire.at_ns == wire_ns


def test_bytes_not_yet_taken_by_the_kernel_are_not_written() -> None:
    stream = Stream()
    stream.ledger.queue(100, "request")
    stream.ledger.wrote(60, stream.clock.user_stamp())
    assert stream.ledger.sent("request") == Sent(written=None, wire=None, acked=None)
    stream.time.advance(MS)
    stream.ledger.wrote(40, stream.clock.user_stamp())
    written = stream.ledger.sent("request").written
    assert written is not None and written.at_ns == MS


def test_a_mark_set_after_the_fact_gets_what_was_seen() -> None:
    stream = Stream()
    stream.send(100)
    wire_ns = stream.report(WIRE, 99)
    stream.ledger.queue(0, "request")
    acked_ns = stream.report(ACKED, 99)
    sent = stream.ledger.sent("request")
    assert sent.written is not None
    assert sent.wire is not None and sent.wire.at_ns == wire_ns
    assert sent.acked is not None and sent.acked.at_ns == acked_ns


def test_the_same_name_may_mark_again() -> None:
    stream = Stream()
    stream.send(100, "request")
    stream.report(WIRE, 99)
    stream.send(10, "request")
    assert stream.ledger.sent("request").wire is None
    wire_ns = stream.report(WIRE, 109)
    wire = stream.ledger.sent("request").wire
    assert wire is not None and wire.at_ns == wire_ns


@pytest.mark.parametrize("identifier", [0, 50, 2**32 - 1])
def test_a_report_of_bytes_never_sent_is_ignored(identifier: int) -> None:
    stream = Stream()
    stream.ledger.queue(100, "request")
    stream.report(WIRE, identifier)
    assert stream.ledger.sent("request") == Sent(written=None, wire=None, acked=None)


def test_reports_are_outstanding_until_the_last_byte_is_acknowledged() -> None:
    stream = Stream()
    assert not stream.ledger.outstanding
    stream.send(100)
    stream.send(100)
    stream.report(ACKED, 99)
    assert stream.ledger.outstanding
    stream.report(ACKED, 199)
    assert not stream.ledger.outstanding


def test_across_a_clock_step_the_interval_begins_at_the_hand_over() -> None:
    stream = Stream()
    stream.send(100, "request")
    stream.time.step_wall_clock(-5 * MS)
    stream.report(WIRE, 99)
    wire = stream.ledger.sent("request").wire
    assert wire is not None and not wire.exact and wire.clock is Clock.USER
    assert wire.lo_ns == 0


def test_in_the_next_run_offsets_go_on_and_marks_are_gone() -> None:
    stream = Stream()
    stream.send(100, "request")
    following = stream.clock.restarted()
    stream.ledger.rebind(following)
    assert stream.ledger.sent("request") == Sent(written=None, wire=None, acked=None)
    stream.report(ACKED, 99)
    stream.clock = following
    stream.send(50, "request")
    wire_ns = stream.report(WIRE, 149)
    wire = stream.ledger.sent("request").wire
    assert wire is not None and wire.exact and wire.at_ns == wire_ns


def test_memory_is_bounded_where_reports_never_come() -> None:
    stream = Stream()
    for _ in range(10_000):
        stream.send(1)
    assert len(stream.ledger._in_flight) == 4096
