"""The timer that wakes to the microsecond. Its lateness is a benchmark's matter, not a test's."""

from __future__ import annotations

import asyncio

import pytest

from reference_server import finetimer
from reference_server.clock import monotonic_ns, sleep_until
from reference_server.finetimer import fine_timer
from tests.reference_server.harness import in_loop

MS = 1_000_000


@in_loop
async def test_waits_end_in_the_order_of_their_times_and_never_early() -> None:
    timer = fine_timer()
    assert timer is not None and timer is fine_timer()
    base_ns = monotonic_ns()
    ended: list[int] = []

    async def wait(after_ns: int) -> None:
        await timer.sleep_until(base_ns + after_ns)
        assert monotonic_ns() >= base_ns + after_ns
        ended.append(after_ns)

    times = [3 * MS, MS, 2 * MS, MS // 2, -MS]
    await asyncio.gather(*map(wait, times))
    assert ended == sorted(times)


@in_loop
async def test_a_cancelled_wait_holds_no_other_up() -> None:
    timer = fine_timer()
    assert timer is not None
    at_ns = monotonic_ns() + 2 * MS
    first = asyncio.ensure_future(timer.sleep_until(at_ns))
    await asyncio.sleep(0)
    first.cancel()
    await timer.sleep_until(at_ns + MS)
    assert first.cancelled()


@in_loop
async def test_a_long_wait_ends_at_its_time() -> None:
    at_ns = monotonic_ns() + 20 * MS
    await sleep_until(at_ns, monotonic_ns)
    assert monotonic_ns() >= at_ns


@in_loop
async def test_without_a_timerfd_the_wait_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError("no timerfd here")

    monkeypatch.setattr(finetimer, "_create", refuse)
    assert fine_timer() is None
    at_ns = monotonic_ns() + MS
    await sleep_until(at_ns, monotonic_ns)
    assert monotonic_ns() >= at_ns


def test_a_failed_call_is_an_oserror_with_its_reason() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        finetimer._arm(-1, 1)
