"""Puts a result on standard output: JSON, a drawing for a terminal, or plain text."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

from promptpath.cli.streams import discard_stdout
from promptpath.errors import UsageError
from promptpath.export import jsonfile
from promptpath.export.terminal import render
from promptpath.model.document import Document

PLAIN_WIDTH = 80
"""Columns of plain text: what a ticket, a mail and an old terminal show without wrapping."""


def show(document: Document, *, as_json: bool, no_color: bool, explain: bool = False) -> None:
    """Print the document; `explain` adds a sentence for each hop to the text.

    Raises BrokenPipeError when nobody reads.
    """
    if as_json:
        write_bytes(jsonfile.write(document))
        return
    color = wants_color(sys.stdout, no_color=no_color)
    width = terminal_width() if sys.stdout.isatty() else PLAIN_WIDTH
    write_text(render(document, width=width, color=color, explain=explain))


def wants_color(stream: TextIO, *, no_color: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether to draw: a terminal that can, and nobody said no (no-color.org)."""
    if no_color or environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return utf8 and stream.isatty()


def terminal_width() -> int:
    """Columns of the terminal; 80 when it does not say."""
    return shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns


def write_text(text: str) -> None:
    """Write text; what the encoding lacks is escaped, never an error."""
    encoding = sys.stdout.encoding or "utf-8"
    write_bytes([text.encode(encoding, "backslashreplace")])


def write_bytes(pieces: Iterable[bytes]) -> None:
    """Write bytes to standard output and flush, so that a closed pipe shows here.

    Raises BrokenPipeError when nobody reads, UsageError when it cannot be written (a full disk).
    """
    try:
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_stdout()
        raise UsageError(
            f"cannot write to standard output: {error.strerror}",
            hint="free some space, or send it elsewhere; -o FILE is written all the same",
        ) from error
