"""What a check says: each target's budgets and findings, and the exit code of all together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.analysis.budgets import BudgetVerdict, Keeping
from promptpath.analysis.summary import worst_exit_code
from promptpath.errors import ExitCode
from promptpath.model.document import Document, Run, Tool
from promptpath.model.enums import EndState, Severity
from promptpath.model.report import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFinding:
    """A finding of a target, with the runs it fired in."""

    finding: Finding
    """As the first of these runs has it."""
    runs: tuple[int, ...]
    """Their indexes."""
    of: int
    """How many runs there were."""
    allowed: bool
    """--allow names it."""
    answered: bool
    """It fired in a run that somebody responded to; the others' are why nothing was measured."""

    @property
    def fails(self) -> bool:
        """An error that nobody allows. By its own rule an error is proven: one run is enough."""
        return self.answered and self.finding.severity is Severity.ERROR and not self.allowed


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target stands in a budget file."""

    file: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetResult:
    """One target, judged."""

    name: str
    url: str
    """Redacted."""
    place: Place | None
    document: Document | None
    """What was measured; None when it was not asked at all."""
    idle: Document | None
    """The idle pass, where min-idle is a budget."""
    problem: tuple[str, ...]
    """Why it could not be measured, in lines; empty when it could."""
    notes: tuple[str, ...]
    """What a person should know: fewer runs than asked for, say."""
    budgets: tuple[BudgetVerdict, ...]
    findings: tuple[SeenFinding, ...]
    strict: bool
    interrupted: bool

    @property
    def failing_budgets(self) -> list[BudgetVerdict]:
        """Those that make the check fail: broken, and with --strict inconclusive ones."""
        return [verdict for verdict in self.budgets if self.fails(verdict)]

    @property
    def failing_findings(self) -> list[SeenFinding]:
        """Those that make the check fail."""
        return [seen for seen in self.findings if seen.fails]

    def fails(self, verdict: BudgetVerdict) -> bool:
        """Whether this budget makes the check fail."""
        if verdict.keeping is Keeping.INCONCLUSIVE:
            return self.strict
        return verdict.keeping is Keeping.BROKEN

    @property
    def exit_code(self) -> int:
        """ARCHITECTURE.md, "Exit codes"."""
        if self.interrupted:
            return int(ExitCode.INTERRUPTED)
        if self.problem:
            return int(ExitCode.UNMEASURED)
        failed = self.failing_budgets or self.failing_findings
        return int(ExitCode.FINDING if failed else ExitCode.OK)

    @property
    def outcome(self) -> str:
        """passed | failed | unmeasured | interrupted."""
        words = {0: "passed", 1: "failed", 3: "unmeasured", 130: "interrupted"}
        return words[self.exit_code]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """All targets of one command."""

    tool: Tool
    targets: tuple[TargetResult, ...]

    @property
    def exit_code(self) -> int:
        """Interrupted before unmeasured before failed."""
        return worst_exit_code(target.exit_code for target in self.targets)

    @property
    def sentence(self) -> str:
        """All targets in a line."""
        outcomes = [target.outcome for target in self.targets]
        counts = [
            f"{outcomes.count(word)} {word}"
            for word in ("passed", "failed", "unmeasured", "interrupted")
            if word in outcomes
        ]
        some = "1 target" if len(outcomes) == 1 else f"{len(outcomes)} targets"
        return f"{some}: {', '.join(counts)}"


def seen_findings(runs: Sequence[Run], allowed: frozenset[str]) -> tuple[SeenFinding, ...]:
    """The findings of all runs, one a code, worst first."""
    first: dict[str, Finding] = {}
    where: dict[str, list[int]] = {}
    for index, run in enumerate(runs):
        for finding in run.report.findings:
            where.setdefault(finding.code, []).append(index)
            known = first.setdefault(finding.code, finding)
            if finding.severity is Severity.ERROR and known.severity is not Severity.ERROR:
                first[finding.code] = finding  # a graded rule: the worst grade counts
    silent = {i for i, r in enumerate(runs) if r.report.end_state is EndState.NO_RESPONSE}
    found = [
        SeenFinding(
            finding=finding,
            runs=tuple(where[code]),
            of=len(runs),
            allowed=code in allowed,
            answered=not silent.issuperset(where[code]),
        )
        for code, finding in first.items()
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda s: (order.index(s.finding.severity), s.finding.code)))


def unmeasured(runs: Sequence[Run]) -> Run | None:
    """The first run to which nobody responded."""
    return next((r for r in runs if r.report.end_state is EndState.NO_RESPONSE), None)
