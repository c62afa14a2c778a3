"""Runs the program on a pseudo-terminal, as a person does, and judges what reaches the screen."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.running import environment

_OURS = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[[0-9]*[ABGK]|\x1b\[2K"  # the live view draws over its own lines
    r"|\x1b\[\?25[lh]"  # and hides the cursor meanwhile
)
"""What our own drawing may send."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def on_a_terminal(directory: Path, *command: str, **environ: str) -> tuple[int, str]:
    """The exit code, and all that reached the terminal."""
    leader, follower = pty.openpty()
    log = directory / "screen"
    process = subprocess.Popen(
        [sys.executable, "-m", "promptpath", *command],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=follower,
        env=environment(TERM="xterm-256color", **environ),
        start_new_session=True,
    )
    os.close(follower)
    screen = b""
    with contextlib.suppress(OSError):  # EIO: the last writer is gone
        while data := os.read(leader, 65_536):
            screen += data
    os.close(leader)
    log.write_bytes(screen)
    return process.wait(30), screen.decode()


def foreign_controls(screen: str) -> list[str]:
    """Control characters on the screen that our own drawing did not send."""
    return _CONTROL.findall(_OURS.sub("", screen))
