"""Virtual time: exact, instant, and closed to the real world."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.virtual_time import NS_PER_S, VirtualTimeError, VirtualTimeLoop, run


def test_a_minute_takes_no_time_and_is_exact() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[int]:
        stamps = []
        for _ in range(3):
            await asyncio.sleep(60)
            stamps.append(loop.now_ns())
        return stamps

    stamps, elapsed_ns = run(scenario)
    assert elapsed_ns == pytest.approx(180 * NS_PER_S, abs=10)
    assert stamps == pytest.approx([60 * NS_PER_S, 120 * NS_PER_S, 180 * NS_PER_S], abs=10)


def test_deadline_fires_at_its_time() -> None:
    async def scenario(loop: VirtualTimeLoop) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2.5):
                await asyncio.Event().wait()
        return loop.time()

    assert run(scenario)[0] == pytest.approx(2.5, abs=1e-6)


def test_deadlock_is_an_error_and_not_a_hang() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeError, match="deadlock"):
        run(scenario)


def test_real_socket_is_refused() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        with socket.socket() as sock:
            loop.add_reader(sock, print)

    with pytest.raises(VirtualTimeError, match="real socket"):
        run(scenario)


def test_thread_is_refused() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(VirtualTimeError, match="thread"):
        run(scenario)
