"""`explain` of files that are no trace any more."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.bad_input.signals import TEXT, run_unchecked, when
from tests.bad_input.tool import CHAT, openai_events, run, trace
from tests.peers.scripted import HOLD, ReadRequest, ScriptedOrigin, chunk, head, sse_stream


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A good document."""
    directory = tmp_path_factory.mktemp("saved")
    with ScriptedOrigin(sse_stream(openai_events(3, finish=True))) as origin:
        assert trace(directory, origin.url(CHAT)).code == 0
    return (directory / "trace.json").read_bytes()


def explain(directory: Path, content: bytes, *options: str, rss_mib: float = 200) -> str:
    """What `explain` says on stderr about a file it must refuse."""
    place = directory / "file.json"
    place.write_bytes(content)
    result = run(directory, "explain", str(place), *options, rss_mib=rss_mib, limit_s=20)
    assert result.code == 2, result.out[:1000] + result.err
    assert result.out == ""
    assert result.err.startswith("error: ")
    assert "hint: " in result.err or "expected: " in result.err
    assert len(result.err) < 2_000
    return result.err


GARBAGE = {
    "nothing": b"",
    "no JSON": b"hello\x1b[2J",
    "another JSON": b'{"a": 1}',
    "a list": b"[1, 2]",
    "another schema": b'{"schema": "promptpath.report/9", "tool": {}}',
    "not UTF-8": b'{"schema": "\xff\xfe"}',
    "deep nesting": b"[" * 200_000,
    "a number out of range": b'{"schema": ' + b"9" * 5_000 + b"}",
    "a journal's head alone": b'{"schema":"promptpath.journal/1"}\n',
    "a journal of nonsense": b'{"schema":"promptpath.journal/1","clock":{},"plan":{}}\n[1]\n',
}


@pytest.mark.parametrize("content", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_file_that_is_no_trace_is_refused_in_words(tmp_path: Path, content: bytes) -> None:
    explain(tmp_path, content)


def test_a_document_that_was_cut_is_refused(tmp_path: Path, saved: bytes) -> None:
    explain(tmp_path, saved[: len(saved) // 2])


def test_a_document_with_a_wrong_value_is_refused_by_its_place(
    tmp_path: Path, saved: bytes
) -> None:
    document = json.loads(saved)
    document["runs"][0]["trace"]["spans"][0]["start_ns"] = "soon"
    assert "start_ns" in explain(tmp_path, json.dumps(document).encode())


def test_100_mb_of_garbage_are_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    started = time.monotonic()
    explain(tmp_path, os.urandom(1_000_000) * 100, rss_mib=300)
    assert time.monotonic() - started < 15


def test_100_mb_of_zeros_are_refused_in_bounded_time_and_memory(tmp_path: Path) -> None:
    explain(tmp_path, bytes(100_000_000), rss_mib=300)


def test_a_missing_file_a_directory_and_standard_input_are_told(tmp_path: Path) -> None:
    for name in (str(tmp_path / "missing.json"), str(tmp_path)):
        result = run(tmp_path, "explain", name)
        assert result.code == 2
        assert "cannot read" in result.err
        assert "hint: " in result.err
    result = run(tmp_path, "explain", "-", stdin=b"nonsense")
    assert result.code == 2


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a killed process leaves of a run that was in mid-stream."""
    directory = tmp_path_factory.mktemp("killed")
    good = [chunk(event) for event in openai_events(3)]
    left = directory / "trace.json.partial.ndjson"
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        command = ("trace", origin.url(CHAT), "--model", "m", "-o", str(directory / "trace.json"))
        killed = when(left, TEXT, signal.SIGKILL)
        assert run_unchecked(directory, *command, during=killed) == -signal.SIGKILL
    return left.read_bytes()


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_the_journal_of_a_killed_run_is_read_as_far_as_it_goes(
    tmp_path: Path, journal: bytes, cut: int
) -> None:
    place = tmp_path / "journal"
    place.write_bytes(journal[: len(journal) - cut])
    result = run(tmp_path, "explain", str(place))
    assert result.code in (0, 1), result.err
    assert "name resolution" in result.out
    assert "3 events" in result.out


def test_a_journal_cut_in_its_head_is_refused(tmp_path: Path, journal: bytes) -> None:
    explain(tmp_path, journal[:100])


def test_control_characters_in_a_strangers_document_reach_no_pipe(
    tmp_path: Path, saved: bytes
) -> None:
    nasty = "\x1b]0;owned\x07\x9b2J\u202e\x00"
    document = json.loads(saved)
    run_json = document["runs"][0]
    for fact in run_json["trace"]["facts"]:
        if isinstance(fact["value"], str):
            fact["value"] += nasty
        elif isinstance(fact["value"], dict):
            fact["value"] = {
                key: value + nasty if isinstance(value, str) else value
                for key, value in fact["value"].items()
            }
    for span in run_json["trace"]["spans"]:
        span["name"] += nasty
        span["error"] = nasty
    document["plan"]["url"] += nasty
    document["plan"]["model"] = nasty
    place = tmp_path / "evil"
    place.mkdir()
    (place / "evil.json").write_bytes(json.dumps(document).encode())
    result = run(tmp_path, "explain", str(place / "evil.json"))
    assert result.code in (0, 1, 2), result.err
    markdown = run(
        tmp_path, "explain", str(place / "evil.json"), "-o", str(tmp_path / "report.md"), "--json"
    )
    assert markdown.code == result.code


@pytest.mark.parametrize("content_type", ["text/event-stream", "application/x-ndjson", "nonsense"])
@pytest.mark.parametrize(
    "body", [b"", b"\x00\xff" * 1000, b"data: \x1b[2J{\n\n", b'{"a":' * 10_000], ids=str
)
def test_any_body_is_read_in_words(tmp_path: Path, body: bytes, content_type: str) -> None:
    place = tmp_path / "body"
    place.write_bytes(body)
    result = run(tmp_path, "explain", str(place), "--content-type", content_type)
    assert result.code in (0, 1, 2), result.err
