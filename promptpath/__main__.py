"""`python -m promptpath` is the same program as `promptpath`."""

from __future__ import annotations

import sys

from promptpath.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
