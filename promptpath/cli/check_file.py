"""A budget file: several targets, each with its own budgets, under the names of the options.

    [defaults]
    repeat = 3

    [[target]]
    name = "chat, production"
    url = "https://llm.example/v1/chat/completions"
    max-ttft = "2s"

A wrong key, type or unit is a UsageError that names the line.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from promptpath.cli.check_options import BudgetOptions
from promptpath.cli.options import DialOptions, PromptOptions
from promptpath.errors import UsageError
from promptpath.model.redact import printable, redact_url

MAX_BYTES = 1_000_000
"""A budget file is typed by people."""
DEFAULTS, TARGET = "defaults", "target"
_TEXT = "a string"
_WITH_UNIT = 'a string, a time with its unit: "2s"'


@dataclass(frozen=True, slots=True)
class FileTarget:
    """One [[target]]: its options by field name, [defaults] included."""

    name: str
    line: int
    values: Mapping[str, Any] = field(repr=False)
    key_lines: Mapping[str, int]
    """Where each of its keys stands, in the table or in [defaults]."""

    def line_of(self, text: str) -> int:
        """The line of the first option that this text of an error names ("--max-ttft"), else the
        target's own."""
        named = re.findall(r"--([\w-]+)", text)
        return next((self.key_lines[key] for key in named if key in self.key_lines), self.line)


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of the file, and where it is."""

    file: str
    lines: tuple[str, ...]
    index: int | None
    """Which [[target]], from 0; None: [defaults]."""

    @property
    def title(self) -> str:
        return "[defaults]" if self.index is None else f"[[target]] number {self.index + 1}"

    def line(self, key: str | None = None) -> int:
        """The line (from 1) of a key of this table, or of its header."""
        inside, seen, header = False, -1, 1
        wanted = re.compile(rf"""\s*["']?{re.escape(key or "")}["']?\s*[=.]""")
        for number, text in enumerate(self.lines, start=1):
            head = re.match(r"\s*\[+\s*([\w-]+)\s*\]+", text)
            if head:
                seen += head[1] == TARGET
                inside = head[1] == (DEFAULTS if self.index is None else TARGET)
                inside = inside and self.index in (None, seen)
                header = number if inside else header
            elif inside and key is not None and wanted.match(text):
                return number
        return header

    def error(
        self,
        what: str,
        key: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> UsageError:
        """A UsageError at that line."""
        where = printable(f"{self.file}, line {self.line(key)}, {self.title}")
        return UsageError(printable(what), expected=expected, where=where, hint=hint)


def load(name: str) -> list[FileTarget]:
    """The targets of a budget file. Raises UsageError."""
    text = _read(name)
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(
            printable(f"{name!r} is no TOML: {error}"), hint="see docs/commands/check.md"
        ) from error
    lines = tuple(text.splitlines())
    for key in document:
        if key not in (DEFAULTS, TARGET):
            raise UsageError(
                printable(f"unknown table or key {key!r}"),
                expected="[defaults] and [[target]]",
                where=printable(f"{name}, line {_top_line(lines, key)}"),
            )
    return _targets(name, lines, document)


def _read(name: str) -> str:
    try:
        with Path(name).open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise UsageError(f"{name!r} is too large", expected=f"at most {MAX_BYTES} bytes")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UsageError(
            f"cannot read {name!r}: {error.strerror}", hint="check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name!r} is no TOML: it is not UTF-8") from error


def _top_line(lines: tuple[str, ...], key: str) -> int:
    form = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}\b""")
    return next((n for n, text in enumerate(lines, start=1) if form.match(text)), 1)


def _targets(name: str, lines: tuple[str, ...], document: dict[str, Any]) -> list[FileTarget]:
    table = _Table(name, lines, None)
    defaults = document.get(DEFAULTS, {})
    targets = document.get(TARGET, [])
    if not isinstance(defaults, dict):
        raise table.error("defaults is no table", DEFAULTS, "[defaults]")
    if not isinstance(targets, list) or not all(isinstance(item, dict) for item in targets):
        raise UsageError("target is no list of tables", expected="[[target]]", where=name)
    if not targets:
        raise UsageError("no target", expected="a [[target]] with a url", where=name)
    common = _values(table, defaults, own=())
    shared_lines = {key: table.line(key) for key in defaults}
    found: list[FileTarget] = []
    for index, item in enumerate(targets):
        table = _Table(name, lines, index)
        values = {**common, **_values(table, item, own=("name", "url"))}
        title = values.pop("name", None) or _name_of(values.get("url"), index)
        if "url" not in values and "curl" not in values:
            raise table.error("no url", expected='url = "https://..."')
        if any(title == other.name for other in found):
            raise table.error(f"a second target is called {title!r}", "name", "names of their own")
        lines_of = {**shared_lines, **{key: table.line(key) for key in item}}
        found.append(FileTarget(title, table.line(), values, lines_of))
    return found


def _name_of(url: str | None, index: int) -> str:
    """Of a target without a name: its URL, without what may be secret in it."""
    return f"target {index + 1}" if url is None else redact_url(url)


def _values(table: _Table, raw: dict[str, Any], own: tuple[str, ...]) -> dict[str, Any]:
    """The table by field name, each value of its option's type."""
    kinds = {**dict.fromkeys(own, str), **option_kinds()}
    found: dict[str, Any] = {}
    for key, value in raw.items():
        kind = kinds.get(key)
        if kind is None:
            close = _close(key, kinds)
            hint = f"did you mean {close}?" if close else "keys are options without the dashes"
            raise table.error(f"unknown key {key!r}", key, hint=hint)
        expected = _wrong(value, kind, timed=key.startswith(("max-", "min-")))
        if expected and key != "max-tokens":
            raise table.error(f"bad value of {key}", key, expected)
        if key == "max-tokens" and (type(value) is not int or value < 1):
            raise table.error(f"bad value of {key}", key, "a whole number, 1 or more")
        found[key.replace("-", "_")] = value
    return found


def option_kinds() -> dict[str, Any]:
    """The keys a target may have, beside name and url, with the type of each: str, list, bool or
    int."""
    kinds: dict[str, Any] = {}
    for options in (BudgetOptions, DialOptions, PromptOptions):
        hints = get_type_hints(options)
        for item in fields(options):
            hint = hints[item.name]
            plain = next((t for t in (bool, int, str) if hint in (t, t | None)), list)
            kinds[item.name.replace("_", "-")] = plain
    return kinds


def _wrong(value: object, kind: type, *, timed: bool) -> str | None:
    """What was expected instead; None when the value fits."""
    if kind is list:
        fits = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return None if fits else "a list of strings"
    if kind is int:
        return None if type(value) is int and value >= 1 else "a whole number, 1 or more"
    if kind is bool:
        return None if isinstance(value, bool) else "true or false"
    return None if isinstance(value, str) else (_WITH_UNIT if timed else _TEXT)


def _close(key: str, known: Mapping[str, Any]) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(key.replace("_", "-"), list(known), n=1)
    return found[0] if found else None
