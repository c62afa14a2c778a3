"""`promptpath model pull`: fetch the bundled server's default model, once."""

from __future__ import annotations

from promptpath.cli.serve import become_server
from promptpath.errors import UsageError


def run(arguments: list[str]) -> int:
    """Become the reference server's own `pull`. Raises UsageError for anything else."""
    if arguments[:1] in (["--help"], ["-h"]):
        become_server(["pull", "--help"])
    if arguments[:1] != ["pull"]:
        raise UsageError(
            f"unknown: model {arguments[0]}" if arguments else "model needs one word more",
            expected="promptpath model pull [--wheel FILE]",
        )
    become_server(arguments)
