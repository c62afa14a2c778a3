from __future__ import annotations

import json
from pathlib import Path

import pytest

from promptpath.cli.main import run
from tests.cli.test_explain import STREAM

SSE = ["--content-type", "text/event-stream"]


def explained(
    body: bytes, tmp_path: Path, capfd: pytest.CaptureFixture[str], *more: str
) -> tuple[int, str]:
    file = tmp_path / "body"
    file.write_bytes(body)
    code = run(["explain", str(file), *(SSE if "--content-type" not in more else ()), *more])
    return code, capfd.readouterr().out


def test_a_whole_stream_is_told_without_times(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out = explained(STREAM, tmp_path, capfd)
    said = {line[:12].strip(): line[12:] for line in out.splitlines()}
    assert code == 0
    assert said["dialect"] == "openai-chat (by payload)"
    assert said["finish"] == "stop" and said["model"] == "m"
    assert said["end"] == "with its end marker"
    assert "ms" not in out


def test_a_cut_stream_is_exit_code_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out = explained(STREAM[:-40], tmp_path, capfd)
    assert code == 1 and "bytes of an unfinished event" in out
    code, out = explained(STREAM.replace(b"data: [DONE]\n\n", b""), tmp_path, capfd)
    assert code == 1 and "without its end marker" in out


def test_an_error_in_the_stream_is_exit_code_1_and_harmless_to_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = b'data: {"error":{"type":"overloaded","message":"busy \\u001b[31m"}}\n\n'
    code, out = explained(body, tmp_path, capfd, "--dialect", "openai-chat")
    assert code == 1 and "overloaded" in out and "\x1b" not in out


def test_json_has_the_same(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, out = explained(STREAM, tmp_path, capfd, "--json")
    said = json.loads(out)
    assert code == 0 and said["schema"] == "promptpath.body/1"
    assert (said["dialect"], said["marker_seen"], said["finish"]) == ("openai-chat", True, "stop")
    assert "log" not in said


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe\x00", b"<html><title>Hi</title>", b"{}", b"\n" * 99]
)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/x-ndjson", "text/html", "x"])
def test_no_body_breaks_it(
    body: bytes, kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code, out = explained(body, tmp_path, capfd, "--content-type", kind)
    assert code in (0, 1) and out.startswith("body ")
