"""A check as the summary of a CI job, in Markdown. What the far side said is escaped."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.budgets import BudgetVerdict
from promptpath.analysis.check import CheckResult, TargetResult
from promptpath.export.check_words import budget_reasons, finding_reasons, finding_title
from promptpath.export.markdown import code, escape
from promptpath.model.enums import Severity
from promptpath.model.units import format_ms


def write(result: CheckResult) -> Iterator[bytes]:
    """The summary (CommonMark with GitHub's tables), UTF-8."""
    for line in _lines(result):
        yield line.encode("utf-8", "backslashreplace") + b"\n"


def _lines(result: CheckResult) -> Iterator[str]:
    yield f"## promptpath check: {escape(result.sentence)}"
    for target in result.targets:
        yield ""
        yield from _target(target)


def _target(target: TargetResult) -> Iterator[str]:
    yield f"### {escape(target.outcome)}: {code(target.name)}"
    if target.name != target.url:
        yield ""
        yield code(target.url)
    for line in (*target.notes, *target.problem):
        yield ""
        yield f"**{escape(line)}**"
    if target.budgets:
        yield ""
        yield "| budget | verdict | measured | because |"
        yield "|---|---|---:|---|"
        yield from (_row(verdict) for verdict in target.budgets)
    yield from _findings(target)


def _row(verdict: BudgetVerdict) -> str:
    value = verdict.measured_ms
    measured = "" if value is None else format_ms(value)
    because = escape("; ".join(budget_reasons(verdict)))
    return f"| {escape(verdict.budget.text)} | {verdict.keeping.value} | {measured} | {because} |"


def _findings(target: TargetResult) -> Iterator[str]:
    for seen in target.findings:
        if seen.finding.severity is Severity.INFO:
            continue
        graded = "allowed" if seen.allowed else seen.finding.severity.value
        yield ""
        yield f"- **{escape(finding_title(seen))}** ({graded})"
        for line in finding_reasons(seen):
            yield f"  - {escape(line)}"
