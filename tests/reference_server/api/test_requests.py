"""The timeline of a request."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from typing import Any

import pytest

from reference_server.app import create_app
from reference_server.settings import DelaySettings, EngineSettings, ServiceSettings, Settings
from tests.reference_server.harness import Answer, Client, chat
from tests.virtual_time import VirtualTimeLoop, run

CHAT, LIST = "/v1/chat/completions", "/promptpath/requests"
STAGES = "auth read validate limits session tokenize queue prefill decode write".split()


def traced(settings: Settings | None = None, **more: Any) -> tuple[Answer, Any]:
    """A chat request and its timeline."""

    async def scenario(loop: VirtualTimeLoop) -> tuple[Answer, Any]:
        client = Client(create_app(settings, loop.now_ns), loop.now_ns)
        answer = await client.ask("POST", CHAT, chat(**more), {"x-promptpath-timing": "1"})
        return answer, (await client.ask("GET", f"{LIST}/{answer.headers['x-request-id']}")).json()

    return run(scenario)[0]


def test_the_stages_follow_each_other_and_add_up_to_the_wall_time() -> None:
    _, trip = traced()
    assert [each["stage"] for each in trip["stages"]] == STAGES
    for one, two in zip(trip["stages"], trip["stages"][1:], strict=False):
        assert one["end_ns"] == two["start_ns"]
    total_ms = sum(each["ms"] for each in trip["stages"])
    assert total_ms == pytest.approx(trip["wall_ms"], abs=1e-6)
    assert trip["outcome"] == "length" and trip["ended_ns"] is not None


def test_each_prefill_chunk_and_each_token_has_its_step_batch_and_times() -> None:
    answer, trip = traced()
    (chunk,) = trip["prefill"]
    assert (chunk["tokens"], chunk["position"]) == (8, 0)
    assert chunk["end_ns"] - chunk["start_ns"] == 44_000_000
    assert [row["step"] for row in trip["decode"]] == [1, 2, 3, 4]
    assert {(row["batch"], row["tokens"]) for row in trip["decode"]} == {(1, 1)}
    written = {row["step"]: row["written_ns"] for row in trip["written"] if row["kind"] == "text"}
    assert all(written[row["step"]] >= row["sampled_ns"] for row in trip["decode"])
    assert sum(row["bytes"] for row in trip["written"]) == len(answer.body)


def test_a_running_request_is_in_its_decode_until_the_last_token() -> None:
    async def scenario(loop: VirtualTimeLoop) -> Any:
        app = create_app(None, loop.now_ns)
        answer = Answer()
        asking = Client(app, loop.now_ns).ask("POST", CHAT, chat(), answer=answer)
        task = asyncio.ensure_future(asking)
        await asyncio.sleep(0.070)
        path = f"{LIST}/{answer.headers['x-request-id']}"
        trip = (await Client(app, loop.now_ns).ask("GET", path)).json()
        await task
        return trip

    trip = run(scenario)[0]
    last = trip["stages"][-1]
    # 44 ms of prefill, a token at 44 and 64 ms.
    assert last["stage"] == "decode" and last["ms"] == pytest.approx(26, abs=0.01)
    assert trip["outcome"] is None and trip["ended_ns"] is None and trip["output_tokens"] == 2


def test_delays_make_exactly_their_stage_longer() -> None:
    _, plain = traced()
    delays = DelaySettings(0, 8, 3, 2, 30, 15)
    answer, trip = traced(Settings(delays=delays))
    before = {each["stage"]: each["ms"] for each in plain["stages"]}
    after = {each["stage"]: each["ms"] for each in trip["stages"]}
    added = {name: after[name] - before[name] for name in STAGES}
    expected = dict.fromkeys(STAGES, 0.0)
    expected |= {"limits": 8, "session": 3, "tokenize": 2, "queue": 30, "prefill": 15}
    assert added == pytest.approx(expected, abs=1e-6)
    (timings,) = [event["timings"] for event in answer.events() if "timings" in event]
    assert timings["queue_ms"] == pytest.approx(30) and timings["limits_ms"] == pytest.approx(8)
    # The head is sent at admission, not after the queue.
    assert answer.head_ns == pytest.approx(13_000_000, abs=1000)


def test_a_delayed_request_that_is_cancelled_frees_its_slot() -> None:
    async def scenario(loop: VirtualTimeLoop) -> float:
        settings = Settings(delays=DelaySettings(queue_ms=5000), engine=EngineSettings(slots=1))
        app = create_app(settings, loop.now_ns)
        leaver, stayer = Client(app, loop.now_ns), Client(app, loop.now_ns)
        loop.call_later(1, leaver.leave)
        gone = asyncio.ensure_future(leaver.ask("POST", CHAT, chat(max_tokens=10_000)))
        await asyncio.sleep(0)
        answer = await stayer.ask("POST", CHAT, chat())
        await gone
        assert answer.events()[-1]["choices"][0]["finish_reason"] == "length"
        return answer.pieces[1][0] / 1e9

    # The slot is free after 1 s; then the prefill of 44 ms and the delay of 5 s.
    assert run(scenario)[0] == pytest.approx(6.044, abs=0.001)


def test_a_full_queue_is_still_refused_at_once_with_delays() -> None:
    async def scenario(loop: VirtualTimeLoop) -> int:
        limits = EngineSettings(slots=1, queue_limit=0)
        settings = Settings(delays=DelaySettings(queue_ms=50), engine=limits)
        client = Client(create_app(settings, loop.now_ns), loop.now_ns)
        first = asyncio.ensure_future(client.ask("POST", CHAT, chat()))
        await asyncio.sleep(0.01)
        refused = await client.ask("POST", CHAT, chat())
        await first
        return refused.status

    assert run(scenario)[0] == 429


def test_a_refused_request_has_a_timeline_too_and_the_list_names_both() -> None:
    async def scenario(loop: VirtualTimeLoop) -> tuple[Any, Any]:
        client = Client(create_app(None, loop.now_ns), loop.now_ns)
        await client.ask("POST", CHAT, chat())
        refused = await client.ask("POST", CHAT, chat(model="none"))
        listed = (await client.ask("GET", LIST)).json()["requests"]
        path = f"{LIST}/{refused.headers['x-request-id']}"
        return listed, (await client.ask("GET", path)).json()

    listed, trip = run(scenario)[0]
    assert [each["outcome"] for each in listed] == ["model_not_found", "length"]
    names = [each["stage"] for each in trip["stages"]]
    assert names == ["auth", "read", "validate", "refuse"]


def test_only_whose_request_it_was_may_see_it() -> None:
    sha256 = hashlib.sha256(b"k").hexdigest()
    settings = replace(Settings(), service=ServiceSettings(api_key_sha256=sha256))

    async def scenario(loop: VirtualTimeLoop) -> list[int]:
        client = Client(create_app(settings, loop.now_ns), loop.now_ns)
        key = {"authorization": "Bearer k"}
        done = await client.ask("POST", CHAT, chat(), key)
        path = f"{LIST}/{done.headers['x-request-id']}"
        heads: list[dict[str, str]] = [{}, key]
        answers = [await client.ask("GET", path, headers=head) for head in heads]
        answers.append(await client.ask("GET", f"{LIST}/req_none", headers=key))
        answers.append(await client.ask("GET", LIST))
        return [answer.status for answer in answers]

    assert run(scenario)[0] == [401, 200, 404, 401]


def test_a_client_that_leaves_is_seen_in_the_timeline() -> None:
    async def scenario(loop: VirtualTimeLoop) -> Any:
        app = create_app(None, loop.now_ns)
        leaver = Client(app, loop.now_ns)
        answer = Answer()
        loop.call_later(0.03, leaver.leave)
        await leaver.ask("POST", CHAT, chat(), answer=answer)
        path = f"{LIST}/{answer.headers['x-request-id']}"
        return (await Client(app, loop.now_ns).ask("GET", path)).json()

    trip = run(scenario)[0]
    assert trip["outcome"] == "cancelled" and trip["wall_ms"] == pytest.approx(30, abs=0.01)
    assert [each["stage"] for each in trip["stages"]][-1] == "prefill"
