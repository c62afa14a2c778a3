"""Streams that never end and peers that never answer: our limits end them, each by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, Run, hold_without_reading, openai_events, trace
from tests.peers.scripted import (
    HOLD,
    RST,
    Endless,
    ReadRequest,
    ScriptedOrigin,
    Step,
    chunk,
    head,
    sse_stream,
)

EVENT = openai_events(1)[1]
KEEPALIVE = b": keepalive\n\n"


def endless(data: bytes, gap_ms: float = 2.0) -> list[Step]:
    """A response that says the same for ever."""
    return [ReadRequest(), head(), Endless(chunk(data), gap_ms=gap_ms)]


def stopped(result: Run, limit: str) -> None:
    """Our limit ended it: exit 1 where a head came, the finding, and what came is kept."""
    assert result.code == 1, result.out + result.err
    assert result.report["end_state"] == "stopped-by-us"
    assert result.fact("limit")["name"] == limit
    assert result.trace["truncated"] == limit
    assert f"--{limit} was reached" in result.out
    assert result.advice("PP908")
    assert result.fact("http.end")["how"] == "cut-by-us"
    assert "wait" in result.stages()


def test_an_endless_stream_ends_at_the_timeout(tmp_path: Path) -> None:
    with ScriptedOrigin(endless(EVENT, 5)) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--timeout", "600ms", limit_s=10)
    stopped(result, "timeout")
    assert result.kinds().count("text") > 10
    assert result.report["cadence"]["events"] > 10
    assert 590 < result.report["latency"]["e2e_ms"] < 2_000


def test_an_endless_stream_ends_at_max_bytes(tmp_path: Path) -> None:
    with ScriptedOrigin(endless(EVENT, 0)) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--max-bytes", "50kB", limit_s=10)
    stopped(result, "max-bytes")
    assert result.kinds().count("text") >= 50_000 // len(EVENT) - 1
    reads = [a["size"] for a in result.trace["arrivals"] if a["layer"] == "segment-read"]
    body = sum(a["size"] for a in result.trace["arrivals"] if a["layer"] == "body")
    assert body <= 50_000 + max(reads), "more than the one read that passed the limit"


def test_keepalives_alone_do_not_keep_a_stream_from_the_idle_timeout(tmp_path: Path) -> None:
    good = [chunk(event) for event in openai_events(3)]
    keepalives = Endless(chunk(KEEPALIVE), gap_ms=20)
    with ScriptedOrigin([ReadRequest(), head(), *good, keepalives]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--idle-timeout", "300ms", limit_s=10)
    stopped(result, "idle-timeout")
    assert result.kinds().count("text") == 3
    assert result.kinds().count("comment") >= 5
    assert result.report["latency"]["e2e_ms"] < 2_000


def test_silence_in_the_middle_ends_at_the_idle_timeout(tmp_path: Path) -> None:
    good = [chunk(event) for event in openai_events(3)]
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--idle-timeout", "300ms", limit_s=10)
    stopped(result, "idle-timeout")
    assert result.kinds().count("text") == 3


def test_keepalives_before_any_token_end_at_the_first_token_timeout(tmp_path: Path) -> None:
    with ScriptedOrigin(endless(KEEPALIVE, 20)) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--first-token-timeout", "300ms", limit_s=10)
    stopped(result, "first-token-timeout")
    assert result.report["latency"]["ttft_ms"] is None
    assert result.report["latency"]["first_frame_ms"] is not None


@pytest.mark.parametrize("option", ["--first-token-timeout", "--timeout", "--idle-timeout"])
def test_a_peer_that_never_answers_ends_at_each_limit_and_is_unmeasured(
    tmp_path: Path, option: str
) -> None:
    with ScriptedOrigin([ReadRequest(), HOLD]) as origin:
        result = trace(tmp_path, origin.url(CHAT), option, "300ms", limit_s=10)
    assert result.code == 3, result.out
    assert result.fact("limit")["name"] == option.removeprefix("--")
    assert result.report["end_state"] == "no-response"
    assert result.stages() == ["dns", "tcp", "request", "wait"]
    assert "wait" in result.spans("timed-out")
    assert result.advice("PP908")
    assert f"{option} was reached" in result.out
    assert "No response after" in result.out


def test_an_upload_that_nobody_reads_ends_at_the_timeout(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 8_000_000 + b'"}')
    with ScriptedOrigin(hold_without_reading) as origin:
        options = ("--data", f"@{body}", "--timeout", "500ms")
        result = trace(tmp_path, origin.url(CHAT), *options, prompt=False, limit_s=10)
    body.unlink()
    assert result.code == 3
    assert "request" in result.spans("timed-out")
    assert result.stages()[:3] == ["dns", "tcp", "request"]
    assert result.advice("PP908")


def test_a_response_left_open_after_its_end_marker_does_not_hold_us(tmp_path: Path) -> None:
    good = [chunk(event) for event in openai_events(3, finish=True)]
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        result = trace(tmp_path, origin.url(CHAT), limit_s=10)
    assert result.code == 0
    assert result.report["end_state"] == "open-after-marker"
    assert "End the response" in result.advice("PP523")
    assert result.seconds < 6


def test_repeated_runs_keep_what_the_good_ones_measured(tmp_path: Path) -> None:
    good = sse_stream(openai_events(3, finish=True))
    with ScriptedOrigin(good, [ReadRequest(), RST], good) as origin:
        result = trace(tmp_path, origin.url(CHAT), "--repeat", "3")
    assert result.code == 3
    assert result.document is not None
    states = [run["report"]["end_state"] for run in result.document["runs"]]
    assert states == ["complete", "no-response", "complete"]
