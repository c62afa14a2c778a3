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


QLOG_VERSIONS = ("1", "0.3")
"""--qlog-version: the current schema, and the one that qvis reads."""


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


def exporter_for(name: str, qlog_version: str = "1") -> Exporter:
    """The exporter for this file name. Raises UsageError for an unknown suffix or version."""
    module = BY_SUFFIX[suffix_of(name)]
    check_qlog_version(name, qlog_version)
    if module.endswith("qlog") and qlog_version == "0.3":
        module = "promptpath.export.qlog03"
    return cast(Exporter, import_module(module).write)


def check_qlog_version(name: str, version: str) -> None:
    """Raises UsageError for a version there is not, or not for this file."""
    if version not in QLOG_VERSIONS:
        raise UsageError(
            f"no qlog version {version!r}",
            expected=" or ".join(QLOG_VERSIONS),
            where="--qlog-version",
        )
    if version != "1" and suffix_of(name) == ".sqlog":
        raise UsageError(
            "qlog 0.3 has no text sequence",
            expected="a file name ending in .qlog",
            where="--qlog-version",
        )
