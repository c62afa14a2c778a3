"""The server's clock: CLOCK_MONOTONIC in integer nanoseconds, handed in wherever time matters.

The tool on the same host reads the same clock, so their stamps compare without an offset; on
another host `/promptpath/clock` bounds the offset.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

Now = Callable[[], int]
"""A clock: returns nanoseconds that never go backwards."""


def monotonic_ns() -> int:
    """CLOCK_MONOTONIC, ns since an arbitrary start (on Linux: since boot)."""
    return time.monotonic_ns()


def realtime_ns() -> int:
    """CLOCK_REALTIME, ns since the Unix epoch; it may step, so never subtract two of them."""
    return time.time_ns()


async def sleep_until(at_ns: int, now: Now) -> None:
    """Return once `now()` has reached `at_ns`; yield to the event loop at least once.

    Up to 1 ms late on Linux before Python 3.13: the selector rounds its time-out up to whole
    milliseconds (`selectors.EpollSelector.select`).
    """
    while (left_ns := at_ns - now()) > 0:  # noqa: ASYNC110 - a clock has no event to wait for
        await asyncio.sleep(left_ns / 1e9)
    await asyncio.sleep(0)
