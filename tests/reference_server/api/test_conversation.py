"""The field `conversation` as a client meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reference_server.app import ReferenceApp, create_app
from reference_server.clock import monotonic_ns
from reference_server.gateway.keys import append_key, make_key
from reference_server.gateway.limits import Limits
from reference_server.settings import (
    GatewaySettings,
    PaceSettings,
    ServiceSettings,
    SessionSettings,
    Settings,
)
from tests.reference_server.harness import Answer, Client, chat, in_loop

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
FAST = PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=0, text="one two")


def settings(path: Path | str, **more: Any) -> Settings:
    return Settings(pace=FAST, sessions=SessionSettings(str(path)), **more)


def client(app: ReferenceApp) -> Client:
    return Client(app, monotonic_ns)


async def say(app: ReferenceApp, path: str = CHAT, **more: Any) -> Answer:
    """One turn of the conversation c1."""
    return await client(app).ask("POST", path, chat(**{"conversation": "c1", **more}))


@in_loop
async def test_prior_turns_are_part_of_the_prompt_also_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "file"
    counts, heads = [], []
    for path in (CHAT, MESSAGES, CHAT):
        app = create_app(settings(file))
        answer = await say(app, path, stream=False, max_tokens=2)
        usage = answer.json()["usage"]
        counts.append(usage.get("prompt_tokens", usage.get("input_tokens")))
        heads.append(answer.headers["x-promptpath-conversation"])
        await app.close()
    # The question has 8 pieces, the answer 2, and there is one line end between messages.
    assert counts == [8, 8 + 3 + 9, 8 + 3 + 9 + 3 + 9]
    assert heads == [f"history={number}, dropped=0" for number in (0, 2, 4)]


@in_loop
async def test_a_stream_is_remembered_when_it_has_ended(tmp_path: Path) -> None:
    app = create_app(settings(tmp_path / "file"))
    first = await say(app)
    assert first.body.endswith(b"data: [DONE]\n\n") and b"not be saved" not in first.body
    second = await say(app, conversation={"id": "c1"})
    assert second.headers["x-promptpath-conversation"] == "history=2, dropped=0"
    path = f"/promptpath/requests/{second.headers['x-request-id']}"
    trip = (await client(app).ask("GET", path)).json()
    assert trip["conversation"] == {"history": 2, "dropped": 0, "saved": True}
    assert [each["stage"] for each in trip["stages"]][-3:] == ["decode", "save", "write"]
    assert sum(each["ms"] for each in trip["stages"]) == pytest.approx(trip["wall_ms"])
    await app.close()


@in_loop
async def test_the_history_is_trimmed_to_the_context_and_that_is_said(tmp_path: Path) -> None:
    service = ServiceSettings(context_tokens=40)
    app = create_app(settings(tmp_path / "file", service=service))
    heads = [(await say(app)).headers["x-promptpath-conversation"] for _ in range(5)]
    # 36 tokens are left beside the answer's 4: two exchanges of 14 and the new question.
    assert heads[-1] == "history=4, dropped=4"
    await app.close()


@in_loop
async def test_a_large_limit_of_tokens_leaves_half_the_context_to_the_history(
    tmp_path: Path,
) -> None:
    service = ServiceSettings(context_tokens=60)
    app = create_app(settings(tmp_path / "file", service=service))
    for _ in range(2):
        await say(app, max_tokens=2)
    answer = await say(app, max_tokens=100_000, stream=False)
    # 30 of 60 tokens: one exchange of 12, the line ends, and the new question.
    assert answer.headers["x-promptpath-conversation"] == "history=2, dropped=2"
    await app.close()


@in_loop
async def test_one_key_cannot_read_the_conversation_of_another(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    app_settings = settings(tmp_path / "file", gateway=GatewaySettings(keys=str(keys)))
    made = [make_key(name, Limits()) for name in ("alice", "bob")]
    for _, line in made:
        append_key(keys, line)
    app = create_app(app_settings)
    heads = []
    for key, _ in (*made, made[0]):
        head = {"x-api-key": key}
        answer = await client(app).ask("POST", CHAT, chat(conversation="c1"), head)
        heads.append(answer.headers["x-promptpath-conversation"].split(",")[0])
    assert heads == ["history=0", "history=0", "history=2"]
    await app.close()


@in_loop
async def test_a_turn_that_cannot_be_saved_is_answered_and_said(tmp_path: Path) -> None:
    small = Settings(pace=FAST, sessions=SessionSettings(str(tmp_path / "file"), 1))
    app = create_app(small)
    long = [{"role": "user", "content": "x" * 2_000_000}]
    streamed = await say(app, messages=long)
    assert b": promptpath: this turn could not be saved" in streamed.body
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    whole = await say(app, messages=long, stream=False)
    assert whole.status == 200 and whole.headers["x-promptpath-conversation-saved"] == "no"
    assert (await say(app)).headers["x-promptpath-conversation"] == "history=0, dropped=0"
    await app.close()


@in_loop
async def test_a_history_that_cannot_be_read_is_a_503(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"no database" * 1000)
    app = create_app(settings(tmp_path / "file"))
    answer = await say(app)
    assert answer.status == 503 and answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "conversation_unavailable"
    await app.close()


@pytest.mark.parametrize("wrong", ["", "a b", "../x", "x" * 129, 5, {"id": 5}, {}, [], "é"])
@in_loop
async def test_an_id_must_be_simple(tmp_path: Path, wrong: Any) -> None:
    app = create_app(settings(tmp_path / "file"))
    answer = await say(app, conversation=wrong)
    assert answer.status == 400 and answer.json()["error"]["param"] == "conversation"
    assert not (tmp_path / "file").exists()
    await app.close()


@in_loop
async def test_switched_off_it_is_refused_rather_than_ignored() -> None:
    app = create_app(settings("off"))
    assert (await say(app)).status == 400
    assert (await client(app).ask("POST", CHAT, chat())).status == 200
    await app.close()
