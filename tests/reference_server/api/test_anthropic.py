"""Anthropic Messages, in virtual time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reference_server.settings import PaceSettings, ServiceSettings, Settings
from tests.reference_server.harness import MODEL, QUESTION, ask

PATH = "/v1/messages"


def _request(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": MODEL, "messages": messages, "max_tokens": 3, "stream": True, **more}


def _named(body: bytes) -> list[str]:
    names = []
    for block in body.decode().split("\n\n")[:-1]:
        event, data = block.split("\n")
        assert json.loads(data.removeprefix("data: "))["type"] == event.removeprefix("event: ")
        names.append(event.removeprefix("event: "))
    return names


def test_the_events_come_in_anthropics_order_and_are_named() -> None:
    answer = ask("POST", PATH, _request())
    assert _named(answer.body) == [
        "message_start",
        "content_block_start",
        "ping",
        *["content_block_delta"] * 3,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    events = answer.events()
    assert events[0]["message"]["usage"]["input_tokens"] == 8
    assert "".join(e["delta"]["text"] for e in events[3:6]) == "A BGP session"
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    assert events[-2]["usage"] == {"output_tokens": 3}


def test_timings_are_an_event_of_their_own_before_message_stop_and_only_on_request() -> None:
    answer = ask("POST", PATH, _request(), {"x-promptpath-timing": "1"})
    assert _named(answer.body)[-2:] == ["promptpath.timings", "message_stop"]
    assert [e["promptpath"]["seq"] for e in answer.events()] == list(range(10))
    assert b"timings" not in ask("POST", PATH, _request()).body


def test_not_streamed_it_is_a_message() -> None:
    settings = Settings(pace=PaceSettings(answer_tokens=2))
    document = ask("POST", PATH, _request(stream=False), settings=settings).json()
    assert document["type"] == "message" and document["stop_reason"] == "end_turn"
    assert document["content"] == [{"type": "text", "text": "A BGP"}]
    assert document["usage"]["output_tokens"] == 2


def test_the_system_text_counts_as_prompt() -> None:
    document = ask("POST", PATH, _request(stream=False, system="Be brief.")).json()
    assert document["usage"]["input_tokens"] == 8 + 4  # "Be", " brief", ".", the line break


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"max_tokens": None}, 400, "invalid_request_error"),
        ({"model": "claude-none"}, 404, "not_found_error"),
        ({"messages": [{"role": "system", "content": "x"}]}, 400, "invalid_request_error"),
        ({"system": 5}, 400, "invalid_request_error"),
        ({"tools": [{}]}, 400, "invalid_request_error"),
        ({"thinking": {"type": "enabled"}}, 400, "invalid_request_error"),
        ({"stop_sequences": [""]}, 400, "invalid_request_error"),
        ({"temperature": 1.5}, 400, "invalid_request_error"),
    ],
)
def test_errors_have_anthropics_shape(change: dict[str, Any], status: int, kind: str) -> None:
    answer = ask("POST", PATH, _request(**change))
    document = answer.json()
    assert (answer.status, document["type"], document["error"]["type"]) == (status, "error", kind)
    assert answer.headers["request-id"].startswith("req_")


def test_a_wish_for_what_is_anyway_so_is_no_error() -> None:
    wishes = _request(thinking={"type": "disabled"}, tools=[], tool_choice=None, metadata={})
    assert ask("POST", PATH, wishes).status == 200


def test_a_stop_sequence_ends_the_stream_and_is_named() -> None:
    events = ask("POST", PATH, _request(stop_sequences=[" session"], max_tokens=9)).events()
    assert "".join(e["delta"].get("text", "") for e in events if "delta" in e) == "A BGP"
    end = {"stop_reason": "stop_sequence", "stop_sequence": " session"}
    assert events[-2]["delta"] == end


def test_keepalives_are_ping_events() -> None:
    settings = Settings(pace=PaceSettings(base_ms=40_000), service=ServiceSettings(keepalive_s=15))
    names = _named(ask("POST", PATH, _request(), settings=settings).body)
    assert names.count("ping") == 3
