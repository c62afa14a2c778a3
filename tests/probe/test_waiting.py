from __future__ import annotations

import asyncio

from promptpath.probe.waiting import Signal
from tests.virtual_time import VirtualTimeLoop, run


def test_a_wake_ends_every_wait_that_is_on_and_none_that_comes_later() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[bool]:
        signal = Signal()
        early = [asyncio.create_task(signal.wait()) for _ in range(2)]
        await asyncio.sleep(0)
        signal.wake()
        late = asyncio.create_task(signal.wait())
        await asyncio.sleep(1)
        done = [task.done() for task in (*early, late)]
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        return done

    assert run(scenario)[0] == [True, True, False]


def test_a_wait_given_up_is_forgotten() -> None:
    async def scenario(loop: VirtualTimeLoop) -> int:
        signal = Signal()
        try:
            async with asyncio.timeout(5):
                await signal.wait()
        except TimeoutError:
            pass
        left = len(signal._waiters)
        signal.wake()
        return left

    assert run(scenario) == (0, 5_000_000_000)
