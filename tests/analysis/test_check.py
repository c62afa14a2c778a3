from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.analysis.budgets import Budget, BudgetName, BudgetVerdict, Keeping
from promptpath.analysis.check import CheckResult, TargetResult, seen_findings
from promptpath.model.document import Run, Tool
from promptpath.model.enums import EndState, Severity
from promptpath.model.report import Finding
from tests.export.documents import REPORT, document, trip

TARGET = TargetResult(
    name="chat",
    url="https://llm.example/",
    place=None,
    document=None,
    idle=None,
    problem=(),
    notes=(),
    budgets=(),
    findings=(),
    strict=False,
    interrupted=False,
)


def finding(code: str, severity: Severity) -> Finding:
    return replace(REPORT.findings[0], code=code, severity=severity)


def runs(*findings: tuple[Finding, ...]) -> list[Run]:
    trace = document([trip()]).runs[0].trace
    return [Run(trace=trace, report=replace(REPORT, findings=found)) for found in findings]


def verdict(keeping: Keeping) -> BudgetVerdict:
    budget = Budget(name=BudgetName.REQUIRE_STREAMING)
    return BudgetVerdict(budget=budget, keeping=keeping, because=())


BAD, ODD = finding("PP412", Severity.ERROR), finding("PP100", Severity.WARNING)


@pytest.mark.parametrize(
    ("target", "outcome", "code"),
    [
        (TARGET, "passed", 0),
        (replace(TARGET, budgets=(verdict(Keeping.BROKEN),)), "failed", 1),
        (replace(TARGET, budgets=(verdict(Keeping.INCONCLUSIVE),)), "passed", 0),
        (replace(TARGET, budgets=(verdict(Keeping.INCONCLUSIVE),), strict=True), "failed", 1),
        (replace(TARGET, findings=seen_findings(runs((BAD,)), frozenset())), "failed", 1),
        (replace(TARGET, findings=seen_findings(runs((BAD,)), frozenset({"PP412"}))), "passed", 0),
        (replace(TARGET, findings=seen_findings(runs((ODD,)), frozenset())), "passed", 0),
        (replace(TARGET, problem=("down",), budgets=(verdict(Keeping.BROKEN),)), "unmeasured", 3),
        (replace(TARGET, problem=("down",), interrupted=True), "interrupted", 130),
    ],
)
def test_a_targets_exit_code(target: TargetResult, outcome: str, code: int) -> None:
    assert (target.outcome, target.exit_code) == (outcome, code)


def test_the_worst_target_decides_for_all() -> None:
    down, failed = (
        replace(TARGET, problem=("x",)),
        replace(TARGET, budgets=(verdict(Keeping.BROKEN),)),
    )
    tool = Tool(name="promptpath", version="0")
    assert CheckResult(tool=tool, targets=(TARGET, failed)).exit_code == 1
    both = CheckResult(tool=tool, targets=(TARGET, failed, down))
    assert both.exit_code == 3
    assert both.sentence == "3 targets: 1 passed, 1 failed, 1 unmeasured"


def test_a_finding_is_seen_once_with_the_runs_it_fired_in_and_its_worst_grade() -> None:
    mild = replace(BAD, severity=Severity.WARNING)
    found = seen_findings(runs((mild, ODD), (), (BAD,)), frozenset())
    assert [(seen.finding, seen.runs, seen.of) for seen in found] == [
        (BAD, (0, 2), 3),
        (ODD, (0,), 3),
    ]


def test_why_nothing_was_measured_is_no_failure_of_the_target() -> None:
    (run,) = runs((BAD,))
    silent = replace(run, report=replace(run.report, end_state=EndState.NO_RESPONSE))
    assert [seen.fails for seen in seen_findings([silent], frozenset())] == [False]
    assert [seen.fails for seen in seen_findings([silent, run], frozenset())] == [True]
