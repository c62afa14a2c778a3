"""Standard streams in a state no program likes: each in a process of its own, to be harmed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest


def run(code: str, harm: Callable[[], None] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a line with the module's names; `harm` is done just before."""
    line = f"from promptpath.cli.streams import *; import os, sys; {code}"
    command = [sys.executable, "-c", line]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    return subprocess.run(command, capture_output=True, timeout=30, preexec_fn=harm, env=buffered)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_closed_stream_is_opened_so_that_nothing_else_gets_its_number(number: int) -> None:
    code = (
        "open_standard_streams(); first = os.open('/', os.O_RDONLY);"
        " print('lost'); print('lost', file=sys.stderr); sys.stdin.read(); os._exit(first)"
    )
    done = run(code, lambda: os.close(number))
    assert done.returncode >= 3, done


def test_open_streams_are_left_alone() -> None:
    done = run("open_standard_streams(); print('out'); say('a', 'b')")
    assert (done.stdout, done.stderr) == (b"out\n", b"a\nb\n")


def test_what_stdout_could_not_take_is_forgotten() -> None:
    code = (
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 1); sys.stdout.write('x');"
        " discard_stdout(); sys.exit(5)"
    )
    done = run(code)
    assert (done.returncode, done.stderr) == (5, b"")


def test_saying_something_to_nobody_does_not_raise() -> None:
    done = run("r, w = os.pipe(); os.dup2(w, 2); os.close(w); os.close(r); say('x'); sys.exit(6)")
    assert done.returncode == 6
