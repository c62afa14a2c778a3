"""OpenAI chat: how it is asked, whom it claims, and payloads no fixture stream holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.openai_chat import AZURE_OPENAI, OPENAI_CHAT
from promptpath.model.enums import EventKind
from promptpath.model.plan import Plan, Target
from tests.dialect.streams import means

TARGET = Target(scheme="https", host="api.openai.com", port=443, path="/v1/chat/completions")


def body_for(model: str | None) -> dict[str, object]:
    plan = Plan(target=TARGET, prompt="Why?", model=model, max_tokens=7)
    body: dict[str, object] = json.loads(OPENAI_CHAT.ask(plan).body)
    return body


def test_a_prompt_is_asked_as_a_stream_with_usage() -> None:
    assert body_for("llama3") == {
        "model": "llama3",
        "messages": [{"role": "user", "content": "Why?"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 7,
    }
    assert "model" not in body_for(None)


def test_a_prompt_of_broken_bytes_is_asked_all_the_same() -> None:
    plan = Plan(target=TARGET, prompt="caf\udce9")
    assert json.loads(OPENAI_CHAT.ask(plan).body)["messages"][0]["content"] == "caf\ufffd"


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("gpt-4o-mini", "max_tokens"),
        ("gpt-5-mini", "max_completion_tokens"),
        ("openai/gpt-5.2", "max_completion_tokens"),
        ("o1", "max_completion_tokens"),
        ("o4-mini-2025-04-16", "max_completion_tokens"),
        ("olmo-2", "max_tokens"),
        ("gpt-oss-120b", "max_tokens"),
        ("promptpath-paced", "max_tokens"),
    ],
)
def test_reasoning_models_are_limited_by_the_field_they_accept(model: str, limit: str) -> None:
    assert body_for(model)[limit] == 7
    assert len({"max_tokens", "max_completion_tokens"} & set(body_for(model))) == 1


def test_the_key_goes_where_the_vendor_wants_it() -> None:
    assert OPENAI_CHAT.key_headers("k") == (("authorization", "Bearer k"),)
    assert AZURE_OPENAI.key_headers("k") == (("api-key", "k"),)


@pytest.mark.parametrize(
    ("delta", "kind", "text"),
    [
        ({"function_call": {"name": "f", "arguments": "{}"}}, EventKind.TOOL, "{}"),
        (
            {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]},
            EventKind.TOOL,
            '{"a":1}',
        ),
        ({"tool_calls": [{"function": {"name": "f"}}]}, EventKind.TOOL, ""),
        ({"tool_calls": []}, EventKind.OTHER, ""),
        ({"reasoning_details": [{"text": "a"}, {"summary": "b"}]}, EventKind.REASONING, "ab"),
        ({"reasoning": "x", "reasoning_content": "x"}, EventKind.REASONING, "x"),
        ({"audio": {"transcript": "hey"}}, EventKind.TEXT, "hey"),
        ({"content": ["a", {"type": "text", "text": "b"}]}, EventKind.TEXT, "ab"),
        ({"content": 5}, EventKind.OTHER, ""),
        ({"role": "assistant"}, EventKind.ROLE, ""),
        ({}, EventKind.OTHER, ""),
    ],
)
def test_a_delta_is_what_it_carries(delta: object, kind: EventKind, text: str) -> None:
    meaning = means(OPENAI_CHAT, {"choices": [{"delta": delta}]})
    assert (meaning.kind, meaning.text) == (kind, text)


def test_a_legacy_completion_carries_text_in_the_choice() -> None:
    assert means(OPENAI_CHAT, {"choices": [{"text": "hi", "index": 0}]}).text == "hi"


def test_text_that_begins_with_the_marker_is_no_marker() -> None:
    assert not means(OPENAI_CHAT, b"[DONE] ").is_end
    assert means(OPENAI_CHAT, b"[DONE]").is_end


def test_a_server_clock_in_microseconds_becomes_nanoseconds() -> None:
    payload = {"choices": [], "sla_metrics": {"ts_us": 1_786_507_380_308_596}}
    assert means(OPENAI_CHAT, payload).server_ns == 1_786_507_380_308_596_000


def test_chunks_are_claimed_and_foreign_objects_are_not() -> None:
    claims = OPENAI_CHAT.claims
    assert claims("text/event-stream", {"object": "chat.completion.chunk"}) == 1.0
    assert claims("text/event-stream", {"choices": []}) > 0.5
    assert claims("text/event-stream", {"type": "message_start"}) == 0.0
    assert claims("text/event-stream", {"error": {"message": "x"}}) < 0.5
    assert claims("text/event-stream", [1]) == 0.0


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                "choices delta content text error usage finish_reason tool_calls function "
                "arguments thinking type message promptpath timings x_groq audio object".split()
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES, st.sampled_from(["message", "error"]))
def test_no_payload_of_any_shape_makes_the_reader_fail(payload: object, type: str) -> None:
    means(OPENAI_CHAT, payload, type)
