"""OpenAI chat completions, in virtual time."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

import pytest

from reference_server.app import create_app
from reference_server.settings import EngineSettings, PaceSettings, ServiceSettings, Settings
from tests.reference_server.harness import MODEL, Answer, Client, ask, chat, data_lines
from tests.virtual_time import VirtualTimeLoop, run

PATH = "/v1/chat/completions"
MS = 1_000_000


def test_a_stream_has_role_text_finish_usage_and_the_marker() -> None:
    answer = ask("POST", PATH, chat(stream_options={"include_usage": True}))
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = answer.events()
    deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "A BGP session flaps"
    assert [e["choices"][0]["finish_reason"] for e in events[:-1]] == [None] * 5 + ["length"]
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["total_tokens"] == 8 + 4
    assert data_lines(answer.body)[-1] == b"[DONE]"
    assert len({event["id"] for event in events}) == 1


def test_without_the_request_header_no_field_of_ours_is_sent() -> None:
    body = ask("POST", PATH, chat()).body
    assert b"promptpath" not in body.replace(MODEL.encode(), b"")
    assert b"timings" not in body and b'"usage"' not in body


def test_the_head_and_the_role_come_before_the_first_token() -> None:
    answer = ask("POST", PATH, chat())
    assert answer.head_ns == answer.pieces[0][0] == 0
    assert answer.pieces[1][0] == pytest.approx(44 * MS, abs=1000)


def test_each_event_is_a_write_of_its_own_and_stamped_with_its_time() -> None:
    answer = ask("POST", PATH, chat(), {"x-promptpath-timing": "1"})
    for number, (at_ns, piece) in enumerate(answer.pieces[:-2]):
        (line,) = data_lines(piece)
        stamp = json.loads(line)["promptpath"]
        assert (stamp["seq"], stamp["sent_ns"]) == (number, at_ns)
    steps = [event["promptpath"]["step"] for event in answer.events()]
    assert steps == [None, 1, 2, 3, 4, None]


def test_not_streamed_it_is_one_document() -> None:
    answer = ask("POST", PATH, chat(stream=False))
    assert answer.headers["content-length"] == str(len(answer.body))
    document = answer.json()
    assert document["object"] == "chat.completion"
    assert document["choices"][0]["message"]["content"] == "A BGP session flaps"
    assert document["choices"][0]["finish_reason"] == "length"
    assert document["usage"]["completion_tokens"] == 4
    assert "timings" not in document
    assert "timings" in ask("POST", PATH, chat(stream=False), {"x-promptpath-timing": "1"}).json()


def test_max_completion_tokens_wins_and_without_a_limit_there_is_a_default() -> None:
    assert len(ask("POST", PATH, chat(max_completion_tokens=2)).events()) == 4
    settings = Settings(service=ServiceSettings(default_output_tokens=3))
    answer = ask("POST", PATH, chat(max_tokens=None), settings=settings)
    assert len(answer.events()) == 5


@pytest.mark.parametrize(
    ("change", "status", "param"),
    [
        ({"model": "gpt-none"}, 404, "model"),
        ({"model": None}, 400, "model"),
        ({"messages": []}, 400, "messages"),
        ({"stream": "yes"}, 400, "stream"),
        ({"stream_options": 1}, 400, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, 400, "stream_options.include_usage"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"max_tokens": 10**9}, 400, "max_tokens"),
        ({"temperature": 3}, 400, "temperature"),
        ({"top_p": "x"}, 400, "top_p"),
        ({"n": 2}, 400, "n"),
        ({"tools": [{}]}, 400, "tools"),
        ({"stop": ["x"] * 5}, 400, "stop"),
        ({"stop": [""]}, 400, "stop"),
        ({"stop": 5}, 400, "stop"),
        ({"logprobs": True}, 400, "logprobs"),
        ({"top_logprobs": 2}, 400, "top_logprobs"),
        ({"top_p": 0}, 400, "top_p"),
        ({"seed": 1.5}, 400, "seed"),
        ({"frequency_penalty": -1}, 400, "frequency_penalty"),
        ({"seed": 2**63}, 400, "seed"),
        ({"top_k": -2}, 400, "top_k"),
        ({"max_tokens": 0}, 400, "max_tokens"),
        ({"cache_salt": ""}, 400, "cache_salt"),
        ({"priority": True}, 400, "priority"),
    ],
)
def test_a_wrong_field_is_named_in_openais_error_shape(
    change: dict[str, Any], status: int, param: str
) -> None:
    answer = ask("POST", PATH, chat(**change))
    error = answer.json()["error"]
    assert (answer.status, error["param"], error["type"]) == (
        status,
        param,
        "invalid_request_error",
    )
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-request-id"].startswith("req_")


def test_bad_json_a_large_body_and_a_long_prompt_are_refused() -> None:
    assert ask("POST", PATH, b"{").json()["error"]["code"] == "invalid_json"
    small = Settings(service=ServiceSettings(max_body_bytes=20))
    assert ask("POST", PATH, chat(), settings=small).status == 413
    declared = ask("POST", PATH, b"{}", {"content-length": "21"}, settings=small)
    assert declared.status == 413
    short = Settings(service=ServiceSettings(context_tokens=7))
    answer = ask("POST", PATH, chat(), settings=short)
    assert answer.json()["error"]["code"] == "context_length_exceeded"


def test_a_key_is_asked_for_when_one_is_set_and_never_repeated() -> None:
    digest = hashlib.sha256(b"sk-right").hexdigest()
    settings = Settings(service=ServiceSettings(api_key_sha256=digest))
    refused = ask("POST", PATH, chat(), {"authorization": "Bearer sk-wrong"}, settings)
    assert refused.status == 401 and b"sk-wrong" not in refused.body
    assert refused.json()["error"]["type"] == "authentication_error"
    allowed = ask("POST", PATH, chat(), {"authorization": "Bearer sk-right"}, settings)
    assert allowed.status == 200


def _two_at_once(settings: Settings) -> tuple[Answer, Answer]:
    async def scenario(loop: VirtualTimeLoop) -> tuple[Answer, Answer]:
        client = Client(create_app(settings, loop.now_ns), loop.now_ns)
        first, second = await asyncio.gather(
            client.ask("POST", PATH, chat()), client.ask("POST", PATH, chat())
        )
        return first, second

    return run(scenario)[0]


def test_a_full_queue_is_a_429_with_retry_after() -> None:
    _, second = _two_at_once(Settings(engine=EngineSettings(slots=1, queue_limit=0)))
    assert (second.status, second.headers["retry-after"]) == (429, "1")
    assert second.json()["error"]["type"] == "rate_limit_error"


def test_waiting_too_long_is_an_error_inside_the_stream() -> None:
    _, second = _two_at_once(Settings(engine=EngineSettings(slots=1, queue_timeout_ms=30)))
    assert second.status == 200 and second.head_ns == 0
    assert second.events()[-1]["error"]["code"] == "queue_timeout"
    assert data_lines(second.body)[-1] == b"[DONE]"


def test_comments_keep_a_waiting_stream_alive() -> None:
    settings = Settings(
        pace=PaceSettings(base_ms=50_000), service=ServiceSettings(keepalive_s=15.0)
    )
    answer = ask("POST", PATH, chat(), settings=settings)
    pings = [at_ns // MS for at_ns, piece in answer.pieces if piece == b": ping\n\n"]
    assert pings == [15_000, 30_000, 45_000]


def test_when_the_client_leaves_its_slot_is_free_at_once() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        app = create_app(Settings(engine=EngineSettings(slots=1)), loop.now_ns)
        leaver, stayer = Client(app, loop.now_ns), Client(app, loop.now_ns)
        loop.call_later(0.1, leaver.leave)
        got = Answer()
        first = asyncio.ensure_future(leaver.ask("POST", PATH, chat(max_tokens=10_000), answer=got))
        second = asyncio.ensure_future(
            stayer.ask("POST", PATH, chat(), {"x-promptpath-timing": "1"})
        )
        await first
        assert loop.now_ns() == pytest.approx(100 * MS, abs=1000)
        assert len(got.events()) == 1 + 3
        timings = (await second).events()[-1]["timings"]
        assert timings["queue_ms"] == pytest.approx(100, abs=0.01)
        metrics = await stayer.ask("GET", "/metrics")
        assert b'finished_reason="abort"} 1' in metrics.body

    run(scenario)
