"""The error tree and the exit codes.

    PromptpathError                 what happened / expected / where / hint
    +-- UsageError        exit 2    the user asked for something impossible; raised before t0
    +-- MeasureError      exit 3    a stage could not be measured; its Trace still exists
    |   +-- RemoteError   exit 3    the far side broke its protocol (bytes received and expected)
    +-- InternalError     exit 4    a bug of ours

This module imports nothing of ours, so that every layer may raise these.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller (ARCHITECTURE.md, "Exit codes")."""

    OK = 0
    """Measured, nothing of severity error, budgets kept."""
    FINDING = 1
    """Measured (a response head arrived), and an error finding fired or a budget broke."""
    USAGE = 2
    """Wrong usage, found before anything was measured."""
    UNMEASURED = 3
    """No response head arrived; the message names the stage."""
    BUG = 4
    """A bug of promptpath."""
    INTERRUPTED = 130
    """Ctrl-C; what was measured until then was written."""


class PromptpathError(Exception):
    """An error a person can act on.

    `what` happened, what was `expected`, `where` (stage, address, byte) and a `hint`: what to do
    next. None of the four may hold a secret or unescaped far-side text.
    """

    exit_code: ExitCode = ExitCode.BUG

    def __init__(
        self,
        what: str,
        *,
        expected: str | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.expected = expected
        self.where = where
        self.hint = hint

    def lines(self) -> list[str]:
        """The message as a person reads it, one statement a line, the hint last."""
        lines = [f"error: {self.what}"]
        if self.expected:
            lines.append(f"  expected: {self.expected}")
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return lines


class UsageError(PromptpathError):
    """The command line, an environment variable or a file of the user's is wrong."""

    exit_code = ExitCode.USAGE


class MeasureError(PromptpathError):
    """A stage failed. `stage` is a `model.enums.Stage` value, `code` a short machine-readable word.

    The walk turns it into a span outcome and a `failure` fact; it never reaches the user as a
    traceback.
    """

    exit_code = ExitCode.UNMEASURED

    def __init__(
        self,
        what: str,
        *,
        stage: str,
        code: str,
        expected: str | None = None,
        where: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, expected=expected, where=where, hint=hint)
        self.stage = stage
        self.code = code


class RemoteError(MeasureError):
    """The far side broke its protocol; `what` says which bytes came instead."""


class InternalError(PromptpathError):
    """A bug of ours: an invariant did not hold."""

    exit_code = ExitCode.BUG
