"""HTTP/1.1 streams that break: exit 1, the finding, and every event that came is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bad_input.tool import (
    CHAT,
    MESSAGES,
    Run,
    anthropic_events,
    named_event,
    openai_events,
    trace,
    trusting,
)
from tests.peers.certs import Certificates
from tests.peers.scripted import (
    CUT,
    FIN,
    LAST_CHUNK,
    RST,
    Close,
    ReadRequest,
    ScriptedOrigin,
    Step,
    Wait,
    chunk,
    head,
    sse_stream,
)

EVENTS = openai_events(3)
PARTIAL = b'data: {"choices":[{"delta":{"content":"cut'


def stream(*rest: Step, chunked: bool = True, events: Sequence[bytes] = EVENTS) -> list[Step]:
    """A response whose first events are good."""
    frame = chunk if chunked else bytes
    # The pause lets every event be read before a RST throws the receive queue away.
    good = [frame(event) for event in events]
    return [ReadRequest(), head(chunked=chunked), *good, Wait(30), *rest]


def kept(result: Run, count: int = 3) -> None:
    """The events that came are in the document, and their times in the report."""
    assert result.kinds().count("text") == count
    assert result.report["latency"]["ttft_ms"] is not None
    assert result.report["cadence"]["events"] == count
    assert {"wait", "generation"} <= set(result.stages())


@pytest.mark.parametrize("how", [FIN, CUT, RST], ids=lambda how: how.value)
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "until-close"])
def test_an_end_in_the_middle_of_an_event_is_a_cut_stream(
    tmp_path: Path, how: Close, chunked: bool
) -> None:
    partial = chunk(PARTIAL) if chunked else PARTIAL
    with ScriptedOrigin(stream(partial, Wait(30), how, chunked=chunked)) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert "60 s" in result.advice("PP521")
    assert ("PP511" in result.codes()) == (how is RST)
    assert result.fact("stream.end")["pending_bytes"] == len(PARTIAL)
    kept(result)


@pytest.mark.parametrize("how", [FIN, CUT, RST], ids=lambda how: how.value)
def test_an_end_in_the_middle_of_an_event_over_tls_is_a_cut_stream(
    tmp_path: Path, certs: Certificates, how: Close
) -> None:
    script = stream(PARTIAL, Wait(30), how, chunked=False)
    with ScriptedOrigin(script, tls=certs.good.server_context()) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    kept(result)
    ended = {FIN: "close-notify", CUT: "fin", RST: "rst"}[how]
    marks = [mark for mark in result.trace["marks"] if mark["name"] == "transport-end"]
    assert [mark["detail"]["how"] for mark in marks] == [ended]


def test_a_body_until_close_without_close_notify_is_not_whole(
    tmp_path: Path, certs: Certificates
) -> None:
    # RFC 9112, 9.8: whoever can send a FIN could have cut it here, and no event shows it.
    script = stream(CUT, chunked=False, events=[b"data: one\n\n", b"data: two\n\n"])
    with ScriptedOrigin(script, tls=certs.good.server_context()) as origin:
        url = origin.url("/events", host="localhost")
        result = trace(tmp_path, url, *trusting(certs), prompt=False, model=None)
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert result.fact("http.end")["complete"] is False


def test_a_cut_stream_that_http_calls_whole_is_still_a_cut_stream(tmp_path: Path) -> None:
    with ScriptedOrigin(stream(LAST_CHUNK)) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert result.fact("http.end")["complete"] is True
    assert "HTTP calls the response whole" in result.out.replace("\n    ", " ")
    kept(result)


def test_a_cut_anthropic_stream_is_a_cut_stream(tmp_path: Path) -> None:
    with ScriptedOrigin(stream(LAST_CHUNK, events=anthropic_events())) as origin:
        result = trace(tmp_path, origin.url(MESSAGES))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    kept(result)


BROKEN_CHUNKS = {
    "a chunk cut by FIN": (b"40\r\n" + PARTIAL[:20], "fin"),
    "a size that is no number": (b"zz\r\ndata", "protocol-error"),
    "a negative size": (b"-5\r\n", "protocol-error"),
    "a size of 2^70": (b"400000000000000000\r\ndata: x", "protocol-error"),
    "no CRLF behind a chunk": (b"5\r\ndata:data: x\r\n", "protocol-error"),
    "a size line that never ends": (b"1" * 100_000, "protocol-error"),
}


@pytest.mark.parametrize(("data", "how"), BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS.keys())
def test_a_broken_chunk_ends_the_response_and_nothing_else(
    tmp_path: Path, data: bytes, how: str
) -> None:
    with ScriptedOrigin(stream(data)) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert result.fact("http.end")["how"] in (how, "fin")
    kept(result)


def test_a_length_that_promises_more_than_comes_is_a_cut_stream(tmp_path: Path) -> None:
    promised = head(200, "text/event-stream", ("content-length", "100000"), chunked=False)
    with ScriptedOrigin([ReadRequest(), promised, *EVENTS, Wait(30)]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    kept(result)


OPENAI_ERRORS = {
    "an error object": b'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n',
    "an error event": named_event("error", {"error": {"message": "overloaded", "type": "e"}}),
    "an error text": b'data: {"error":"overloaded"}\n\n',
}


@pytest.mark.parametrize("error", OPENAI_ERRORS.values(), ids=OPENAI_ERRORS.keys())
def test_an_openai_error_under_200_is_an_error(tmp_path: Path, error: bytes) -> None:
    with ScriptedOrigin(stream(chunk(error), chunk(b"data: [DONE]\n\n"), LAST_CHUNK)) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "error-in-stream"
    assert "request id" in result.advice("PP520").replace("\n", " ")
    assert "overloaded" in result.out
    kept(result)


def test_an_anthropic_error_under_200_is_an_error(tmp_path: Path) -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    event = named_event("error", {"type": "error", "error": error})
    script = stream(chunk(event), LAST_CHUNK, events=anthropic_events())
    with ScriptedOrigin(script) as origin:
        result = trace(tmp_path, origin.url(MESSAGES))
    assert result.code == 1
    assert result.report["end_state"] == "error-in-stream"
    assert "overloaded_error" in result.out
    kept(result)


def test_an_error_before_any_content_is_an_error(tmp_path: Path) -> None:
    error = chunk(OPENAI_ERRORS["an error object"])
    with ScriptedOrigin([ReadRequest(), head(), error, LAST_CHUNK]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.report["end_state"] == "error-in-stream"
    assert result.report["latency"]["ttft_ms"] is None


def test_a_page_in_the_middle_of_a_stream_is_foreign(tmp_path: Path) -> None:
    page = chunk(b"<html><title>504 Gateway Time-out</title></html>\n")
    with ScriptedOrigin(stream(page, LAST_CHUNK)) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert "PP526" in result.codes()
    kept(result)


HEADS = {
    "closed at once": (b"", "closed"),
    "half a head": (b"HTTP/1.1 200 OK\r\ncontent-ty", "closed"),
    "no HTTP": (b"220 mail.test ESMTP \x1b[2J\r\n", "bad-http"),
    "an HTTP version that is none": (b"HTTP/9.9 200 OK\r\n\r\n", "bad-http"),
    "a status that is none": (b"HTTP/1.1 abc OK\r\n\r\n", "bad-http"),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        "bad-http",
    ),
    "an HTTP/2 preface": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" + b"\x00" * 18, "bad-http"),
}


@pytest.mark.parametrize(("answer", "code"), HEADS.values(), ids=HEADS.keys())
def test_a_head_that_is_none_stops_at_wait(tmp_path: Path, answer: bytes, code: str) -> None:
    with ScriptedOrigin([ReadRequest(), answer]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    result.failed_at("wait", code)
    assert "PP509" in result.codes()
    assert {"dns", "tcp", "request"} <= set(result.stages())


def test_a_reset_before_the_head_stops_at_wait(tmp_path: Path) -> None:
    with ScriptedOrigin([ReadRequest(), RST]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    result.failed_at("wait", "reset")


def test_a_wrong_dialect_is_not_taken_for_a_cut_stream(tmp_path: Path) -> None:
    with ScriptedOrigin(sse_stream(openai_events(9, finish=True))) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--dialect", "anthropic")
    assert result.code == 1
    assert "Leave --dialect out" in result.advice("PP529")
    assert "PP521" not in result.codes()
    assert result.report["end_state"] == "not-a-stream"
    assert len(result.kinds()) == 12
