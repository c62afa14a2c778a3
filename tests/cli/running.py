"""Runs the program as its users do: a process with arguments, its streams and its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a run left."""

    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    """The environment without what would change a run: proxies, keys, colours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.lower().endswith("_proxy") and not name.endswith("_API_KEY")
    }
    kept.pop("NO_COLOR", None)
    return {**kept, **changes}


def promptpath(*arguments: str, stdin: bytes = b"", **environ: str) -> Done:
    """Run `python -m promptpath` to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "promptpath", *arguments],
        input=stdin,
        capture_output=True,
        timeout=LIMIT_S,
        env=environment(**environ),
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())
