"""One job a file: a Python file over 600 lines fails, one over 400 is named.

The limits are ARCHITECTURE.md's; the files their maintainers patch most are the long ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

AIM_LINES = 400
LIMIT_LINES = 600
TREES = ("promptpath", "reference_server", "tests", "benchmarks")


def long_files(root: Path, over_lines: int) -> Iterator[tuple[Path, int]]:
    """Every Python file of the project with more lines than that, and how many it has."""
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            lines = len(path.read_bytes().splitlines())
            if lines > over_lines:
                yield path.relative_to(root), lines


def main(root: Path) -> int:
    """Name the long files; 1 when one is over the limit."""
    too_long = False
    for path, lines in long_files(root, AIM_LINES):
        too_long |= lines > LIMIT_LINES
        verdict = "too long" if lines > LIMIT_LINES else "long"
        sys.stderr.write(
            f"{path}: {lines} lines, {verdict} (aim {AIM_LINES}, limit {LIMIT_LINES})\n"
        )
    return int(too_long)


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
