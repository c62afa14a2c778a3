"""Programs that come as wheels from PyPI, beside the Python that runs the tests."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.peers.programs import find
from tests.peers.require import unavailable


def require_wheel(program: str, package: str) -> str:
    """The program's path; without it the test skips with the line that installs the wheel."""
    beside = Path(sys.executable).parent / program
    path = str(beside) if beside.is_file() else find(program)
    if path is None:
        unavailable(f"{program} is not installed", f"pip install {package}")
    return path
