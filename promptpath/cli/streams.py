"""The three standard streams, whatever state the caller left them in."""

from __future__ import annotations

import os
import sys
from typing import TextIO

_NAMES = ("stdin", "stdout", "stderr")


def open_standard_streams() -> None:
    """Give a closed standard stream (`>&-`) a place that takes everything.

    Otherwise the next socket or file would get its number, and what is printed would go there.
    """
    for number, name in enumerate(_NAMES):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def discard_stdout() -> None:
    """From now on standard output goes nowhere."""
    _discard(sys.stdout)


def say(*lines: str) -> None:
    """Lines on standard error. Nobody may be reading it any more; that is no reason to stop."""
    try:
        print("\n".join(lines), file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def _discard(stream: TextIO) -> None:
    """Python would complain once more when it flushes at exit what could not be written."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
