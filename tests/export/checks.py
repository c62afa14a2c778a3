"""Checks for the exporters' tests."""

from __future__ import annotations

from dataclasses import replace

from promptpath.analysis.budgets import Budget, BudgetName, BudgetVerdict, Keeping
from promptpath.analysis.check import CheckResult, Place, SeenFinding, TargetResult
from promptpath.model.document import Tool
from promptpath.model.enums import Severity
from tests.export.documents import HOSTILE, REPORT, document, trip

WORSE = f"{HOSTILE} ##[error]x\n::error::y ]]> \x00 \ud800 \ufffe &amp;"
"""Far-side text that would also begin a runner's command, or be no XML."""


def verdict(name: BudgetName, keeping: Keeping, because: str = "why") -> BudgetVerdict:
    """A verdict of one reason; 2 s are the limit of times, 1.5 s were measured."""
    timed = name.value.startswith(("max-", "min-"))
    budget = Budget(name=name, limit_ns=2_000_000_000 if timed else None)
    measured = 1500.0 if timed else None
    return BudgetVerdict(
        budget=budget,
        keeping=keeping,
        because=(because,),
        measured_ms=measured,
        low_ms=measured,
        high_ms=measured,
    )


def seen(
    code: str, severity: Severity, *, allowed: bool = False, text: str = "Held"
) -> SeenFinding:
    """A finding in one run of two."""
    found = replace(REPORT.findings[0], code=code, severity=severity, title=text, advice=text)
    return SeenFinding(finding=found, runs=(1,), of=2, allowed=allowed, answered=True)


def check(name: str = "chat", text: str = "why", *, strict: bool = False) -> CheckResult:
    """Three targets: one that fails in every way, one that is down, one without a fault."""
    failing = TargetResult(
        name=name,
        url="https://llm.example/v1/chat/completions",
        place=Place("ci/paths.toml", 7),
        document=document([trip()]),
        idle=None,
        problem=(),
        notes=(text,),
        budgets=(
            verdict(BudgetName.MAX_TTFT, Keeping.KEPT, text),
            verdict(BudgetName.REQUIRE_STREAMING, Keeping.BROKEN, text),
            verdict(BudgetName.MAX_HOLD, Keeping.INCONCLUSIVE, text),
        ),
        findings=(
            seen("PP412", Severity.ERROR, text=text),
            seen("PP411", Severity.ERROR, allowed=True, text=text),
            seen("PP419", Severity.WARNING, text=text),
            seen("PP527", Severity.INFO, text=text),
        ),
        strict=strict,
        interrupted=False,
    )
    down = replace(
        failing,
        name="down",
        place=None,
        document=None,
        problem=("stopped at tcp: refused", text),
        notes=(),
        budgets=(verdict(BudgetName.MAX_TTFT, Keeping.INCONCLUSIVE),),
        findings=(),
    )
    good = replace(failing, name="good", notes=(), budgets=failing.budgets[:1], findings=())
    tool = Tool(name="promptpath", version="0.0.0")
    return CheckResult(tool=tool, targets=(failing, down, good))
