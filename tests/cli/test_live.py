from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from promptpath.cli.live import View
from promptpath.model.codec import encode_row
from promptpath.model.log import Row
from tests.cli.running import environment
from tests.cli.test_live_model import rows_of_a_trip
from tests.peers.scripted import ScriptedOrigin, sse_stream

PATIENCE_S = 20.0


def text_of(view: View, width: int = 80) -> str:
    return "\n".join(line.plain for line in view.draw(width).renderables)  # type: ignore[union-attr]


def fed(rows: list[Row]) -> View:
    view = View()
    for row in [["run", 0, "cold"], *rows]:
        view.take(encode_row(row))
    return view


def test_the_drawing_has_the_shape_of_the_trip() -> None:
    lines = text_of(fed(rows_of_a_trip())).splitlines()
    assert lines[0].startswith("run 1 (cold)")
    names = [line[:27].strip() for line in lines[1:]]
    assert names[:5] == [
        "name resolution",
        "TCP connect",
        "TLS handshake",
        "request upload",
        "wait for the first token",
    ]
    assert lines[6].startswith("─── first token at ")
    assert lines[-1].startswith("20 events, ")
    assert all(len(line) <= 80 for line in lines)


def test_an_open_hop_is_marked() -> None:
    rows = rows_of_a_trip()
    first_event = next(number for number, row in enumerate(rows) if row[0] == "event")
    assert "wait for the first token …" in text_of(fed(rows[:first_event]))


def test_a_new_run_begins_anew() -> None:
    view = fed(rows_of_a_trip())
    view.take(encode_row(["run", 1, "warm"]))
    assert text_of(view).startswith("run 2 (warm)")
    assert "name resolution" not in text_of(view)


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b'["event"]', b'["event",99,0,0,0]', b"5", b'["run"]', b"\xff"]
)
def test_a_broken_line_is_passed_over(line: bytes) -> None:
    view = View()
    view.take(line)
    text_of(view)


@contextmanager
def running() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The view as a process on a terminal of its own, and the other end of that terminal."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "promptpath.cli.live"],
        stdin=subprocess.PIPE,
        stderr=theirs,
        env=environment(TERM="xterm", COLUMNS="80", LINES="30"),
    )
    os.close(theirs)
    try:
        yield child, ours
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
        os.close(ours)


def read_until(fd: int, wanted: bytes) -> bytes:
    """What the terminal shows until `wanted` comes."""
    seen = b""
    while wanted not in seen and select.select([fd], [], [], PATIENCE_S)[0]:
        try:
            seen += os.read(fd, 65536)
        except OSError:  # the other end has closed
            break
    return seen


@pytest.mark.slow
def test_a_trace_on_a_terminal_is_drawn_while_it_runs_and_shown_at_the_end() -> None:
    stream = sse_stream([b"data: a\n\n", b"data: b\n\n", b"data: c\n\n"], gap_ms=400)
    ours, theirs = pty.openpty()
    with ScriptedOrigin(stream) as origin:
        child = subprocess.Popen(
            [sys.executable, "-m", "promptpath", "trace", origin.url("/"), "--proxy", "none"],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm", COLUMNS="80", LINES="40"),
        )
        os.close(theirs)
        seen = read_until(ours, b"whole trip never comes")  # to the end
        assert child.wait(PATIENCE_S) == 0
    os.close(ours)
    drawn, _, final = seen.rpartition(b"\x1b[?25h")  # the view gives the cursor back as it ends
    assert b"run 1 (cold)" in drawn and b"wait for the first token" in drawn
    assert b"run 1 (cold)" not in final and b"total" in final


@pytest.mark.slow
def test_the_process_draws_ignores_ctrl_c_and_ends_with_its_input() -> None:
    with running() as (child, terminal):
        assert child.stdin is not None
        child.stdin.write(b"".join(map(encode_row, [["run", 0, "cold"], *rows_of_a_trip()])))
        child.stdin.flush()
        assert b"TLS handshake" in read_until(terminal, b"TLS handshake")
        child.send_signal(signal.SIGINT)
        child.stdin.write(encode_row(["run", 1, "warm"]))
        child.stdin.flush()
        assert b"run 2 (warm)" in read_until(terminal, b"run 2 (warm)")
        child.stdin.close()
        assert child.wait(PATIENCE_S) == 0
