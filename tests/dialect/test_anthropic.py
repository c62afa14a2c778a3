"""Anthropic Messages: how it is asked, whom it claims, and payloads no fixture stream holds."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.model.enums import EventKind
from promptpath.model.plan import Plan, Target
from tests.dialect.streams import means
from tests.dialect.test_openai_chat import JSON_VALUES

PLAN = Plan(
    target=Target(scheme="https", host="api.anthropic.com", port=443, path="/v1/messages"),
    prompt="Why?",
    model="claude-haiku-4-5",
    max_tokens=7,
)


def test_a_prompt_is_asked_with_the_version_and_a_token_limit() -> None:
    asked = ANTHROPIC.ask(PLAN)
    assert json.loads(asked.body) == {
        "model": "claude-haiku-4-5",
        "max_tokens": 7,
        "messages": [{"role": "user", "content": "Why?"}],
        "stream": True,
    }
    assert ("anthropic-version", "2023-06-01") in asked.headers
    assert ANTHROPIC.key_headers("k") == (("x-api-key", "k"),)


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"type": "ping"}, EventKind.PING),
        ({"type": "content_block_start", "content_block": {"type": "text", "text": ""}}, "other"),
        ({"type": "content_block_start", "content_block": {"type": "text", "text": "A"}}, "text"),
        ({"type": "content_block_start", "content_block": {"type": "tool_use"}}, "tool"),
        (
            {"type": "content_block_start", "content_block": {"type": "redacted_thinking"}},
            "reasoning",
        ),
        ({"type": "content_block_delta", "delta": {"type": "signature_delta"}}, "other"),
        ({"type": "content_block_delta", "delta": {"type": "citations_delta"}}, "other"),
        ({"type": "content_block_delta", "delta": None}, "other"),
        ({"type": "message_delta", "usage": {"output_tokens": 4}}, "usage"),
        ({"type": "message_delta", "delta": {"stop_reason": "refusal"}}, "finish"),
        ({"type": "a_new_event"}, "other"),
        ([], "other"),
    ],
)
def test_an_event_is_of_its_kind(payload: object, kind: str) -> None:
    assert means(ANTHROPIC, payload).kind == kind


def test_the_event_name_stands_in_for_a_missing_type() -> None:
    assert means(ANTHROPIC, {}, "message_stop").is_end


def test_cached_input_is_part_of_the_input() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}
    meaning = means(ANTHROPIC, {"type": "message_start", "message": {"usage": usage}})
    assert meaning.usage is not None
    assert (meaning.usage.input_tokens, meaning.usage.cached_tokens) == (105, 90)


def test_its_events_are_claimed_and_those_of_others_are_not() -> None:
    claims = ANTHROPIC.claims
    assert claims("text/event-stream", {"type": "message_start"}) == 1.0
    assert claims("text/event-stream", {"type": "ping"}) > 0.5
    assert claims("text/event-stream", {"type": "response.created"}) == 0.0
    assert claims("text/event-stream", {"choices": []}) == 0.0


@given(JSON_VALUES)
def test_no_payload_of_any_shape_makes_the_reader_fail(payload: object) -> None:
    for kind in ("message_start", "content_block_delta", "content_block_start", "message_delta"):
        wrapped = {"type": kind, "delta": payload, "message": payload, "content_block": payload}
        means(ANTHROPIC, wrapped)
        means(ANTHROPIC, payload, kind)
