"""Bytes that mean to harm: a terminal, a parser, memory."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

import pytest

from tests.bad_input.terminal import foreign_controls, on_a_terminal
from tests.bad_input.tool import CHAT, KEY, KEY_ENV, PROMPT, RSS_LIMIT_MIB, openai_events, trace
from tests.peers.scripted import (
    LAST_CHUNK,
    Endless,
    ReadRequest,
    ScriptedOrigin,
    Step,
    chunk,
    head,
    sse_stream,
)
from tests.peers.threaded import Connection

NASTY = "\x00\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\n\x7f"


def nasty_events() -> list[bytes]:
    """A whole answer whose every text field tries something."""

    def event(delta: dict[str, str], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        payload = {"id": NASTY, "model": NASTY, "choices": [choice], NASTY: NASTY}
        return b"data: " + json.dumps(payload).encode() + b"\n\n"

    texts = [event({"content": f"{NASTY}{index}"}) for index in range(3)]
    return [
        f": {NASTY}\n\n".replace("\r\n", "").encode(),
        b"x\x1b[2J: field\n",
        *texts,
        event({}, finish=NASTY),
        b"data: [DONE]\n\n",
    ]


HEADERS = (
    ("server", "ngi\x9bnx"),
    ("x-request-id", "\x9b2J\x85id"),
    ("server-timing", 'queue\x1b;dur=5;desc="\x9b", \x7f;dur=-1, a;dur=1e400, b;dur=nan'),
    ("via", "1.1 \x90evil"),
    ("alt-svc", 'h3="\x9b:443"; ma=x'),
)


@pytest.mark.parametrize("keep", [False, True], ids=["", "--keep-content"])
def test_control_characters_of_the_far_side_reach_no_pipe(tmp_path: Path, keep: bool) -> None:
    clean = tuple((name, value.replace("\x1b", "").replace("\x7f", "")) for name, value in HEADERS)
    script: list[Step] = [ReadRequest(), head(200, "text/event-stream", *clean)]
    script += [chunk(event) for event in nasty_events()] + [LAST_CHUNK]
    with ScriptedOrigin(script) as origin:
        options = ("--keep-content",) if keep else ()
        result = trace(tmp_path, origin.url(CHAT), *options)
    assert result.kinds().count("text") == 3
    assert result.report["end_state"] == "complete"
    report = (tmp_path / "report.md").read_text()
    assert not foreign_controls(report.replace("\r", "\x07"))
    raw = (tmp_path / "trace.json").read_bytes()
    assert not foreign_controls(raw.decode().replace("\r", "\x07")), "JSON escapes them"
    texts = [event.get("text") for event in result.trace["events"] if event["kind"] == "text"]
    assert texts == ([f"{NASTY}{index}" for index in range(3)] if keep else [None] * 3)


def test_control_characters_of_the_far_side_reach_no_terminal(tmp_path: Path) -> None:
    with ScriptedOrigin(sse_stream(nasty_events(), gap_ms=40)) as origin:
        options = ("--model", "m", "--key-env", KEY_ENV, "--prompt", PROMPT, "--keep-content")
        code, screen = on_a_terminal(
            tmp_path, "trace", origin.url(CHAT), *options, **{KEY_ENV: KEY}
        )
    assert code == 0, screen
    assert "name resolution" in screen
    assert foreign_controls(screen) == []
    assert KEY not in screen


def test_control_characters_of_a_failure_reach_no_terminal(tmp_path: Path) -> None:
    with ScriptedOrigin([ReadRequest(), f"SSH-{NASTY}\r\n".encode()]) as origin:
        code, screen = on_a_terminal(tmp_path, "trace", origin.url(CHAT), "--model", "m")
    assert code == 3, screen
    assert foreign_controls(screen) == []


@pytest.mark.parametrize(
    "data",
    [
        b'data: {"choices":[{"delta":{"content":"\xff\xfe\x80"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xf0\x9f\x98"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b"\xef\xbb\xbf\xff\xff\n\n",
        b"data: \xff\n\n",
    ],
    ids=["not UTF-8", "half a character", "half a surrogate pair", "a BOM and rubbish", "no JSON"],
)
@pytest.mark.parametrize("keep", [False, True], ids=["", "--keep-content"])
def test_invalid_utf_8_in_the_middle_is_no_end(tmp_path: Path, data: bytes, keep: bool) -> None:
    good = openai_events(2, finish=True)
    with ScriptedOrigin(sse_stream([good[0], data, *good[1:]])) as origin:
        options = ("--keep-content",) if keep else ()
        result = trace(tmp_path, origin.url(CHAT), *options)
    assert result.code in (0, 1)
    assert result.report["end_state"] == "complete"
    assert result.kinds().count("text") >= 2
    assert result.kinds()[-1] == "end"


def test_a_key_that_the_answer_repeats_is_not_kept(tmp_path: Path) -> None:
    event = {"choices": [{"delta": {"content": f"your key is {KEY}"}}]}
    events = [b"data: " + json.dumps(event).encode() + b"\n\n", b"data: [DONE]\n\n"]
    with ScriptedOrigin(sse_stream(events)) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--keep-content")
    assert result.trace["events"][0]["text"] == "your key is REDACTED"


def big_event(size: int) -> list[Step]:
    """One event of that size inside a good stream, in chunks of 1 MiB."""
    good = openai_events(2, finish=True)
    rest = b"a" * size
    start, end = b'data: {"choices":[{"delta":{"content":"', b'"}}]}\n\n'
    pieces = [chunk(rest[at : at + (1 << 20)]) for at in range(0, size, 1 << 20)]
    return [
        ReadRequest(),
        head(),
        chunk(good[0]),
        chunk(start),
        *pieces,
        chunk(end),
        *(chunk(event) for event in good[1:]),
        LAST_CHUNK,
    ]


def test_one_event_of_64_mb_is_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    with ScriptedOrigin(big_event(64_000_000)) as origin:
        # The event, its text, and one of the two once more, joined: three times 64 MB.
        result = trace(tmp_path, origin.url(CHAT), rss_mib=RSS_LIMIT_MIB + 200, limit_s=25)
    assert result.report["end_state"] == "complete"
    assert max(event["chars"] for event in result.trace["events"]) == 64_000_000
    assert (tmp_path / "trace.json").stat().st_size < 5_000_000


def test_an_event_beyond_all_measure_is_given_up_and_the_rest_is_read(tmp_path: Path) -> None:
    with ScriptedOrigin(big_event(100_000_000)) as origin:
        result = trace(tmp_path, origin.url(CHAT), rss_mib=250, limit_s=25)
    assert result.report["end_state"] == "complete"
    assert result.kinds().count("text") == 2


HEADS = {
    "a header that never ends": Endless(b"x-long: " + b"a" * 8_000),
    "headers that never end": Endless(b"x: 1\r\n" * 1000),
    "a status line that never ends": Endless(b"HTTP/1.1 200 " + b"a" * 8_000),
    "informational heads that never end": Endless(b"HTTP/1.1 103 Early\r\nx: 1\r\n\r\n" * 200),
}


@pytest.mark.parametrize("flood", HEADS.values(), ids=HEADS.keys())
def test_a_head_that_never_ends_is_given_up(tmp_path: Path, flood: Endless) -> None:
    first = b"" if flood.data.startswith(b"HTTP/") else b"HTTP/1.1 200 OK\r\n"
    with ScriptedOrigin([ReadRequest(), first, flood]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--timeout", "1s", limit_s=15)
    assert result.code == 3
    assert "PP509" in result.codes() or "PP908" in result.codes()
    assert (tmp_path / "trace.json").stat().st_size < 20_000_000


def gzip_stream(*pieces: bytes) -> list[Step]:
    """A chunked response in one gzip member, flushed after every piece."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    packed = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    coded = head(200, "text/event-stream", ("content-encoding", "gzip"))
    ending = [chunk(packer.flush()), LAST_CHUNK]
    return [ReadRequest(), coded, *(chunk(piece) for piece in packed), *ending]


def test_a_gzip_bomb_ends_at_max_bytes_in_bounded_memory(tmp_path: Path) -> None:
    # gzip members follow one another (RFC 1952, 2.2): 10 kB for every 10 MB, without an end.
    first, again = (gzip.compress(start + b"a" * 10_000_000) for start in (b"data: ", b""))
    coded = head(200, "text/event-stream", ("content-encoding", "gzip"))
    bomb = Endless(chunk(again * 10))
    with ScriptedOrigin([ReadRequest(), coded, chunk(first), bomb]) as origin:
        options = ("--accept-encoding", "gzip", "--max-bytes", "100MB")
        result = trace(tmp_path, origin.url(CHAT), *options, rss_mib=400, limit_s=25)
    assert result.code == 1
    assert "max-bytes" in result.out
    assert result.fact("http.content_decoder")["decoded_bytes"] <= 100_000_001


def test_a_gzip_stream_that_is_corrupt_keeps_what_came_before(tmp_path: Path) -> None:
    script = gzip_stream(*openai_events(3))
    with ScriptedOrigin([*script[:-2], chunk(b"\xff" * 100), LAST_CHUNK]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--accept-encoding", "gzip")
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert result.kinds().count("text") == 3
    assert result.fact("http.content_decoder")["error"]
    assert "corrupt" in result.out


def test_a_gzip_stream_that_is_cut_says_so(tmp_path: Path) -> None:
    script = gzip_stream(*openai_events(3, finish=True))
    with ScriptedOrigin([*script[:-2], LAST_CHUNK]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--accept-encoding", "gzip")
    assert result.kinds().count("text") == 3
    assert result.report["end_state"] == "complete", "the dialect's end marker came"
    assert "cut" in result.fact("http.content_decoder")["error"]


def test_a_coding_nobody_knows_is_said(tmp_path: Path) -> None:
    coded = head(200, "text/event-stream", ("content-encoding", "klingon\x9b"))
    with ScriptedOrigin([ReadRequest(), coded, chunk(b"\x00\x01\x02"), LAST_CHUNK]) as origin:
        result = trace(tmp_path, origin.url(CHAT))
    assert result.code == 1
    assert result.fact("http.content_decoder")["error"]
    assert "unknown content coding" in result.out


def test_what_is_sent_before_it_was_asked_for_is_no_answer(tmp_path: Path) -> None:
    def impatient(connection: Connection) -> None:
        connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        connection.wait_closed()

    with ScriptedOrigin(impatient) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--timeout", "2s", limit_s=10)
    assert result.code in (0, 1, 3)
