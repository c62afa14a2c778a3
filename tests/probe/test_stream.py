"""One response body: framing by type and first bytes, stamps by byte, decoding, bounds."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from promptpath.model.enums import EventKind, Layer
from promptpath.model.plan import Limits, Plan
from promptpath.model.rows import StreamEvent
from promptpath.model.urls import parse_url
from promptpath.probe.recorder import Recorder
from promptpath.probe.stream import BodyReader
from promptpath.wire.http import Head
from tests.probe.hand_time import hand_clock
from tests.probe.scripted_link import PLAN
from tests.wire.feeding import at, cut_lists, feed, feed_bytewise


def delta(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}}
    payload = {"object": "chat.completion.chunk", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(payload).encode()


DONE = b"data: [DONE]\n\n"
CHAT = delta("Hello") + b": ping\n\n" + delta(" you") + DONE


class Body:
    """A reader and what it recorded."""

    def __init__(
        self,
        content_type: str = "text/event-stream",
        *headers: tuple[str, str],
        status: int = 200,
        plan: Plan = PLAN,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.recorder = Recorder(hand_clock()[0], secrets=secrets)
        head = Head(
            stream=1,
            status=status,
            reason="",
            version="1.1",
            headers=(("content-type", content_type), *headers),
            framing="chunked",
            stamp=at(0),
        )
        self.reader = BodyReader(self.recorder, plan, plan.target, head, None)

    def feed(self, data: bytes, stamp: Any) -> list[None]:
        """For `tests.wire.feeding`."""
        self.reader.feed(data, stamp)
        return []

    def end(self, end_ns: int | None = 10**9) -> Body:
        self.reader.end(end_ns)
        return self

    def fact(self, key: str) -> Any:
        found = [fact.value for fact in self.recorder.log.facts if fact.key == key]
        return found[-1] if found else None

    @property
    def events(self) -> list[StreamEvent]:
        return list(self.recorder.log.events)

    @property
    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]


@given(cuts=cut_lists(len(CHAT)))
def test_events_are_the_same_however_the_body_is_cut(cuts: list[int]) -> None:
    whole, cut = Body(), Body()
    feed(whole.feed, CHAT)
    feed(cut.feed, CHAT, cuts)
    expected = [EventKind.TEXT, EventKind.COMMENT, EventKind.TEXT, EventKind.END]
    assert whole.kinds == cut.kinds == expected
    assert whole.reader.content_events == cut.reader.content_events == 2
    assert whole.reader.body_bytes == cut.reader.body_bytes == len(CHAT)


def test_an_event_carries_the_stamp_of_its_first_and_its_last_byte() -> None:
    body = Body()
    feed_bytewise(body.feed, CHAT)
    first, second = len(delta("Hello")), len(delta("Hello") + b": ping\n\n")
    hello, _, you, done = body.events
    # Byte k came at k ns, from 1; an event is complete with its empty line.
    assert (hello.at_ns, you.at_ns) == (first, second + len(delta(" you")))
    assert hello.first_at_ns == 1
    assert you.first_at_ns == second + 1
    assert body.reader.marker is not None
    assert body.reader.marker.at_ns == done.at_ns == len(CHAT)


def test_arrivals_of_the_body_lie_end_to_end_and_say_what_is_pending() -> None:
    body = Body()
    feed(body.feed, CHAT, [10, 200])
    rows = [row for row in body.recorder.log.arrivals if row.layer is Layer.BODY]
    assert [row.offset for row in rows] == [0, 10, 200]
    assert sum(row.size for row in rows) == len(CHAT)
    assert rows[0].pending == 10 and rows[-1].pending == 0


@given(cuts=cut_lists(200))
def test_gzip_gives_each_event_with_the_bytes_that_completed_it(cuts: list[int]) -> None:
    packer = zlib.compressobj(wbits=31)
    flushed = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in (CHAT, CHAT)]
    first = len(flushed[0])
    body = Body("text/event-stream", ("content-encoding", "gzip"))
    feed(body.feed, flushed[0], cuts)
    assert body.kinds.count(EventKind.TEXT) == 2  # nothing waits for what comes after a flush
    feed(body.feed, flushed[1] + packer.flush())
    decoder = body.end().fact("http.content_decoder")
    assert (decoder["encoding"], decoder["error"]) == ("gzip", None)
    assert decoder["decoded_bytes"] == 2 * len(CHAT)
    assert decoder["encoded_bytes"] > first
    assert body.kinds.count(EventKind.TEXT) == 4


def test_a_compressed_bomb_is_decoded_to_one_byte_beyond_the_limit() -> None:
    plan = replace(PLAN, limits=Limits(max_bytes=1000))
    body = Body("text/plain", ("content-encoding", "gzip"), plan=plan)
    packer = zlib.compressobj(wbits=31)
    body.reader.feed(packer.compress(bytes(10_000_000)) + packer.flush(), at(1))
    assert body.reader.body_bytes == 1001


def test_broken_gzip_is_a_fact_and_no_crash() -> None:
    body = Body("text/event-stream", ("content-encoding", "gzip"))
    body.reader.feed(b"this is no gzip", at(1))
    assert body.end().fact("http.content_decoder")["error"]


@pytest.mark.parametrize(
    ("content_type", "data", "framing"),
    [
        ("text/event-stream", CHAT, "sse"),
        ("application/x-ndjson", b'{"a":1}\n', "ndjson"),
        ("application/json", b'{"a":1}', "json"),
        ("text/html", b"<html></html>", "raw"),
        ("", CHAT, "sse"),  # no type: the first bytes tell
    ],
)
def test_the_framing_is_by_type_and_first_bytes(
    content_type: str, data: bytes, framing: str
) -> None:
    body = Body(content_type)
    body.reader.feed(data, at(1))
    assert body.end().fact("stream.framing") == framing


def test_the_words_of_an_error_are_kept_without_the_key() -> None:
    said = {"error": {"message": "bad key sk-hidden-4711", "type": "auth", "code": "invalid"}}
    body = Body("application/json", status=401, secrets=("sk-hidden-4711",))
    feed(body.feed, json.dumps(said).encode(), [7, 20])
    error = body.end().fact("http.error_body")
    assert (error["type"], error["code"]) == ("auth", "invalid")
    assert "bad key" in error["message"] and "sk-hidden" not in error["message"]


def test_a_large_document_is_counted_and_not_kept() -> None:
    body = Body("text/html", status=500)
    for _ in range(64):
        body.reader.feed(bytes(65536), at(1))
    assert body.reader.body_bytes == 64 * 65536
    assert len(body.reader._document) == 256 * 1024


def test_an_empty_body_leaves_no_framing() -> None:
    body = Body()
    body.reader.feed(b"", at(1))
    assert body.end().fact("stream.framing") is None and body.events == []


def test_a_frame_cut_at_the_end_is_counted_as_pending() -> None:
    body = Body()
    body.reader.feed(CHAT + b"data: {", at(1))
    end = body.end(None).fact("stream.end")
    assert end["pending_bytes"] == len(b"data: {") and end["marker_seen"] is True


def test_the_url_is_only_a_prior_and_the_option_an_order() -> None:
    foreign = replace(PLAN, target=parse_url("http://ai.example/other"))
    seen = Body(plan=foreign)
    seen.reader.feed(CHAT, at(1))
    assert seen.end().fact("stream.dialect") == {"name": "openai-chat", "because": "payload"}
    told = Body(plan=replace(foreign, dialect="generic-sse"))
    told.reader.feed(CHAT, at(1))
    assert told.end().fact("stream.dialect") == {"name": "generic-sse", "because": "option"}


def test_tokens_are_counted_when_asked_and_text_is_not_kept() -> None:
    body = Body()
    body.reader.feed(CHAT, at(1))
    body.end().reader.count_tokens()
    assert body.fact("output.tokens")["counted"] == 2
    assert body.fact("prompt.tokens")["count"] == 10  # of the default prompt
    assert all(event.text is None and event.data is None for event in body.events)
    kept = Body(plan=replace(PLAN, keep_content=True))
    kept.reader.feed(CHAT, at(1))
    assert [event.text for event in kept.events if event.text] == ["Hello", " you"]
