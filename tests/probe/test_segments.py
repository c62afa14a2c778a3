"""The certificate against a model of the kernel's receive side: whatever arrives in whatever order,
between whichever of our system calls, no false certificate is given."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from promptpath.probe.segments import SegmentLedger
from promptpath.probe.tcp_info import Counters

SEGMENT_BYTES = 10
ESTABLISHED, CLOSE_WAIT = 1, 8


@dataclass
class Kernel:
    """One connection's receive side. Time is the number of arrivals so far."""

    now: int = 0
    queue: list[int] = field(default_factory=list)
    """Segment numbers deliverable and not read, in order; the first may be partly read."""
    waiting: set[int] = field(default_factory=set)
    arrived: dict[int, int] = field(default_factory=dict)
    stamps: dict[int, int] = field(default_factory=dict)
    """What the kernel keeps: the arrival, or that of a bare FIN appended to it."""
    deliverable: dict[int, int] = field(default_factory=dict)
    next: int = 0
    taken: int = 0
    """Bytes of the queue's first segment already read."""
    data_segs_in: int = 0
    rcv_ooopack: int = 0
    fin: bool = False

    def segment(self, number: int) -> None:
        """A segment with payload comes in."""
        self.now += 1
        self.data_segs_in += 1
        if number > self.next:
            self.rcv_ooopack += 1
            self.arrived.setdefault(number, self.now)
            self.waiting.add(number)
            return
        if number < self.next or self.fin:
            return
        self.arrived[number] = self.now
        self.waiting.add(number)
        while self.next in self.waiting:
            self.waiting.discard(self.next)
            self.queue.append(self.next)
            self.deliverable[self.next] = self.now
            self.stamps[self.next] = self.arrived[self.next]
            self.next += 1

    def end(self) -> None:
        """A bare FIN comes in."""
        self.now += 1
        self.fin = not self.waiting
        if self.fin and self.queue:
            self.stamps[self.queue[-1]] = self.now

    def read(self, limit: int) -> tuple[list[int], int, int | None]:
        """Segments touched, bytes, and the stamp: of the last segment read to its end."""
        left, size, touched, stamp = limit, 0, [], None
        while self.queue and left:
            number = self.queue[0]
            take = min(left, SEGMENT_BYTES - self.taken)
            touched.append(number)
            left, size, self.taken = left - take, size + take, self.taken + take
            if self.taken == SEGMENT_BYTES:
                self.queue.pop(0)
                self.taken = 0
                stamp = self.stamps[number]
        return touched, size, stamp

    def counters(self) -> Counters:
        return Counters(
            state=CLOSE_WAIT if self.fin else ESTABLISHED,
            unacked=0,
            last_ack_ms=0,
            advmss_bytes=1460,
            bytes_received=self.next * SEGMENT_BYTES + self.fin,
            data_segs_in=self.data_segs_in,
            rcv_ooopack=self.rcv_ooopack,
        )

    def memory(self) -> int:
        return 768 * (len(self.queue) + len(self.waiting))


Arrivals = list[int]
"""Offsets of arriving segments from the next expected one: 0 in order, negative a duplicate,
positive out of order."""
arrivals = st.lists(st.integers(-2, 3), max_size=4)
steps = st.lists(
    st.tuples(arrivals, st.sampled_from([10_000, 10_000, 10_000, 15, 5]), arrivals, arrivals),
    max_size=25,
)


def take_in(kernel: Kernel, offsets: Arrivals) -> None:
    for offset in offsets:
        kernel.segment(max(0, kernel.next + offset))


@settings(deadline=None)
@given(steps=steps, fin_at=st.integers(0, 30))
@example(steps=[([0, 2], 10_000, [], []), ([0], 10_000, [], [])], fin_at=30)
@example(steps=[([0, 2], 10_000, [], []), ([0], 10_000, [], []), ([0], 9, [], [])], fin_at=30)
@example(steps=[([0], 10_000, [0], []), ([], 10_000, [], []), ([0], 10_000, [], [])], fin_at=30)
@example(steps=[([0, 0], 15, [], []), ([0], 10_000, [], [])], fin_at=30)
@example(steps=[([0], 10_000, [], [])], fin_at=0)
@example(steps=[([0], 10_000, [], [1]), ([0], 10_000, [], [])], fin_at=30)
def test_no_certificate_is_false(
    steps: list[tuple[Arrivals, int, Arrivals, Arrivals]], fin_at: int
) -> None:
    kernel, ledger = Kernel(), SegmentLedger()
    for index, (before, limit, after_read, after_snapshot) in enumerate(steps):
        take_in(kernel, before)
        if index == fin_at:
            kernel.end()
        touched, size, stamp = kernel.read(limit)
        if not size:
            continue
        take_in(kernel, after_read)
        snapshot = kernel.counters()
        asked = False

        def memory(late: Arrivals = after_snapshot) -> int:
            nonlocal asked
            asked = True
            take_in(kernel, late)
            return kernel.memory()

        held = ledger.read(size, snapshot, memory)
        if not asked:
            take_in(kernel, after_snapshot)
        assert held.segments >= len(set(touched)) or not held.bounded
        if held.one_segment:
            assert len(touched) == 1
            assert stamp in (None, kernel.arrived[touched[0]])
            assert kernel.deliverable[touched[0]] == kernel.arrived[touched[0]]
        if index + 1 == fin_at:
            kernel.end()
        if held.bounded and stamp is not None:
            assert max(kernel.deliverable[number] for number in touched) <= stamp


def read_all(kernel: Kernel, ledger: SegmentLedger) -> bool:
    _, size, _ = kernel.read(10_000)
    return ledger.read(size, kernel.counters(), kernel.memory).one_segment


def test_segments_read_one_by_one_are_all_certified() -> None:
    kernel, ledger = Kernel(), SegmentLedger()
    for _ in range(100):
        take_in(kernel, [0])
        assert read_all(kernel, ledger)


def test_certificates_come_back_once_the_hole_is_filled() -> None:
    kernel, ledger = Kernel(), SegmentLedger()
    take_in(kernel, [0, 2])
    assert not read_all(kernel, ledger)
    take_in(kernel, [0])
    assert not read_all(kernel, ledger), "released by a hole that was filled"
    take_in(kernel, [0])
    assert not read_all(kernel, ledger), "one segment is still out of order"
    take_in(kernel, [0])
    assert read_all(kernel, ledger)


def test_without_proof_that_the_queue_is_empty_they_do_not_come_back() -> None:
    kernel, ledger = Kernel(), SegmentLedger()
    take_in(kernel, [1, 0])
    for _ in range(5):
        _, size, _ = kernel.read(10_000)
        held = ledger.read(size, kernel.counters(), lambda: None)
        assert not held.bounded and not held.one_segment
        take_in(kernel, [0])


def test_a_segment_that_came_before_the_snapshot_costs_two_certificates_and_no_more() -> None:
    kernel, ledger = Kernel(), SegmentLedger()
    take_in(kernel, [0])
    _, size, _ = kernel.read(10_000)
    take_in(kernel, [0])
    late = kernel.counters()
    assert not ledger.read(size, late, kernel.memory).one_segment
    assert ledger.more_waits(late)
    assert not read_all(kernel, ledger)
    take_in(kernel, [0])
    assert read_all(kernel, ledger)


def test_a_read_larger_than_a_segment_can_be_is_not_certified() -> None:
    ledger = SegmentLedger()
    merged = Counters(1, 0, 0, 1460, 2_000, 1, 0)
    held = ledger.read(2_000, merged, lambda: 0)
    assert held.bounded and not held.one_segment


def test_the_counter_may_wrap() -> None:
    ledger = SegmentLedger()
    ledger.read(10, Counters(1, 0, 0, 1460, 10, 2**32 - 1, 0), lambda: 0)
    held = ledger.read(10, Counters(1, 0, 0, 1460, 20, 0, 0), lambda: 0)
    assert held.one_segment
