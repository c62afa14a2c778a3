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

_FINE_NS = 1_000_000_000
"""The end of a wait that is left to the fine timer, whole for the gaps of a stream: two waits an
event would cost twice. A cancelled wait stays in that timer until its time, so no more than 1 s is
asked of it; an asyncio timer is up to 1 ms late, so it always ends before."""


def monotonic_ns() -> int:
    """CLOCK_MONOTONIC, ns since an arbitrary start (on Linux: since boot)."""
    return time.monotonic_ns()


def realtime_ns() -> int:
    """CLOCK_REALTIME, ns since the Unix epoch; it may step, so never subtract two of them."""
    return time.time_ns()


async def sleep_until(at_ns: int, now: Now) -> None:
    """Return once `now()` has reached `at_ns`; yield to the event loop at least once.

    On Linux and the real clock to the microsecond, elsewhere up to 1 ms late.
    """
    left_ns = at_ns - now()
    if now is monotonic_ns and left_ns > 0:
        # Not at the top: ctypes, which it needs, is not wanted before the server listens.
        from reference_server.finetimer import fine_timer

        if (timer := fine_timer()) is not None:
            if left_ns > _FINE_NS:
                await asyncio.sleep((left_ns - _FINE_NS) / 1e9)
            await timer.sleep_until(at_ns)
            return
    while (left_ns := at_ns - now()) > 0:  # noqa: ASYNC110 - a clock has no event to wait for
        await asyncio.sleep(left_ns / 1e9)
    await asyncio.sleep(0)
