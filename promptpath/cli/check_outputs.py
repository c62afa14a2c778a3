"""Where a check's result goes: files, standard output, and GitHub when it runs there."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module

from promptpath.analysis.check import CheckResult
from promptpath.cli.check_options import CheckOptions
from promptpath.cli.outputs import ResultFile
from promptpath.cli.show import write_bytes, write_text
from promptpath.cli.streams import say
from promptpath.errors import UsageError

Writer = Callable[[CheckResult], Iterable[bytes]]

_FILES = {
    "junit": "promptpath.export.junit",
    "sarif": "promptpath.export.sarif",
    "markdown": "promptpath.export.check_markdown",
}
"""Options that name a file, each with the module that writes it."""


class CheckOutputs:
    """The places of one check, seen to be writable before t0."""

    def __init__(self, options: CheckOptions, environ: Mapping[str, str] = os.environ) -> None:
        """Open them. Raises UsageError."""
        self._json = options.json
        self._annotates = environ.get("GITHUB_ACTIONS") == "true"
        self._files: dict[str, ResultFile] = {}
        for name in _FILES:
            file = getattr(options, name)
            if file is not None:
                self._files[name] = ResultFile(file, f"--{name}")
        summary = environ.get("GITHUB_STEP_SUMMARY")
        self._summary = ResultFile(summary, "GITHUB_STEP_SUMMARY") if summary else None

    def write(self, result: CheckResult) -> None:
        """Everything to its place; where one refuses, the others still get theirs, then UsageError
        is raised."""
        unwritten: list[UsageError] = []
        for name, file in self._files.items():
            _try(unwritten, file, _writer(_FILES[name])(result))
        if self._summary is not None:
            _try(unwritten, self._summary, _writer(_FILES["markdown"])(result), append=True)
        self._print(result)
        if unwritten:
            raise unwritten[0]

    def _print(self, result: CheckResult) -> None:
        from promptpath.export import annotations, check_json, check_text

        if self._json:
            write_bytes(check_json.write(result))
        else:
            write_text(check_text.render(result))
        if self._annotates:
            # The runner reads both streams of a step; standard output may hold the JSON document.
            say(*annotations.write(result))

    def forget(self) -> None:
        """Remove what was made and never written."""
        for file in self._files.values():
            file.forget()


def _writer(module: str) -> Writer:
    writer: Writer = import_module(module).write
    return writer


def _try(
    unwritten: list[UsageError], file: ResultFile, pieces: Iterable[bytes], *, append: bool = False
) -> None:
    try:
        file.write_pieces(pieces, append=append)
    except UsageError as error:
        unwritten.append(error)
