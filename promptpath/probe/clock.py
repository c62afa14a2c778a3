"""The run's clock: the only reader of time in the program.

Run time is CLOCK_MONOTONIC nanoseconds since t0. The kernel stamps packets in CLOCK_REALTIME;
each stamp is mapped with a fresh pair of readings, REALTIME between two of MONOTONIC, whose width
joins the stamp's error (measured: 140 ns median, 170 ns p99). Both clocks are slewed alike, so
their difference is constant but for steps of the wall clock. Each pair encloses that difference
in an interval; two intervals that do not meet prove a step (measured: no pair of a million
adjacent ones disjoint without one).
"""

from __future__ import annotations

import time
from typing import Protocol, Self

from promptpath.model.enums import Clock
from promptpath.model.rows import ClockInfo, ClockStep
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.model.units import NS_PER_S, Ns
from promptpath.probe.kernel_support import KernelSupport, kernel_support, start_keeper

__all__ = ["RunClock", "SystemTime", "TimeSource", "start_keeper"]

_GOOD_PAIR_NS = 500
"""A pair wider than this, three times the p99 of 170 ns (measured), was interrupted and is worth
another try."""
_PAIR_TRIES = 4


class TimeSource(Protocol):
    """The two system clocks."""

    def monotonic_ns(self) -> int:
        """CLOCK_MONOTONIC."""

    def realtime_ns(self) -> int:
        """CLOCK_REALTIME."""


class SystemTime:
    """The machine's own clocks."""

    monotonic_ns = staticmethod(time.monotonic_ns)
    realtime_ns = staticmethod(time.time_ns)


class RunClock:
    """One run's time, from its t0 on, and what stamps of this run are worth."""

    def __init__(self, source: TimeSource, support: KernelSupport) -> None:
        self._source = source
        self._monotonic_ns = source.monotonic_ns
        self._realtime_ns = source.realtime_ns
        self.support = support
        """What the links may ask of the kernel."""
        self._worst_pair_ns: Ns | None = None
        self._steps: list[ClockStep] = []
        self.t0_monotonic_ns = self._monotonic_ns()
        low, high = self._pair()
        self._low_ns, self._high_ns = low, high
        self._t0_realtime_ns = self.t0_monotonic_ns + (low + high) // 2

    @classmethod
    def start(
        cls, *, source: TimeSource | None = None, support: KernelSupport | None = None
    ) -> Self:
        """A clock whose t0 is now. `support` narrows what is asked of the kernel (tests, `--clock
        user`); by default what this machine was seen to do."""
        return cls(source or SystemTime(), kernel_support() if support is None else support)

    def restarted(self) -> Self:
        """A clock for the next run: a new t0 now, the same source and support."""
        return type(self)(self._source, self.support)

    # -- run time --------------------------------------------------------------------------------

    def now_ns(self) -> Ns:
        """Nanoseconds since t0."""
        return self._monotonic_ns() - self.t0_monotonic_ns

    def deadline(self, after_ns: Ns) -> Ns:
        """The instant `after_ns` from now."""
        return self.now_ns() + after_ns

    def seconds_until(self, deadline_ns: Ns | None) -> float | None:
        """How long a wait may last, for asyncio; 0 when the deadline passed, None without one."""
        return None if deadline_ns is None else max(0, deadline_ns - self.now_ns()) / NS_PER_S

    def unix_ns(self, at_ns: Ns) -> int:
        """Wall-clock time of an instant, for people and for joining with other logs only."""
        return self._t0_realtime_ns + at_ns

    # -- stamps ----------------------------------------------------------------------------------

    def user_stamp(self, lo_ns: Ns | None = None) -> Stamp:
        """Now, read by us: what it stands for happened between `lo_ns` and now."""
        return user_stamp(self.now_ns(), lo_ns)

    def stamp_from_realtime(self, realtime_ns: int, *, lo_ns: Ns, exact: bool) -> Stamp:
        """The kernel's instant in run time, its error the width of the mapping.

        `lo_ns` is an instant before which it cannot have happened; without `exact` the interval
        begins there. Where the wall clock stepped in between, or the result would lie outside
        [`lo_ns`, now], the kernel's word is void: the stamp is [`lo_ns`, now] on the user clock.
        """
        low, high = self._pair()
        now_ns = self.now_ns()
        error_ns = (high - low + 1) // 2
        at_ns = realtime_ns - (low + high) // 2 - self.t0_monotonic_ns
        stepped = self._note_step(low, high, now_ns)
        # A stamp from before an earlier step may be mapped only now: only what surely came after it
        # can be trusted.
        if stepped or (self._steps and lo_ns < self._steps[-1].at_ns):
            return user_stamp(now_ns, min(lo_ns, now_ns))
        if not lo_ns - error_ns <= at_ns <= now_ns + error_ns:
            return user_stamp(now_ns, min(lo_ns, now_ns))
        begin_ns = at_ns - error_ns if exact else min(lo_ns, at_ns)
        return Stamp(at_ns, begin_ns, at_ns + error_ns, Clock.KERNEL, exact)

    def _pair(self) -> tuple[int, int]:
        """An interval that holds REALTIME minus MONOTONIC."""
        best_low = best_high = 0
        best_ns: int | None = None
        for _ in range(_PAIR_TRIES):
            before = self._monotonic_ns()
            realtime = self._realtime_ns()
            after = self._monotonic_ns()
            width_ns = after - before
            if best_ns is None or width_ns < best_ns:
                best_low, best_high, best_ns = realtime - after, realtime - before, width_ns
            if width_ns <= _GOOD_PAIR_NS:
                break
        if self._worst_pair_ns is None or best_high - best_low > self._worst_pair_ns:
            self._worst_pair_ns = best_high - best_low
        return best_low, best_high

    def _note_step(self, low: int, high: int, now_ns: Ns) -> bool:
        """Whether the wall clock stepped since the last pair; a step is recorded."""
        apart = low > self._high_ns or high < self._low_ns
        if apart:
            step_ns = (low + high) // 2 - (self._low_ns + self._high_ns) // 2
            self._steps.append(ClockStep(at_ns=now_ns, step_ns=step_ns))
        self._low_ns, self._high_ns = low, high
        return apart

    # -- for the trace ---------------------------------------------------------------------------

    def info(self) -> ClockInfo:
        """Which clock the run used and how well."""
        kernel = self.support.rx_stamps
        return ClockInfo(
            source=Clock.KERNEL if kernel else Clock.USER,
            epoch_unix_ns=self._t0_realtime_ns,
            epoch_monotonic_ns=self.t0_monotonic_ns,
            rx_stamps=self.support.rx_stamps,
            tx_stamps=self.support.tx_stamps,
            segment_counter=self.support.segment_counter,
            mapping_error_ns=self._worst_pair_ns if kernel else None,
            steps=tuple(self._steps),
        )
