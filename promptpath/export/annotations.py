"""Annotations of GitHub Actions: workflow commands, one line a failing budget or finding
(docs.github.com, "Workflow commands for GitHub Actions")."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.budgets import Keeping
from promptpath.analysis.check import CheckResult, TargetResult
from promptpath.export.check_words import (
    ERROR_FAMILY,
    budget_reasons,
    finding_reasons,
    finding_title,
)
from promptpath.model.enums import Severity
from promptpath.model.redact import printable

MOST = 10
"""GitHub shows ten errors and ten warnings a step (its documentation, "Annotations limits")."""


def write(result: CheckResult) -> Iterator[str]:
    """The lines, errors first, without what GitHub would not show."""
    for level in ("error", "warning"):
        lines = [line for target in result.targets for line in _lines(target, level)]
        yield from lines[:MOST]


def _lines(target: TargetResult, level: str) -> Iterator[str]:
    if level == "error" and target.problem:
        yield _command(level, target, ERROR_FAMILY, " ".join(target.problem))
    for verdict in target.budgets:
        undecided = verdict.keeping is Keeping.INCONCLUSIVE
        if level == ("error" if target.fails(verdict) else "warning" if undecided else ""):
            text = f"{verdict.keeping.value}: {'; '.join(budget_reasons(verdict))}"
            yield _command(level, target, verdict.budget.text, text)
    for seen in target.findings:
        warns = seen.finding.severity is Severity.WARNING and not seen.allowed
        if level == ("error" if seen.fails else "warning" if warns else ""):
            text = "; ".join(finding_reasons(seen))
            yield _command(level, target, finding_title(seen), text)


def _command(level: str, target: TargetResult, title: str, message: str) -> str:
    properties = {"title": f"{target.name}: {title}"}
    if target.place is not None:
        properties = {"file": target.place.file, "line": str(target.place.line), **properties}
    joined = ",".join(f"{name}={escape_property(value)}" for name, value in properties.items())
    return f"::{level} {joined}::{escape_data(message)}"


def escape_data(text: str) -> str:
    """A message, as actions/toolkit's command.ts escapes it. "##[" would begin a command of the old
    form anywhere in a line."""
    text = printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return text.replace("##[", "# #[")


def escape_property(text: str) -> str:
    """A property's value."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")
