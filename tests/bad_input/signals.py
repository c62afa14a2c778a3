"""Signals at a known point of a run: the journal says how far it has come."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bad_input.fork_server import Running
from tests.cli.running import environment

TEXT, END = '["event",0,', '["event",10,'
"""How the journal's lines of such events begin (the kinds by their number in enums.EventKind)."""
Interrupt = Callable[[Running], None]


def when(journal: Path, sign: str, number: signal.Signals = signal.SIGINT) -> Interrupt:
    """Sends the signal once the journal shows that the run has come so far."""

    def send(process: Running) -> None:
        deadline = time.monotonic() + 20
        while not (journal.exists() and sign in journal.read_text()):
            assert process.poll() is None, "it ended before it could be interrupted"
            assert time.monotonic() < deadline, f"never came to {sign!r}"
            time.sleep(0.01)
        process.send_signal(number)

    return send


def run_unchecked(directory: Path, *command: str, during: Interrupt) -> int:
    """The exit code, without the checks that hold only for runs that may end as they will."""
    with (directory / "stdout").open("wb") as out, (directory / "stderr").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "promptpath", *command],
            stdout=out,
            stderr=err,
            env=environment(),
        )
        try:
            during(process)
            return process.wait(20)
        finally:
            process.kill()
            process.wait()
