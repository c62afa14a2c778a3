"""What a user names as input, a file or standard input, read up to a bound."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO, Final

from promptpath.errors import UsageError

MIB: Final = 1024 * 1024
MAX_BODY_BYTES: Final = 256 * MIB
"""A request body. Our own bound, the one --max-bytes has by default for a response: a device or a
pipe without an end is an error, not a full memory."""
MAX_SAVED_BYTES: Final = 1024 * MIB
"""A saved trace or body. Our own bound, far above what a run of 256 MiB leaves."""
MAX_TEXT_BYTES: Final = 16 * MIB
"""A text to cut into tokens. Our own bound: each token takes a line of the table."""


def read_input(name: str, limit: int, *, where: str | None = None, hint: str) -> bytes:
    """The bytes of the file `name`, or of standard input for `-`.

    Raises UsageError when it cannot be read (with `where` and `hint`) or is longer than `limit`.
    """
    try:
        if name == "-":
            return _read(sys.stdin.buffer, name, limit, where)
        with Path(name).open("rb") as file:
            return _read(file, name, limit, where)
    except OSError as error:
        raise UsageError(
            f"cannot read {_said(name)}: {error.strerror}", where=where, hint=hint
        ) from error


def _read(file: BinaryIO, name: str, limit: int, where: str | None) -> bytes:
    raw = file.read(limit + 1)
    if len(raw) > limit:
        raise UsageError(
            f"{_said(name)} is too large", expected=f"at most {limit // MIB} MiB", where=where
        )
    return raw


def _said(name: str) -> str:
    return "standard input" if name == "-" else repr(name)
