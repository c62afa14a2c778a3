"""Payloads of APIs we do not know."""

from __future__ import annotations

import pytest
from hypothesis import given

from promptpath.dialect.generic_ndjson import GENERIC_NDJSON
from promptpath.dialect.generic_sse import GENERIC_SSE
from promptpath.model.enums import EventKind
from tests.dialect.streams import means
from tests.dialect.test_openai_chat import JSON_VALUES


@pytest.mark.parametrize(
    ("payload", "kind", "text"),
    [
        ({"message": {"content": "hi"}, "done": False}, "text", "hi"),
        ({"message": {"content": "", "thinking": "hm"}}, "reasoning", "hm"),
        ({"response": "hi"}, "text", "hi"),
        ({"content": "hi", "stop": False}, "text", "hi"),
        ({"token": {"text": "hi"}}, "text", "hi"),
        ({"type": "response.output_text.delta", "delta": "hi"}, "text", "hi"),
        ({"type": "response.output_text.done", "text": "hi there"}, "other", ""),
        ({"type": "response.reasoning_summary_text.delta", "delta": "hm"}, "reasoning", "hm"),
        ({"type": "response.function_call_arguments.delta", "delta": "{}"}, "tool", "{}"),
        ({"type": "response.refusal.delta", "delta": "no"}, "refusal", "no"),
        (
            {"type": "content-delta", "delta": {"message": {"content": {"text": "hi"}}}},
            "text",
            "hi",
        ),
        ({"done": True, "done_reason": "stop"}, "finish", ""),
        ({"usage": {"input_tokens": 1}}, "usage", ""),
        ({"error": "out of memory"}, "error", ""),
        ({"jsonrpc": "2.0"}, "other", ""),
        ([1], "other", ""),
        ("a word", "text", "a word"),
    ],
)
def test_text_is_found_where_it_usually_stands(payload: object, kind: str, text: str) -> None:
    data = f'"{payload}"' if isinstance(payload, str) else payload
    meaning = means(GENERIC_SSE, data)
    assert (meaning.kind, meaning.text) == (kind, text)
    assert meaning.detail.get("guessed", False) is bool(text)


def test_plain_text_is_text_in_an_event_stream_only() -> None:
    assert means(GENERIC_SSE, b" a word").text == " a word"
    assert means(GENERIC_NDJSON, b" a word").detail == {"malformed": True}
    assert means(GENERIC_SSE, b"", "ping").kind is EventKind.PING
    assert means(GENERIC_SSE, b"").kind is EventKind.OTHER
    assert means(GENERIC_SSE, b"1", "heartbeat").kind is EventKind.PING
    assert means(GENERIC_SSE, b"5").text == "5"
    assert means(GENERIC_SSE, b"boom", "error").error is not None


@given(JSON_VALUES)
def test_no_payload_of_any_shape_makes_the_reader_fail(payload: object) -> None:
    means(GENERIC_SSE, payload)
    means(GENERIC_NDJSON, payload)
