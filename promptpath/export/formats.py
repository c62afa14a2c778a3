"""Which exporter writes which file: one line a suffix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, cast

from promptpath.errors import UsageError

if TYPE_CHECKING:  # the report's types are not needed to check a name before t0
    from promptpath.model.document import Document

Exporter = Callable[["Document"], Iterator[bytes]]
"""A document as bytes, in pieces."""

BY_SUFFIX: dict[str, str] = {
    ".json": "promptpath.export.jsonfile",
    ".md": "promptpath.export.markdown",
    ".qlog": "promptpath.export.qlog",
    ".sqlog": "promptpath.export.sqlog",
}
"""Modules with a `write`; imported only to write, for a file's name is checked before t0."""


def suffix_of(name: str) -> str:
    """The suffix that names the file's format. Raises UsageError for an unknown one."""
    suffix = PurePath(name).suffix.lower()
    if suffix not in BY_SUFFIX:
        raise UsageError(
            f"no format for {name!r}",
            expected="a file name ending in " + ", ".join(BY_SUFFIX),
            hint="--json prints the document on standard output" if name == "-" else None,
        )
    return suffix


def exporter_for(name: str) -> Exporter:
    """The exporter for this file name. Raises UsageError for an unknown suffix."""
    return cast(Exporter, import_module(BY_SUFFIX[suffix_of(name)]).write)
