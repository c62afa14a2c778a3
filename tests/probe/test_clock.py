from __future__ import annotations

import ast
from pathlib import Path

import pytest

import promptpath
from promptpath.model.enums import Clock
from promptpath.model.rows import ClockStep
from promptpath.probe.clock import RunClock
from tests.probe.hand_time import ALL_SUPPORT, UNIX_NS, HandTime, hand_clock


def test_run_time_counts_from_the_start() -> None:
    clock, time = hand_clock()
    time.advance(1_234)
    assert clock.now_ns() == 1_234
    assert clock.deadline(1_000) == 2_234
    assert clock.seconds_until(1_234 + 2_500_000_000) == 2.5


def test_a_passed_deadline_leaves_no_time_and_no_deadline_leaves_all() -> None:
    clock, time = hand_clock()
    time.advance(100)
    assert clock.seconds_until(50) == 0
    assert clock.seconds_until(None) is None


def test_a_kernel_stamp_is_mapped_to_run_time_within_the_width_of_the_pair() -> None:
    clock, time = hand_clock(reading_ns=70)
    time.advance(1_000_000)
    arrived_ns, stamp_ns = clock.now_ns(), time.kernel_stamp()
    time.advance(50_000)
    stamp = clock.stamp_from_realtime(stamp_ns, lo_ns=0, exact=True)
    assert stamp.exact and stamp.clock is Clock.KERNEL
    assert abs(stamp.at_ns - arrived_ns) <= 70
    assert stamp.lo_ns <= arrived_ns <= stamp.hi_ns
    assert stamp.error_ns == 70


def test_without_certificate_the_interval_reaches_back_to_what_is_known() -> None:
    clock, time = hand_clock()
    time.advance(1_000_000)
    stamp_ns = time.kernel_stamp()
    time.advance(500)
    stamp = clock.stamp_from_realtime(stamp_ns, lo_ns=400_000, exact=False)
    assert (stamp.lo_ns, stamp.at_ns, stamp.hi_ns) == (400_000, 1_000_000, 1_000_000)
    assert not stamp.exact and stamp.clock is Clock.KERNEL


@pytest.mark.parametrize("step_ns", [3_600 * 10**9, -3_600 * 10**9, 5_000_000, -5_000_000])
def test_a_step_of_the_wall_clock_widens_the_stamps_across_it(step_ns: int) -> None:
    clock, time = hand_clock(reading_ns=70)
    time.advance(1_000_000)
    floor_ns = clock.now_ns()
    time.advance(1_000_000)
    arrived_ns, stamp_ns = clock.now_ns(), time.kernel_stamp()
    time.advance(1_000)
    time.step_wall_clock(step_ns)
    time.advance(1_000)
    stamp = clock.stamp_from_realtime(stamp_ns, lo_ns=floor_ns, exact=True)
    assert not stamp.exact and stamp.clock is Clock.USER
    assert stamp.lo_ns <= arrived_ns <= stamp.hi_ns
    (step,) = clock.info().steps
    assert abs(step.step_ns - step_ns) <= 140


def test_a_stamp_of_another_socket_from_before_a_step_already_seen_is_widened_too() -> None:
    clock, time = hand_clock(reading_ns=70)
    time.advance(1_000_000)
    old_ns, old_stamp = clock.now_ns(), time.kernel_stamp()
    time.step_wall_clock(-300_000)
    time.advance(1_000_000)
    clock.stamp_from_realtime(time.kernel_stamp(), lo_ns=0, exact=True)
    stamp = clock.stamp_from_realtime(old_stamp, lo_ns=0, exact=True)
    assert not stamp.exact
    assert stamp.lo_ns <= old_ns <= stamp.hi_ns


def test_after_a_step_stamps_are_exact_again() -> None:
    clock, time = hand_clock(reading_ns=70)
    time.step_wall_clock(10**9)
    time.advance(1_000)
    clock.stamp_from_realtime(time.kernel_stamp(), lo_ns=0, exact=True)
    time.advance(1_000)
    floor_ns = clock.now_ns()
    time.advance(1_000)
    arrived_ns, stamp_ns = clock.now_ns(), time.kernel_stamp()
    stamp = clock.stamp_from_realtime(stamp_ns, lo_ns=floor_ns, exact=True)
    assert stamp.exact
    assert stamp.lo_ns <= arrived_ns <= stamp.hi_ns
    assert len(clock.info().steps) == 1


def test_without_a_step_none_is_recorded_however_wide_the_pairs() -> None:
    clock, time = hand_clock(reading_ns=70)
    for width_ns in (70, 900_000, 70, 5, 40_000, 70):
        time.reading_ns = width_ns
        time.advance(10_000_000)
        clock.stamp_from_realtime(time.kernel_stamp(), lo_ns=0, exact=True)
    assert clock.info().steps == ()
    assert clock.info().mapping_error_ns == 2 * 900_000


@pytest.mark.parametrize("off_ns", [-1_000_000, 1_000_000])
def test_a_stamp_outside_what_is_possible_is_not_believed(off_ns: int) -> None:
    clock, time = hand_clock()
    time.advance(1_000_000)
    stamp = clock.stamp_from_realtime(time.kernel_stamp() + off_ns, lo_ns=900_000, exact=True)
    assert (stamp.lo_ns, stamp.at_ns, stamp.hi_ns) == (900_000, 1_000_000, 1_000_000)
    assert not stamp.exact and stamp.clock is Clock.USER


def test_the_next_run_has_its_own_start_and_no_steps() -> None:
    clock, time = hand_clock()
    time.step_wall_clock(7)
    time.advance(1_000)
    clock.stamp_from_realtime(time.kernel_stamp(), lo_ns=0, exact=True)
    assert clock.info().steps == (ClockStep(at_ns=1_000, step_ns=7),)
    following = clock.restarted()
    assert following.now_ns() == 0
    assert following.info().steps == ()
    assert following.support == ALL_SUPPORT
    assert following.t0_monotonic_ns - clock.t0_monotonic_ns == 1_000


def test_the_info_names_both_epochs_and_what_the_kernel_can_do() -> None:
    clock, _ = hand_clock()
    info = clock.info()
    assert info.epoch_unix_ns == UNIX_NS + info.epoch_monotonic_ns
    assert clock.unix_ns(5) == info.epoch_unix_ns + 5
    assert info.source is Clock.KERNEL
    assert (info.rx_stamps, info.tx_stamps, info.segment_counter) == (True, True, True)
    poor, _ = hand_clock(kernel=False)
    assert poor.info().source is Clock.USER
    assert poor.info().mapping_error_ns is None


def test_an_interrupted_pair_is_taken_again() -> None:
    class Interrupted(HandTime):
        interruptions = 1

        def realtime_ns(self) -> int:
            if self.interruptions:
                self.interruptions -= 1
                self.advance(4_000_000)
            return super().realtime_ns()

    clock = RunClock.start(source=Interrupted(reading_ns=70), support=ALL_SUPPORT)
    assert clock.info().mapping_error_ns == 140


def test_only_the_clock_reads_time() -> None:
    root = Path(promptpath.__file__).parent
    readers = set()
    for path in sorted((root / "probe").glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if "time" in names:
                readers.add(path.name)
    assert readers == {"clock.py"}
