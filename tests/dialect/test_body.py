"""Saved bodies: streams, documents, pages."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.body import read_body
from tests.dialect.streams import FIXTURES


def test_a_saved_stream_is_summed_up() -> None:
    reading = read_body((FIXTURES / "anthropic_thinking.sse").read_bytes(), "text/event-stream")
    assert (reading.framing, reading.dialect, reading.because) == ("sse", "anthropic", "payload")
    assert reading.kinds["text"] == 1
    assert reading.chars == {"reasoning": 10, "text": 3}
    assert reading.finish == "end_turn"
    assert reading.marker_seen and reading.marker_expected
    assert reading.tokens is not None and reading.tokens.source == "estimate"
    assert len(reading.log.events) == reading.events
    assert all(event.data is None for event in reading.log.events)


def test_content_is_in_the_log_when_asked_for() -> None:
    body = (FIXTURES / "chat_text.sse").read_bytes()
    reading = read_body(body, "text/event-stream", keep_content=True)
    assert reading.log.events[1].text == "Check"


def test_an_answer_that_was_not_streamed_is_a_document() -> None:
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "model": "m",
            "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
        }
    ).encode()
    reading = read_body(body, "application/json")
    assert (reading.framing, reading.events, reading.dialect) == ("json", 0, None)
    assert (reading.model, reading.finish) == ("m", "stop")
    assert reading.usage is not None and reading.usage.output_tokens == 1
    assert reading.errors == ()


def test_an_error_document_is_an_error() -> None:
    reading = read_body(b'{"error": {"message": "no", "code": 4}}', "application/json")
    assert [error["message"] for error in reading.errors] == ["no"]


def test_a_page_gives_its_title() -> None:
    reading = read_body(b"<html><title>504 Gateway Time-out</title>", "text/html")
    assert reading.page_title == "504 Gateway Time-out"
    assert reading.framing == "raw"


@given(
    st.binary(max_size=300),
    st.sampled_from(["text/event-stream", "application/x-ndjson", "application/json", "", "x"]),
)
def test_no_body_makes_it_fail(body: bytes, content_type: str) -> None:
    read_body(body, content_type)
