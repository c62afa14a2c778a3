"""What a rule is tested with: a trip that fires it and one, as near as can be, that must not."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.analysis.diagnose import diagnose
from promptpath.model.plan import PlanRecord
from promptpath.model.report import Finding
from tests.analysis.build import PLAN, TraceBuilder


@dataclass(frozen=True, slots=True)
class Case:
    """`fires` must give the finding `code`, `quiet` must not."""

    code: str
    fires: TraceBuilder
    quiet: TraceBuilder
    plan: PlanRecord = PLAN
    says: str = ""
    """A piece of the evidence, where its numbers matter."""

    def __str__(self) -> str:
        return self.code


def finding(case: Case, trip: TraceBuilder) -> Finding | None:
    """The finding of the case's code in that trip's report."""
    report = diagnose(trip.build(), case.plan)
    return next((found for found in report.findings if found.code == case.code), None)


def check(case: Case) -> None:
    """The rule fires on one, says what it rests on, and keeps quiet on the other."""
    found = finding(case, case.fires)
    assert found is not None, f"{case.code} did not fire"
    assert found.because
    assert all(evidence.text for evidence in found.because)
    assert case.says in " ".join(evidence.text for evidence in found.because)
    assert finding(case, case.quiet) is None, f"{case.code} fired on its near miss"
