"""Content type and first payload decide, the URL is a prior, the user forces."""

from __future__ import annotations

import pytest

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.dialect.detect import MAX_TRIES, Detector, Framing, framing_of
from promptpath.dialect.openai_chat import AZURE_OPENAI, OPENAI_CHAT
from promptpath.wire.frame import FrameKind
from tests.dialect.streams import event

SSE = "text/event-stream"


@pytest.mark.parametrize(
    ("content_type", "head", "framing"),
    [
        ("text/event-stream", b"", Framing.SSE),
        ("text/event-stream;charset=UTF-8", b"{", Framing.SSE),
        ("Text/Event-Stream ; charset=x", b"", Framing.SSE),
        ("application/x-ndjson", b"", Framing.NDJSON),
        ("application/stream+json", b"", Framing.NDJSON),
        ("application/json", b'{"a":1}', Framing.JSON),
        ("application/problem+json; charset=utf-8", b"{", Framing.JSON),
        ("application/json", b"data: {}", Framing.SSE),
        ("text/plain", b"\xef\xbb\xbf: hi", Framing.SSE),
        ("", b'{"a":1}\n', Framing.NDJSON),
        ("text/html", b"<html>", Framing.RAW),
        ("text/html", b"{", Framing.RAW),
        ("application/vnd.amazon.eventstream", b"\0\0", Framing.RAW),
        ("", b"", Framing.RAW),
    ],
)
def test_a_framing_follows_from_type_and_first_bytes(
    content_type: str, head: bytes, framing: Framing
) -> None:
    assert framing_of(content_type, head) is framing


CHUNK = event({"object": "chat.completion.chunk", "choices": []})


def test_the_payload_overrules_the_url() -> None:
    detector = Detector(Framing.SSE, SSE, prior=ANTHROPIC)
    assert detector.detected.because == "url"
    detector.reader(CHUNK)
    assert (detector.detected.dialect, detector.detected.because) == (OPENAI_CHAT, "payload")


def test_the_user_overrules_the_payload() -> None:
    detector = Detector(Framing.SSE, SSE, forced=ANTHROPIC, prior=OPENAI_CHAT)
    detector.reader(CHUNK)
    assert (detector.detected.dialect, detector.detected.because) == (ANTHROPIC, "option")


def test_the_url_keeps_a_relative_of_what_the_payload_says() -> None:
    detector = Detector(Framing.SSE, SSE, prior=AZURE_OPENAI)
    detector.reader(CHUNK)
    assert detector.detected.dialect is AZURE_OPENAI


def test_an_error_that_could_be_anybodys_leaves_it_to_the_url() -> None:
    detector = Detector(Framing.SSE, SSE, prior=ANTHROPIC)
    detector.reader(event({"error": {"message": "no"}}))
    assert (detector.detected.dialect, detector.detected.because) == (ANTHROPIC, "url")


def test_comments_and_foreign_payloads_do_not_settle_it() -> None:
    detector = Detector(Framing.SSE, SSE)
    detector.reader(event(b"PROCESSING", kind=FrameKind.COMMENT))
    assert not detector.seen_payload
    detector.reader(event({"hello": 1}))
    detector.reader(event(b"not json"))
    assert detector.detected.because == "content-type"
    detector.reader(CHUNK)
    assert detector.detected.dialect is OPENAI_CHAT


def test_after_many_foreign_payloads_nobody_looks_any_more() -> None:
    detector = Detector(Framing.SSE, SSE)
    for _ in range(MAX_TRIES):
        detector.reader(event({"hello": 1}))
    detector.reader(CHUNK)
    assert detector.detected.dialect.name == "generic-sse"
