"""OpenAI Responses, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from reference_server.settings import PaceSettings, ServiceSettings, Settings
from tests.reference_server.api.scripted import ScriptedEngine, ask_scripted, steps
from tests.reference_server.harness import MODEL, QUESTION, ask

PATH = "/v1/responses"


def _request(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "input": QUESTION, "max_output_tokens": 2, "stream": True, **more}


def test_the_events_come_in_order_and_are_numbered() -> None:
    answer = ask("POST", PATH, _request())
    events = answer.events()
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 2,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert [event["sequence_number"] for event in events] == list(range(10))
    assert [line for line in answer.body.split(b"\n") if line.startswith(b"event: ")] == [
        b"event: " + event["type"].encode() for event in events
    ]
    assert events[6]["text"] == "A BGP"
    assert len({event["item_id"] for event in events if "item_id" in event}) == 1


def test_the_last_event_has_the_whole_response() -> None:
    settings = Settings(pace=PaceSettings(answer_tokens=2))
    last = ask("POST", PATH, _request(max_output_tokens=5), settings=settings).events()[-1]
    response = last["response"]
    assert (last["type"], response["status"]) == ("response.completed", "completed")
    assert response["output"][0]["content"][0]["text"] == "A BGP"
    assert response["usage"]["input_tokens"] == 8 and response["usage"]["output_tokens"] == 2


def test_timings_are_in_the_last_event_on_request() -> None:
    answer = ask("POST", PATH, _request(), {"x-promptpath-timing": "1"})
    assert answer.events()[-1]["timings"]["predicted_n"] == 2
    assert b"timings" not in ask("POST", PATH, _request()).body


def test_not_streamed_it_is_the_response() -> None:
    document = ask("POST", PATH, _request(stream=False)).json()
    assert document["object"] == "response" and document["id"].startswith("resp_")
    assert document["incomplete_details"] == {"reason": "max_output_tokens"}
    assert document["output"][0]["status"] == "incomplete"


def test_instructions_and_items_are_a_conversation() -> None:
    engine = ScriptedEngine(steps("ok"))
    items = [
        {"role": "developer", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Yes?"}]},
    ]
    body = _request(input=items, instructions="Be kind.", stream=False)
    document = ask_scripted(engine, PATH, body).json()
    pieces = "Be kind.\nBe brief.\nHi.\nYes?"
    plain = ask("POST", "/v1/completions", {"model": MODEL, "prompt": pieces, "max_tokens": 1})
    assert document["usage"]["input_tokens"] == plain.json()["usage"]["prompt_tokens"]


def test_an_error_within_the_stream_is_a_failed_response() -> None:
    engine = ScriptedEngine(steps("a"), failure="engine_error")
    last = ask_scripted(engine, PATH, _request()).events()[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["message"].endswith("(engine_error)")


def test_a_comment_keeps_the_stream_alive() -> None:
    settings = Settings(pace=PaceSettings(base_ms=20_000), service=ServiceSettings(keepalive_s=15))
    assert ask("POST", PATH, _request(), settings=settings).body.count(b": ping\n\n") == 1


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, None),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"text": 5}, "text.format"),
        ({"instructions": 5}, "instructions"),
        ({"background": True}, "background"),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused(
    change: dict[str, Any], param: str | None
) -> None:
    answer = ask("POST", PATH, _request(**change))
    error = answer.json()["error"]
    assert answer.status == 400
    assert param is None or error["param"] == param


def test_embeddings_are_a_404_that_says_why() -> None:
    answer = ask("POST", "/v1/embeddings", {"model": MODEL, "input": "x"})
    assert (answer.status, answer.json()["error"]["code"]) == (404, "no_embeddings")
