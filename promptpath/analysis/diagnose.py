"""From a trace to its report. Pure: the same trace gives the same report, byte for byte."""

from __future__ import annotations

from promptpath.analysis.hops import hops_of
from promptpath.analysis.latency import latency_of
from promptpath.analysis.milestones import milestones_ms
from promptpath.analysis.rules import judge_all
from promptpath.analysis.server import server_report
from promptpath.analysis.verdicts import verdicts_of
from promptpath.analysis.view import Measured, measure
from promptpath.errors import ExitCode
from promptpath.model.enums import EndState, Severity
from promptpath.model.plan import PlanRecord
from promptpath.model.report import Finding, Report
from promptpath.model.trace import Trace


def diagnose(trace: Trace, plan: PlanRecord) -> Report:
    """What the trace means, judged against the plan's budgets. Never raises for a trace that
    `model.codec` could read, however strange."""
    measured = measure(trace, plan)
    findings = judge_all(measured)
    return Report(
        hops=hops_of(measured),
        milestones=milestones_ms(measured.instants, measured.breakdown.t0_ns),
        latency=latency_of(measured),
        cadence=measured.rhythm.cadence if measured.rhythm else None,
        server=server_report(measured.facts, measured.reported),
        instrument=measured.instrument,
        end_state=measured.end_state,
        verdicts=verdicts_of(measured),
        findings=findings,
        exit_code=int(exit_code(measured, findings)),
    )


def exit_code(measured: Measured, findings: tuple[Finding, ...]) -> ExitCode:
    """ARCHITECTURE.md, "Exit codes": interrupted, then unmeasured, then an error finding (a
    broken budget is one), else 0."""
    if measured.limit == "interrupt":
        return ExitCode.INTERRUPTED
    if measured.end_state is EndState.NO_RESPONSE:
        return ExitCode.UNMEASURED
    if any(finding.severity is Severity.ERROR for finding in findings):
        return ExitCode.FINDING
    return ExitCode.OK
