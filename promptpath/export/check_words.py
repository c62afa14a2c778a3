"""How the exporters of a check call things: one wording for JUnit, SARIF, Markdown and a terminal.

Reasons may quote the far side; all of it is printable here.
"""

from __future__ import annotations

from promptpath.analysis.budgets import BudgetVerdict
from promptpath.analysis.check import SeenFinding
from promptpath.model.redact import printable

ERROR_FAMILY = "could not be measured"


def budget_reasons(verdict: BudgetVerdict) -> list[str]:
    """What was measured, in lines."""
    return [printable(text) for text in verdict.because]


def finding_title(seen: SeenFinding) -> str:
    """Code and title."""
    return printable(f"{seen.finding.code} {seen.finding.title}")


def finding_reasons(seen: SeenFinding) -> list[str]:
    """Evidence, then what to do, in lines."""
    lines = [] if seen.of == 1 else [f"in {len(seen.runs)} of {seen.of} runs"]
    lines += [printable(evidence.text) for evidence in seen.finding.because]
    return [*lines, printable(seen.finding.advice)]
