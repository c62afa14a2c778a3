"""Reads into bursts."""

from __future__ import annotations

from promptpath.analysis.buffering.bursts import find_bursts, mode, variation
from tests.analysis.buffering import flow as f


def test_five_ms_of_silence_end_a_burst() -> None:
    sent = [f.Sent(at, 97) for at in (100, 104, 109.1, 114, 120)]
    bursts = find_bursts(f.evidence_of(f.one_by_one(sent)))
    assert [burst.events for burst in bursts] == [2, 2, 1]
    assert [burst.size for burst in bursts] == [210, 210, 105]


def test_a_bare_last_chunk_is_no_burst() -> None:
    flow = f.one_by_one(f.steady(3, gap_ms=20, size=97))
    flow.deliveries.append(f.Delivery(900, [], 5))
    assert len(find_bursts(f.evidence_of(flow))) == 3


def test_pending_bytes_are_those_at_the_bursts_end() -> None:
    flow = f.one_by_one(f.steady(2, gap_ms=1, size=97))
    flow.deliveries[0].pending = 40
    (burst,) = find_bursts(f.evidence_of(flow))
    assert (burst.pending, burst.segments, burst.reads) == (0, 2, 2)


def test_variation_and_mode() -> None:
    assert variation([5.0]) == variation([]) == variation([3, 3, 3]) == 0
    assert variation([1, 3]) == 0.5
    assert mode([4, 4, 9]) == (4, 2 / 3)
    assert mode([4, 4]) == (0, 0.0)
