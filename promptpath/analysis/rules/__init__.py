"""The rule table: every finding code, one file a family."""

from __future__ import annotations

from promptpath.analysis.rules import (
    buffering,
    doors,
    idle,
    intermediaries,
    measurement,
    names,
    protocol,
    quic,
    server,
    stream,
    tls,
    transport,
)
from promptpath.analysis.rules.base import Rule
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity
from promptpath.model.report import Finding

RULES: tuple[Rule, ...] = (
    *names.RULES,
    doors.DOOR,
    *transport.RULES,
    *quic.RULES,
    *tls.RULES,
    *intermediaries.RULES,
    *buffering.RULES,
    *idle.RULES,
    doors.CHAIN,
    doors.TERMINATED,
    *protocol.RULES,
    *stream.RULES,
    *server.RULES,
    *measurement.RULES,
)
"""All rules, by code."""

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def by_code(code: str) -> Rule | None:
    """The rule of that code, whatever its case; None for an unknown code."""
    wanted = code.strip().upper()
    return next((rule for rule in RULES if rule.code == wanted), None)


def judge_all(measured: Measured) -> tuple[Finding, ...]:
    """The findings of all rules that fire, worst first, then by code."""
    found = [finding for rule in RULES if (finding := rule.judge(measured)) is not None]
    return tuple(sorted(found, key=lambda finding: (_ORDER[finding.severity], finding.code)))
