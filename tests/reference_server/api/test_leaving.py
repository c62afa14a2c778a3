"""A client that leaves, in every stage: the slot is free, what was reserved comes back."""

from __future__ import annotations

import asyncio

import pytest

from reference_server.app import create_app
from reference_server.settings import (
    DelaySettings,
    EngineSettings,
    GatewaySettings,
    PaceSettings,
    Settings,
)
from tests.reference_server.harness import Answer, Client, chat
from tests.virtual_time import VirtualTimeLoop, run

CHAT = "/v1/chat/completions"
SETTINGS = Settings(
    pace=PaceSettings(base_ms=1000, prefill_ms_per_token=0, itl_ms=100),
    engine=EngineSettings(slots=1, queue_limit=1),
    gateway=GatewaySettings(tokens_per_minute=3000),
    delays=DelaySettings(
        gateway_ms=1000, session_ms=1000, tokenize_ms=1000, queue_ms=1000, prefill_ms=1000
    ),
)
LEAVES_AT_S = {
    "limits": 0.5,
    "session": 1.5,
    "tokenize": 2.5,
    "queue": 3.5,
    "prefill": 4.5,
    "decode": 6.5,
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("stage", LEAVES_AT_S)
def test_nothing_is_left_behind(stage: str, stream: bool) -> None:
    async def scenario(loop: VirtualTimeLoop) -> tuple[Answer, Answer, str]:
        app = create_app(SETTINGS, loop.now_ns)
        leaver, stayer = Client(app, loop.now_ns), Client(app, loop.now_ns)
        loop.call_later(LEAVES_AT_S[stage], leaver.leave)
        gone = Answer()
        await leaver.ask("POST", CHAT, chat(max_tokens=2000, stream=stream), answer=gone)
        metrics = (await stayer.ask("GET", "/metrics")).body.decode()
        # Its 2,000 tokens were put back, but for the few it used: the next 2,000 fit.
        after = await stayer.ask("POST", CHAT, chat(max_tokens=2000, stream=False))
        return gone, after, metrics

    (gone, after, metrics), _ = run(scenario)
    assert 'num_requests_running{model_name="promptpath-paced"} 0' in metrics
    assert 'num_requests_waiting{model_name="promptpath-paced"} 0' in metrics
    assert after.status == 200
    assert b"[DONE]" not in gone.body and (stream or gone.status == 0)


def test_two_that_leave_make_room_for_two_at_once() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[int]:
        app = create_app(SETTINGS, loop.now_ns)
        leavers = [Client(app, loop.now_ns) for _ in range(2)]
        for leaver in leavers:
            loop.call_later(3.9, leaver.leave)
        small = chat(max_tokens=10, stream=False)
        await asyncio.gather(*(leaver.ask("POST", CHAT, small) for leaver in leavers))
        stayer = Client(app, loop.now_ns)
        answers = await asyncio.gather(*(stayer.ask("POST", CHAT, small) for _ in range(2)))
        return [answer.status for answer in answers]

    assert run(scenario)[0] == [200, 200]
