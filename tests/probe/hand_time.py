"""Time moved by hand: what a RunClock reads in a test."""

from __future__ import annotations

from promptpath.probe.clock import RunClock
from promptpath.probe.kernel_support import NO_SUPPORT, KernelSupport

UNIX_NS = 1_790_000_000 * 1_000_000_000
ALL_SUPPORT = KernelSupport(rx_stamps=True, tx_stamps=True, segment_counter=True, queue_memory=True)


class HandTime:
    """Both system clocks. Reading either takes `reading_ns`; a positive one gives pairs a width."""

    def __init__(self, reading_ns: int = 0) -> None:
        self.reading_ns = reading_ns
        self._now_ns = 5_000_000
        self._wall_offset_ns = UNIX_NS

    def advance(self, by_ns: int) -> None:
        """Let time go by."""
        self._now_ns += by_ns

    def step_wall_clock(self, by_ns: int) -> None:
        """Somebody sets the clock."""
        self._wall_offset_ns += by_ns

    def kernel_stamp(self) -> int:
        """What the kernel would write on a packet that arrives now."""
        return self._now_ns + self._wall_offset_ns

    def monotonic_ns(self) -> int:
        self._now_ns += self.reading_ns
        return self._now_ns

    def realtime_ns(self) -> int:
        self._now_ns += self.reading_ns
        return self._now_ns + self._wall_offset_ns


def hand_clock(reading_ns: int = 0, *, kernel: bool = True) -> tuple[RunClock, HandTime]:
    """A run clock at t0, and the hand that moves it."""
    time = HandTime(reading_ns)
    return RunClock.start(source=time, support=ALL_SUPPORT if kernel else NO_SUPPORT), time
