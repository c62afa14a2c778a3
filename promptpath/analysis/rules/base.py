"""What a rule is: a question, a condition, and everything a person needs to act on the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity
from promptpath.model.redact import printable
from promptpath.model.report import Evidence, Finding

Because = tuple[Evidence, ...]
"""Why a rule fires; empty when it does not."""
Condition = Callable[[Measured], Because]
NO: Because = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One code. The texts are also its page in docs/findings."""

    code: str
    title: str
    severity: Severity
    asks: str
    """The question it answers."""
    decided: str
    """How, with the source of every threshold."""
    advice: str
    """What to do."""
    is_not: str
    """What it is easily taken for."""
    condition: Condition
    grade: Callable[[Measured], Severity] | None = None
    """Severity by harm, where it is not the same for all; `severity` is then the worst."""
    cure: Callable[[Measured], str] | None = None
    """What to add to the advice for this very trace."""

    def judge(self, measured: Measured) -> Finding | None:
        """The finding, where the condition holds."""
        because = self.condition(measured)
        if not because:
            return None
        return Finding(
            code=self.code,
            severity=self.grade(measured) if self.grade else self.severity,
            title=self.title,
            because=because,
            advice=f"{self.advice} {self.cure(measured)}" if self.cure else self.advice,
        )


def because(text: str, *, spans: tuple[int, ...] = (), facts: tuple[str, ...] = ()) -> Because:
    """One reason. Its words may be the far side's or a stranger's file's: they become printable."""
    return (Evidence(text=printable(text), spans=spans, facts=facts),)
