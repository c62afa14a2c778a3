"""Waiting for a client that does not read."""

from __future__ import annotations

import pytest

from reference_server.asgi import ClientGone
from reference_server.listen.gate import WriteGate
from tests.virtual_time import VirtualTimeLoop, run


def test_a_paused_gate_opens_when_the_buffer_is_empty() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        gate = WriteGate(60)
        await gate.wait()
        gate.pause()
        loop.call_later(7, gate.resume)
        await gate.wait()
        assert loop.time() == pytest.approx(7)

    run(scenario)


def test_a_client_that_never_reads_is_given_up() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        gate = WriteGate(60)
        gate.pause()
        with pytest.raises(ClientGone, match="does not read"):
            await gate.wait()
        assert loop.time() == pytest.approx(60)

    run(scenario)


def test_a_lost_connection_wakes_everybody_and_stays_lost() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        gate = WriteGate(60)
        gate.pause()
        loop.call_later(1, gate.lose)
        with pytest.raises(ClientGone, match="lost"):
            await gate.wait()
        gate.pause()
        with pytest.raises(ClientGone, match="lost"):
            await gate.wait()

    run(scenario)
