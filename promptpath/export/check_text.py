"""A check as plain text: each target, its budgets, and what failed with its cure."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.budgets import Keeping
from promptpath.analysis.check import CheckResult, TargetResult
from promptpath.export.check_words import budget_reasons, finding_reasons, finding_title
from promptpath.model.enums import Severity
from promptpath.model.redact import printable

_MARKS = {Keeping.KEPT: "ok", Keeping.BROKEN: "!!", Keeping.INCONCLUSIVE: "??"}


def render(result: CheckResult) -> str:
    """The check for a person; lines of a job's log too, so nothing in it begins a command there."""
    lines = [line for target in result.targets for line in _target(target)]
    text = "".join(f"{line}\n" for line in [*lines, result.sentence])
    return text.replace("##[", "# #[")


def _target(target: TargetResult) -> Iterator[str]:
    name = printable(target.name)
    yield f"{target.outcome}: {name}" + ("" if name == target.url else f" ({target.url})")
    for line in (*target.notes, *target.problem):
        yield f"    {printable(line)}"
    for verdict in target.budgets:
        first, *more = budget_reasons(verdict) or [""]
        yield f"  {_MARKS[verdict.keeping]} {verdict.budget.text}: {verdict.keeping.value}; {first}"
        yield from (f"       {line}" for line in more)
    for seen in target.findings:
        if seen.finding.severity is Severity.INFO:
            continue
        mark = "!!" if seen.fails else "ok" if seen.allowed else "  "
        graded = "allowed" if seen.allowed else seen.finding.severity.value
        yield f"  {mark} {finding_title(seen)} ({graded})"
        if not seen.allowed:
            yield from (f"       {line}" for line in finding_reasons(seen))
    yield ""
