"""HTTP/2 streams that break, over clear text with prior knowledge and over TLS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, Run, openai_events, trace, trusting
from tests.peers.certs import Certificates
from tests.peers.scripted import CUT, FIN, HOLD, RST, Close, ScriptedOrigin, Wait
from tests.peers.scripted_h2 import (
    AwaitHead,
    AwaitRequest,
    Data,
    ErrorCodes,
    Goaway,
    H2Step,
    Headers,
    Raw,
    Reset,
    ScriptedH2Origin,
)

GOOD: Sequence[H2Step] = [
    AwaitRequest(),
    Headers(200),
    *(Data(event) for event in openai_events(3)),
    Wait(30),
]
PARTIAL = b'data: {"choices":[{"delta":{"content":"cut'
WHOLE: Sequence[H2Step] = [
    *GOOD,
    Data(b"".join(openai_events(0, finish=True)), end=True),
]


def ask(directory: Path, origin: ScriptedH2Origin, *options: str) -> Run:
    """Trace it with prior knowledge."""
    return trace(directory, origin.url(CHAT), "--http", "2", *options)


def kept(result: Run) -> None:
    """The three events that came are in the document."""
    assert result.kinds().count("text") == 3
    assert result.report["latency"]["ttft_ms"] is not None
    assert result.fact("http.version") == "2"


@pytest.mark.parametrize(
    "code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.CANCEL, ErrorCodes.NO_ERROR]
)
def test_a_stream_reset_in_the_middle_is_cut_and_names_the_code(
    tmp_path: Path, code: ErrorCodes
) -> None:
    with ScriptedH2Origin([*GOOD, Data(PARTIAL), Reset(code), HOLD]) as origin:
        result = ask(tmp_path, origin)
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert {"PP510", "PP521"} <= result.codes()
    assert "INTERNAL_ERROR" in result.advice("PP510")
    assert f"reset with code {int(code)}" in result.out
    kept(result)


def test_a_clean_end_over_a_cut_stream_is_still_a_cut_stream(tmp_path: Path) -> None:
    with ScriptedH2Origin([*GOOD, Data(PARTIAL, end=True), HOLD]) as origin:
        result = ask(tmp_path, origin)
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert result.fact("http.end")["complete"] is True
    assert result.fact("stream.end")["pending_bytes"] == len(PARTIAL)
    kept(result)


@pytest.mark.parametrize("how", [FIN, CUT, RST], ids=lambda how: how.value)
def test_a_connection_that_ends_in_the_middle_is_a_cut_stream(
    tmp_path: Path, certs: Certificates, how: Close
) -> None:
    script = [*GOOD, Data(PARTIAL), Wait(30), how]
    tls = certs.good.server_context(alpn=("h2",))
    with ScriptedH2Origin(script, tls=tls) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs))
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert ("PP511" in result.codes()) == (how is RST)
    kept(result)


def test_goaway_that_lets_the_stream_finish_is_no_error(tmp_path: Path) -> None:
    with ScriptedH2Origin([*GOOD, Goaway(), *WHOLE[len(GOOD) :], HOLD]) as origin:
        result = ask(tmp_path, origin)
    assert result.code == 0, result.out
    assert result.report["end_state"] == "complete"
    assert any(mark["name"] == "goaway" for mark in result.trace["marks"])
    kept(result)


def test_goaway_with_an_error_and_a_close_is_named(tmp_path: Path) -> None:
    script = [*GOOD, Goaway(ErrorCodes.ENHANCE_YOUR_CALM), Wait(30), FIN]
    with ScriptedH2Origin(script) as origin:
        result = ask(tmp_path, origin)
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    assert "PP510" in result.codes()
    assert f"goaway with code {int(ErrorCodes.ENHANCE_YOUR_CALM)}" in result.out
    kept(result)


@pytest.mark.parametrize(
    "steps",
    [
        [AwaitRequest(), Goaway(last_stream=0), FIN],
        [AwaitRequest(), Reset(ErrorCodes.REFUSED_STREAM), HOLD],
        [AwaitRequest(), FIN],
        [AwaitRequest(), RST],
    ],
    ids=["goaway", "refused stream", "FIN", "RST"],
)
def test_an_end_before_the_head_stops_at_wait(tmp_path: Path, steps: Sequence[H2Step]) -> None:
    with ScriptedH2Origin(steps) as origin:
        result = ask(tmp_path, origin, "--timeout", "5s")
    result.failed_at("wait")
    assert "PP509" in result.codes()


BROKEN = {
    "an unknown frame of the largest size": b"\xff\xff\xff\x7f\x00\x00\x00\x00\x01" + b"x" * 100,
    "DATA on stream 0": b"\x00\x00\x01\x00\x00\x00\x00\x00\x00x",
    "a window of 0": b"\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x00",
    "SETTINGS of odd length": b"\x00\x00\x05\x04\x00\x00\x00\x00\x00" + b"x" * 5,
    "HPACK garbage": b"\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff",
    "clear text": b"HTTP/1.1 400 Bad Request\r\n\r\n\x1b[2J",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_frame_ends_the_response_and_nothing_else(tmp_path: Path, data: bytes) -> None:
    with ScriptedH2Origin([*GOOD, Raw(data), Wait(20), FIN]) as origin:
        result = ask(tmp_path, origin, "--timeout", "5s")
    assert result.code == 1
    assert result.report["end_state"] == "truncated"
    kept(result)


def test_an_http_1_server_asked_in_http_2_is_recognised(tmp_path: Path) -> None:
    bad = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"
    with ScriptedOrigin([bad]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--http", "2")
    hint = result.failed_at("wait")
    assert "--http 1.1" in hint
    assert "HTTP/1.1" in result.out


def test_a_window_smaller_than_the_prompt_stalls_the_upload_and_is_named(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    # The window a connection begins with is 65,535 bytes (RFC 9113, 6.9.2).
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 200_000 + b'"}')
    with ScriptedH2Origin(WHOLE) as origin:
        options = ("--http", "2", "--data", f"@{body}")
        result = trace(tmp_path, origin.url(CHAT), *options, prompt=False)
        assert len(origin.requests[0].body) == body.stat().st_size
    body.unlink()
    assert result.code == 0, result.out
    assert result.report["end_state"] == "complete"
    assert any(mark["name"] == "window-stall" for mark in result.trace["marks"])


def test_a_window_that_never_opens_ends_at_the_timeout(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    # The window a connection begins with is 65,535 bytes (RFC 9113, 6.9.2).
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 200_000 + b'"}')
    script: list[H2Step] = [AwaitHead(), HOLD]
    with ScriptedH2Origin(script, grant_window=False) as origin:
        options = ("--http", "2", "--data", f"@{body}", "--timeout", "700ms")
        result = trace(tmp_path, origin.url(CHAT), *options, prompt=False, limit_s=10)
    body.unlink()
    assert result.code == 3
    assert "request" in result.spans("timed-out")
    assert result.advice("PP908")
    assert "PP211" in result.codes()
    assert "wait" not in result.stages(), "the request never left: nobody was waited for"
