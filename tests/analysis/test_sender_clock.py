"""Which stamps of a sender can tell of a hold."""

from __future__ import annotations

import pytest

from promptpath.analysis.buffering.evidence import Events
from promptpath.analysis.scan import scan_events
from promptpath.analysis.sender_clock import tells_holds
from promptpath.model.enums import EventKind
from tests.analysis.build import opened

MS = 1_000_000


@pytest.mark.parametrize(
    ("stamps", "expected"),
    [
        ([], False),
        ([5 * MS], False),
        ([5 * MS] * 9, False),  # when the answer was begun
        ([5 * MS] * 8 + [7 * MS], False),
        ([1000 * MS, 2000 * MS, 4000 * MS], False),
        ([1100 * MS, 1200 * MS, 1400 * MS], False),
        ([1100 * MS, 1210 * MS, 1400 * MS], True),  # 10 ms
        ([1101 * MS, 1133 * MS], True),  # watsonx: 1 ms
        ([1_100_000_001, 1_133_000_000], True),
        ([-1, 1000 * MS, -1, 2000 * MS], False),
        ([-1, 1001 * MS, -1, 2000 * MS], True),
    ],
)
def test_only_a_fine_clock_that_moves_tells_of_a_hold(stamps: list[int], expected: bool) -> None:
    assert tells_holds(stamps) is expected


@pytest.mark.parametrize("step_ms", [0, 1000])
def test_coarse_or_constant_stamps_do_not_reach_the_analysis(step_ms: int) -> None:
    trip = opened().head(22)
    for index in range(10):
        trip.after(30).event(EventKind.TEXT, chars=1, server_ms=5000 + step_ms * index)
    scan = scan_events(trip.build())
    assert set(scan.content.server_ns) == {-1}
    assert scan.server_span_ns is None


def test_a_comments_stamp_is_not_among_those_of_the_content() -> None:
    trip = opened().head(22)
    for index in range(10):
        trip.after(30).event(EventKind.TEXT, chars=1, server_ms=5001 + 30 * index)
        trip.event(EventKind.COMMENT, server_ms=1_767_268_800_000.123)
    scan = scan_events(trip.build())
    assert list(scan.content.server_ns) == [(5001 + 30 * index) * MS for index in range(10)]
    assert Events(at_ns=scan.content.at_ns, server_ns=scan.content.server_ns).stamped


def test_stamped_comments_do_not_stamp_a_stream_without_stamps() -> None:
    trip = opened().head(22)
    for index in range(10):
        trip.after(30).event(EventKind.TEXT, chars=1)
        trip.event(EventKind.COMMENT, server_ms=5001 + 30 * index)
    content = scan_events(trip.build()).content
    assert not Events(at_ns=content.at_ns, server_ns=content.server_ns).stamped
