"""Endpoints of every kind: a page, a document, streams of no known dialect."""

from __future__ import annotations

import json

import pytest

from tests.cli.running import promptpath
from tests.e2e.trip import Trip, trip
from tests.peers.scripted import (
    LAST_CHUNK,
    ReadRequest,
    ScriptedOrigin,
    Step,
    Wait,
    chunk,
    head,
    response,
)

PAGE = ["dns", "tcp", "request", "wait"]
STREAM = ["dns", "tcp", "request", "wait", "generation", "finish"]
GAP_MS = 20.0


def get(url: str, *options: str, code: int = 0) -> Trip:
    """Trace with nothing said about the API."""
    return trip(url, "--proxy", "none", "--timeout", "20s", *options, code=code)


def stream(content_type: str, *pieces: bytes) -> list[Step]:
    """A chunked answer, a pause before each further piece."""
    steps: list[Step] = [ReadRequest(), head(200, content_type)]
    for index, piece in enumerate(pieces):
        steps += [Wait(GAP_MS)] if index else []
        steps.append(chunk(piece))
    return [*steps, LAST_CHUNK]


def test_a_bare_host_is_a_get_traced_as_far_as_it_goes_and_said_so() -> None:
    page = response(200, b"<html><title>Hello</title></html>", "text/html; charset=utf-8")
    with ScriptedOrigin([ReadRequest(), page]) as origin:
        found = get(origin.url("/"))
        done = promptpath("trace", origin.url("/"), "--proxy", "none")
    assert origin.requests[0].startswith(b"GET / HTTP/1.1\r\n")
    assert found.stages == PAGE and found.fact("stream.framing") == "raw"
    assert not found.texts and found.report["latency"]["ttft_ms"] is None
    assert "a GET is sent" in done.err and "wait for the response" in done.out


def test_a_document_of_another_kind_is_no_failure() -> None:
    body = json.dumps({"status": "ok", "items": [1, 2]}).encode()
    with ScriptedOrigin([ReadRequest(), response(200, body, "application/json")]) as origin:
        found = get(origin.url("/api/items"))
    assert found.stages == PAGE and found.fact("stream.framing") == "json"
    assert found.fact("http.framing") == "content-length"
    assert not found.facts("http.error_body")


def test_a_generic_event_stream_has_a_generation() -> None:
    events = [b": hello\n\n", b"data: a\n\n", b"event: tick\ndata: b\n\n", b"data: c\n\n"]
    with ScriptedOrigin(stream("text/event-stream", *events)) as origin:
        found = get(origin.url("/events"))
    assert found.stages == STREAM
    assert found.fact("stream.framing") == "sse"
    assert found.fact("stream.dialect")["name"] == "generic-sse"
    assert [event["kind"] for event in found.trace["events"]].count("comment") == 1
    assert found.hop_ms("generation") >= GAP_MS


@pytest.mark.parametrize("content_type", ["application/x-ndjson", "application/jsonl"])
def test_ndjson_rows_without_text_are_events_and_no_tokens(content_type: str) -> None:
    lines = [b'{"n":1}\n', b'{"n":2}\n', b'{"n":3}\n']
    with ScriptedOrigin(stream(content_type, *lines)) as origin:
        found = get(origin.url("/rows"))
    # Lines without text: nobody can say where a first token is, so all of it is the wait.
    assert found.stages == PAGE and found.hop_ms("wait") >= 2 * GAP_MS
    assert found.fact("stream.framing") == "ndjson"
    assert found.fact("stream.dialect")["name"] == "generic-ndjson"
    assert len(found.trace["events"]) == 3


def test_ollama_like_lines_are_read_as_lines() -> None:
    pieces = [
        json.dumps({"model": "m", "message": {"content": word}, "done": done}).encode() + b"\n"
        for word, done in (("Why ", False), ("not?", False), ("", True))
    ]
    with ScriptedOrigin(stream("application/x-ndjson", *pieces)) as origin:
        found = get(origin.url("/api/chat"), "--data", '{"model":"m"}')
    assert origin.requests[0].startswith(b"POST /api/chat HTTP/1.1\r\n")
    assert found.stages == STREAM
    assert found.fact("stream.dialect")["name"] == "generic-ndjson"
    assert len(found.trace["events"]) == 3


def test_a_body_until_close_is_told_from_a_whole_one() -> None:
    page = head(200, "text/plain", chunked=False) + b"words"
    with ScriptedOrigin([ReadRequest(), page]) as origin:
        found = get(origin.url("/"))
    assert found.stages == PAGE
    assert found.fact("http.framing") == "until-close"
    assert found.marks("transport-end")[0]["detail"]["how"] == "fin"


def test_no_content_has_its_hops() -> None:
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    with ScriptedOrigin([ReadRequest(), empty]) as origin:
        found = get(origin.url("/"))
    assert found.stages == PAGE and found.fact("http.status") == 204
    assert found.report["latency"]["ttfb_ms"] is None
