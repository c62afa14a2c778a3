"""Waking tasks from the loop's callbacks."""

from __future__ import annotations

import asyncio


class Signal:
    """`wake` ends every wait that is on now. Unlike asyncio.Event it holds no state: the waiter
    checks its own condition in a loop, and there is nothing to clear."""

    def __init__(self) -> None:
        self._waiters: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Until the next `wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Let all waiters go on."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
