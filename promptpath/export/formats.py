"""Which exporter writes which file: one line a suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from promptpath.errors import UsageError
from promptpath.export import jsonfile, markdown
from promptpath.model.document import Document

Exporter = Callable[[Document], Iterator[bytes]]
"""A document as bytes, in pieces."""

BY_SUFFIX: dict[str, Exporter] = {
    ".json": jsonfile.write,
    ".md": markdown.write,
}


def exporter_for(name: str) -> Exporter:
    """The exporter for this file name. Raises UsageError for an unknown suffix."""
    suffix = PurePath(name).suffix.lower()
    exporter = BY_SUFFIX.get(suffix)
    if exporter is None:
        raise UsageError(
            f"no format for {name!r}",
            expected="a file name ending in " + ", ".join(BY_SUFFIX),
            hint="--json prints the document on standard output" if name == "-" else None,
        )
    return exporter
