"""The document that --json prints: plan, vantage, every run's trace and report, and the summary."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.model.plan import PlanRecord
from promptpath.model.report import Report, Summary
from promptpath.model.rows import Json
from promptpath.model.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Who made the document."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One prompt: what was measured and what it means."""

    trace: Trace
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All runs of one command."""

    tool: Tool
    plan: PlanRecord
    vantage: dict[str, Json]
    summary: Summary
    runs: tuple[Run, ...]
