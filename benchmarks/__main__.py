"""All benchmarks, one process each, one after the other; fails when one missed a bar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ALL = (
    "framer",
    "startup",
    "oneshot",
    "accuracy",
    "curl_phases",
    "memory",
    "scheduler",
    "gateway",
    "h3",
    "quic",
    "engine",
)


def main(names: list[str]) -> int:
    """Run those named, or all; 1 when one missed a bar or broke."""
    missed = []
    for name in names or ALL:
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        if subprocess.run(command, cwd=Path(__file__).parents[1]).returncode:
            missed.append(name)
    print("\nall bars met" if not missed else f"\nbars missed in: {', '.join(missed)}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
