"""Ctrl-C at every stage: exit 130, and what was measured until then is written."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.fork_server import Running
from tests.bad_input.signals import END, TEXT, run_unchecked, when
from tests.bad_input.test_names_and_sockets import black_hole
from tests.bad_input.tool import CHAT, Run, hold_without_reading, openai_events, run, trace
from tests.cli.running import environment
from tests.peers.scripted import HOLD, ReadRequest, ScriptedOrigin, chunk, head, sse_stream


def interrupted(directory: Path, url: str, *options: str, sign: str, prompt: bool = True) -> Run:
    """A run that is interrupted when its journal has `sign`; checked for what always holds."""
    journal = directory / "trace.json.partial.ndjson"
    result = trace(directory, url, *options, limit_s=25, prompt=prompt, during=when(journal, sign))
    assert result.code == 130, result.out + result.err
    assert result.trace["truncated"] == "interrupted"
    assert result.fact("limit")["name"] == "interrupt"
    assert "PP909" in result.codes()
    assert "interrupted" in result.out
    assert all(span["end_ns"] is not None for span in result.trace["spans"]), "a span is open"
    return result


@contextlib.contextmanager
def silent_resolver() -> Iterator[str]:
    """A port that takes queries and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def test_while_the_name_is_resolved(tmp_path: Path) -> None:
    with silent_resolver() as resolver:
        url = f"http://www.promptpath.test:1{CHAT}"
        result = interrupted(tmp_path, url, "--resolver", resolver, sign='"query"')
    assert result.spans("cancelled") == {"dns"}
    assert result.stages() == ["dns"]


def test_while_connecting(tmp_path: Path) -> None:
    with black_hole() as port:
        result = interrupted(tmp_path, f"http://127.0.0.1:{port}{CHAT}", sign='"connect"')
    assert "tcp" in result.spans("cancelled")
    assert result.stages() == ["dns", "tcp"]


def test_while_shaking_hands(tmp_path: Path) -> None:
    with ScriptedOrigin([HOLD]) as origin:
        url = f"https://{origin.authority}{CHAT}"
        result = interrupted(tmp_path, url, sign='"handshake"')
    assert "tls" in result.spans("cancelled")
    assert result.stages() == ["dns", "tcp", "tls"]


def test_while_a_proxy_opens_the_tunnel(tmp_path: Path) -> None:
    with ScriptedOrigin([HOLD]) as proxy:
        options = ("--proxy", f"http://{proxy.authority}")
        result = interrupted(tmp_path, f"https://localhost:1{CHAT}", *options, sign='"tunnel"')
    assert "proxy" in result.spans("cancelled")


def test_while_the_prompt_is_uploaded(tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_bytes(b'{"model": "m", "filler": "' + b"a" * 8_000_000 + b'"}')
    with ScriptedOrigin(hold_without_reading) as origin:
        options = ("--data", f"@{body}")
        result = interrupted(tmp_path, origin.url(CHAT), *options, sign='"upload"', prompt=False)
    body.unlink()
    assert "request" in result.spans("cancelled")
    assert "wait" not in result.stages()


def test_while_the_head_is_waited_for(tmp_path: Path) -> None:
    with ScriptedOrigin([ReadRequest(), HOLD]) as origin:
        result = interrupted(tmp_path, origin.url(CHAT), sign='"response"')
    assert "wait" in result.spans("cancelled")
    assert result.report["latency"]["headers_ms"] is None


def test_in_the_middle_of_the_stream(tmp_path: Path) -> None:
    good = [chunk(event) for event in openai_events(3)]
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        result = interrupted(tmp_path, origin.url(CHAT), sign=TEXT)
    assert result.kinds().count("text") == 3
    assert result.report["latency"]["ttft_ms"] is not None
    assert result.report["end_state"] == "stopped-by-us"


def test_with_the_end_marker_seen_and_the_response_left_open(tmp_path: Path) -> None:
    good = [chunk(event) for event in openai_events(3, finish=True)]
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        result = interrupted(tmp_path, origin.url(CHAT), sign=END)
    assert result.kinds()[-1] == "end"


def test_between_repeated_runs_the_finished_ones_are_kept(tmp_path: Path) -> None:
    good = sse_stream(openai_events(3, finish=True))
    journal = tmp_path / "trace.json.run2.partial.ndjson"
    with ScriptedOrigin(good, [ReadRequest(), HOLD]) as origin:
        options = ("--repeat", "3")
        result = trace(
            tmp_path, origin.url(CHAT), *options, limit_s=25, during=when(journal, '"response"')
        )
    assert result.code == 130
    assert result.document is not None
    states = [one["report"]["end_state"] for one in result.document["runs"]]
    assert states == ["complete", "no-response"]


def test_json_on_stdout_is_whole_after_an_interrupt(tmp_path: Path) -> None:
    with ScriptedOrigin([ReadRequest(), HOLD]) as origin:
        result = interrupted_json(tmp_path, origin.url(CHAT))
    document = json.loads(result.out)
    assert document["summary"]["exit_code"] == 130
    assert document["runs"][0]["trace"]["truncated"] == "interrupted"


def interrupted_json(directory: Path, url: str) -> Run:
    """As `interrupted`, with the document on stdout as well."""
    journal = directory / "trace.json.partial.ndjson"
    return trace(directory, url, "--json", limit_s=25, during=when(journal, '"response"'))


def test_sigterm_is_an_interrupt_too(tmp_path: Path) -> None:
    terminate = when(tmp_path / "trace.json.partial.ndjson", '"response"', signal.SIGTERM)
    with ScriptedOrigin([ReadRequest(), HOLD]) as origin:
        result = trace(tmp_path, origin.url(CHAT), limit_s=25, during=terminate)
    assert result.code == 130
    assert result.trace["truncated"] == "interrupted"


@pytest.mark.parametrize("pause_s", [0.0, 0.05])
def test_a_second_interrupt_ends_at_once_and_leaves_the_journal_or_the_document(
    tmp_path: Path, pause_s: float
) -> None:
    journal = tmp_path / "trace.json.partial.ndjson"
    first = when(journal, TEXT)

    def twice(process: Running) -> None:
        first(process)
        time.sleep(pause_s)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)

    good = [chunk(event) for event in openai_events(3)]
    with ScriptedOrigin([ReadRequest(), head(), *good, HOLD]) as origin:
        command = ("trace", origin.url(CHAT), "--model", "m", "-o", str(tmp_path / "trace.json"))
        code = run_unchecked(tmp_path, *command, during=twice)
    assert code in (130, -signal.SIGINT)
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    document = tmp_path / "trace.json"
    written = document.exists() and document.stat().st_size > 0
    assert written or journal.exists(), "everything that was measured is lost"
    kept = tmp_path / "kept"
    kept.mkdir()
    again = run(kept, "explain", str(document if written else journal))
    assert again.code in (0, 1, 130)
    assert "3 events" in again.out


def test_while_the_program_is_being_loaded(tmp_path: Path) -> None:
    slow = 'import time\nprint("loading", flush=True)\ntime.sleep(20)\n'
    (tmp_path / "typer.py").write_text(slow)
    with subprocess.Popen(
        [sys.executable, "-m", "promptpath", "trace"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(PYTHONPATH=str(tmp_path)),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=10)
    assert process.returncode == -signal.SIGINT, "which a shell reports as 130"
    assert errors == b""
