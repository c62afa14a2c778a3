"""The files of -o: made before t0, written once the document is there, kept whole on a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from promptpath.errors import UsageError
from promptpath.export.formats import check_qlog_version, exporter_for, suffix_of
from promptpath.model.log import Row

if TYPE_CHECKING:
    from promptpath.model.document import Document

JOURNAL_SUFFIX = ".partial.ndjson"
"""Of the journal beside a .json output while it is measured."""


class ResultFile:
    """A file for a result: seen to be writable before t0, left as it was if nothing is written."""

    def __init__(self, name: str, option: str = "-o") -> None:
        """Check that the file can be written. Raises UsageError."""
        self.name = name
        self._option = option
        self._path = Path(name)
        try:
            self._created = not self._path.exists()
            # Appending nothing creates the file and leaves an older one as it is.
            with self._path.open("ab"):
                pass
        except OSError as error:
            raise UsageError(
                f"cannot write {name!r}: {error.strerror}",
                hint=f"choose another place with {option} FILE",
            ) from error

    def write_pieces(self, pieces: Iterable[bytes], *, append: bool = False) -> None:
        """Write them. Raises UsageError when the disk says no after all."""
        try:
            with self._path.open("ab" if append else "wb") as file:
                file.writelines(pieces)
        except OSError as error:
            raise UsageError(
                f"cannot write {self.name!r}: {error.strerror}",
                hint=f"free some space or choose another place with {self._option} FILE",
            ) from error

    def forget(self) -> None:
        """Remove the file if it was made here and nothing was ever written to it."""
        with contextlib.suppress(OSError):
            if self._created and self._path.stat().st_size == 0:
                self._path.unlink()


class Output(ResultFile):
    """One -o file."""

    def __init__(self, name: str, qlog_version: str = "1") -> None:
        """Check the format and that the file can be written. Raises UsageError."""
        suffix_of(name)
        check_qlog_version(name, qlog_version)
        self._qlog_version = qlog_version
        super().__init__(name)

    def write(self, document: Document) -> None:
        """Write the document. Raises UsageError when the disk says no after all."""
        self.write_pieces(exporter_for(self.name, self._qlog_version)(document))


class Journal:
    """The rows of each run on disk as they come: `explain` reads them after a crash.

    The first run's file is NAME.partial.ndjson, the others' NAME.runN.partial.ndjson. A full disk
    ends the journal, not the measurement.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._file: BinaryIO | None = None
        self._paths: list[Path] = []

    def begin(self, index: int, kind: str, head: bytes) -> None:
        """Begin the file of this run."""
        self.close()
        number = f".run{index + 1}" if index else ""
        path = Path(f"{self._name}{number}{JOURNAL_SUFFIX}")
        with contextlib.suppress(OSError):
            self._file = path.open("wb", buffering=0)
            self._paths.append(path)
            self._file.write(head)

    def write(self, batch: Iterable[tuple[Row, bytes]]) -> None:
        """Append the lines."""
        if self._file is None:
            return
        try:
            self._file.write(b"".join(line for _, line in batch))
        except OSError:
            self.close()

    def discard(self) -> None:
        """The document is written: the journal is not needed any more."""
        self.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                path.unlink()

    def close(self) -> None:
        """Stop writing; the file stays."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def journal_for(outputs: Iterable[Output]) -> Journal | None:
    """The journal beside the first .json output; None when there is none."""
    name = next((out.name for out in outputs if out.name.lower().endswith(".json")), None)
    return None if name is None else Journal(name)
