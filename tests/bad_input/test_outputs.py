"""Results that cannot be written where they should: before t0 when that is known, else in words."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, openai_events, run, trace
from tests.cli.running import environment
from tests.peers.scripted import HOLD, ScriptedOrigin, sse_stream

STREAM = sse_stream(openai_events(3, finish=True))


@pytest.mark.parametrize(
    "place", ["missing/trace.json", ".", "/proc/version.json", "/dev/full/x.md"]
)
def test_an_output_that_cannot_be_written_is_refused_before_any_packet(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "sub").mkdir()
    with ScriptedOrigin([HOLD]) as origin:
        command = ("trace", origin.url(CHAT), "--model", "m", "-o", str(tmp_path / "sub" / place))
        result = run(tmp_path, *command)
        assert origin.connections == []
    assert result.code == 2
    assert "hint: " in result.err
    assert result.out == ""


def test_an_output_that_is_a_directory_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "results.json"
    place.mkdir()
    with ScriptedOrigin([HOLD]) as origin:
        result = run_without_files(tmp_path, origin, str(place))
        assert origin.connections == []
    assert result.returncode == 2
    assert b"irectory" in result.stderr
    assert b"hint: " in result.stderr


def run_without_files(
    directory: Path, origin: ScriptedOrigin, output: str
) -> subprocess.CompletedProcess[bytes]:
    """A run whose outputs the test names itself."""
    command = ["trace", origin.url(CHAT), "--model", "m", "-o", output]
    return subprocess.run(
        [sys.executable, "-m", "promptpath", *command],
        capture_output=True,
        timeout=30,
        env=environment(),
        cwd=directory,
    )


def test_a_refused_run_leaves_no_empty_files_and_keeps_older_ones(tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("precious")
    command = ("trace", "http://127.0.0.1:1" + CHAT, "--model", "m", "-o", str(old))
    result = run(tmp_path, *command, "-o", str(tmp_path / "missing" / "new.md"))
    assert result.code == 2
    assert old.read_text() == "precious"


def test_a_disk_that_fills_up_leaves_the_journal_and_a_hint(tmp_path: Path) -> None:
    # A file may not grow beyond 20 kB: the journal fits, the document with two texts does not.
    with ScriptedOrigin(sse_stream(openai_events(200, finish=True))) as origin:
        done = limited_run(tmp_path, origin.url(CHAT), file_bytes=20_000)
    assert done.returncode in (1, 2)
    assert b"Traceback" not in done.stderr
    assert b"cannot write" in done.stderr
    assert b"hint: " in done.stderr


def limited_run(
    directory: Path, url: str, *, file_bytes: int
) -> subprocess.CompletedProcess[bytes]:
    """A run whose files may not grow beyond a size (setrlimit(2), RLIMIT_FSIZE)."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))

    command = ["trace", url, "--model", "m", "-o", str(directory / "trace.json")]
    return subprocess.run(
        [sys.executable, "-m", "promptpath", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=30,
        env=environment(),
        preexec_fn=limit,
    )


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_leaves_early_ends_us_quietly(tmp_path: Path, options: list[str]) -> None:
    with ScriptedOrigin(STREAM) as origin:
        command = [sys.executable, "-m", "promptpath", "trace", origin.url(CHAT), "--model", "m"]
        place = tmp_path / "trace.json"
        with subprocess.Popen(
            [*command, *options, "-o", str(place)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            process.stdout.close()
            errors = process.stderr.read()
            code = process.wait(30)
    assert code == 0
    assert errors == b""
    assert place.stat().st_size > 1_000, "the file is written all the same"


def test_head_takes_one_byte_and_leaves(tmp_path: Path) -> None:
    with ScriptedOrigin(STREAM) as origin:
        script = f'"{sys.executable}" -m promptpath trace {origin.url(CHAT)} --model m | head -c 1'
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, timeout=30, env=environment(), cwd=tmp_path
        )
    assert done.returncode == 0
    assert len(done.stdout) == 1
    assert done.stderr == b""


def close(*numbers: int) -> Callable[[], None]:
    """For preexec_fn: the descriptors are not there when the program starts."""

    def do() -> None:
        for number in numbers:
            os.close(number)

    return do


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)], ids=str)
def test_closed_standard_streams_do_no_harm(tmp_path: Path, closed: tuple[int, ...]) -> None:
    place = tmp_path / "trace.json"
    with ScriptedOrigin(STREAM) as origin:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "promptpath", "trace", origin.url(CHAT)),
                *("--model", "m", "-o", str(place)),
            ],
            capture_output=True,
            timeout=30,
            env=environment(),
            preexec_fn=close(*closed),
        )
        assert len(origin.requests) == 1
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stdout + done.stderr
    assert place.stat().st_size > 1_000


def test_a_full_standard_output_is_said_and_the_file_is_kept(tmp_path: Path) -> None:
    place = tmp_path / "trace.json"
    with ScriptedOrigin(STREAM) as origin, open("/dev/full", "wb") as full:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "promptpath", "trace", origin.url(CHAT)),
                *("--model", "m", "-o", str(place)),
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=30,
            env=environment(),
        )
    assert done.returncode == 2
    assert b"standard output" in done.stderr
    assert b"Traceback" not in done.stderr
    assert place.stat().st_size > 1_000


def test_a_locale_without_unicode_gets_escapes(tmp_path: Path) -> None:
    with ScriptedOrigin(STREAM) as origin:
        result = trace(
            tmp_path, origin.url(CHAT), PYTHONIOENCODING="ascii", LC_ALL="C", PYTHONUTF8="0"
        )
    assert result.code == 0
    assert result.out.isascii()
