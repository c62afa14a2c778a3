"""The judge joins events to segments by byte offset, also when segments are lost and come again."""

from __future__ import annotations

from benchmarks.judge import ClockLine, Truth, client_port, figures, judge, truths
from tests.peers.capture import ACK, SYN, Segment

SERVER, CLIENT = ("10.0.0.2", 443), ("10.0.0.1", 5000)
ISN = 0xFFFF_FFF0
"""So that sequence numbers wrap within the test."""


def segment(at_ns: int, start: int, size: int, *, flags: int = ACK) -> Segment:
    """`size` bytes from the server, `start` counted from its first byte of payload."""
    sequence = (ISN + 1 + start) % (1 << 32)
    return Segment(at_ns, SERVER, CLIENT, sequence, 0, flags, b"", size)


def syn() -> Segment:
    return Segment(0, SERVER, CLIENT, ISN, 0, SYN | ACK, b"", 0)


def found(*segments: Segment, ends: list[int]) -> list[Truth]:
    return truths([syn(), *segments], SERVER[1], CLIENT[1], ends)


def test_event_arrives_with_the_segment_of_its_last_byte() -> None:
    got = found(segment(10, 0, 100), segment(20, 100, 50), ends=[40, 100, 101, 150])
    assert [truth.arrived_ns for truth in got] == [10, 10, 20, 20]


def test_event_cut_in_two_counts_from_its_second_part() -> None:
    got = found(segment(10, 0, 99), segment(20, 99, 1), ends=[100])
    assert got == [Truth(20, 20)]


def test_after_a_loss_later_events_arrive_before_they_can_be_read() -> None:
    got = found(segment(10, 0, 10), segment(20, 20, 10), segment(60, 10, 10), ends=[10, 20, 30])
    assert got == [Truth(10, 10), Truth(60, 60), Truth(20, 60)]


def test_second_copy_of_a_segment_changes_nothing() -> None:
    got = found(segment(10, 0, 10), segment(90, 0, 10), ends=[10])
    assert got == [Truth(10, 10)]


def test_event_the_capture_missed_is_not_judged() -> None:
    got = found(segment(10, 0, 10), ends=[10, 20])
    assert got[1] == Truth(None, None)
    line = ClockLine((0, 0), (1_000, 0))
    events = [{"at_ns": 10, "lo_ns": 10, "hi_ns": 10, "exact": True}] * 2
    assert len(judge({"clock": {"epoch_monotonic_ns": 0}}, events, got, line)) == 1


def test_busiest_connection_is_the_stream() -> None:
    other = Segment(1, SERVER, ("10.0.0.1", 6000), 0, 0, ACK, b"", 5)
    assert client_port([other, segment(2, 0, 100)], SERVER[1]) == CLIENT[1]


def judged_figures(at_ns: int, arrived_ns: int, *, exact: bool) -> dict[str, float | None]:
    event = {"at_ns": at_ns, "lo_ns": at_ns - 100, "hi_ns": at_ns + 100, "exact": exact}
    line = ClockLine((0, 0), (1_000, 0))
    truth = [Truth(arrived_ns, arrived_ns)]
    return figures(judge({"clock": {"epoch_monotonic_ns": 0}}, [event], truth, line))


def test_certificate_further_off_than_the_bar_is_false() -> None:
    assert judged_figures(106_000, 100_000, exact=True)["false_certificates"] == 1
    assert judged_figures(104_000, 100_000, exact=True)["false_certificates"] == 0
    assert judged_figures(106_000, 100_000, exact=False)["false_certificates"] == 0


def test_interval_that_misses_the_truth_is_seen() -> None:
    assert judged_figures(106_000, 100_000, exact=False)["rest_inside_share"] == 0
    assert judged_figures(100_500, 100_000, exact=False)["rest_inside_share"] == 1


def test_slewed_wall_clock_is_taken_out() -> None:
    line = ClockLine((0, 1_000_000), (10_000, 1_000_100))
    assert line.monotonic(1_000_000) == 0
    assert abs(line.monotonic(1_010_100) - 10_000) <= 1
