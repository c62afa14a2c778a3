"""`promptpath serve`: becomes the reference server, so that signals and output are its own."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def run(arguments: list[str]) -> NoReturn:
    """Serve with these arguments."""
    become_server(arguments)


def become_server(arguments: list[str]) -> NoReturn:
    """Replace this process by `python -m reference_server` with these arguments.

    -P keeps the current folder off the module path: only the installed server is meant.
    """
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-P", "-m", "reference_server", *arguments])
