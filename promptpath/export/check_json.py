"""A check as one JSON document, schema promptpath.check/1; each target carries the report it was
judged by (promptpath.report/1)."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.budgets import BudgetVerdict
from promptpath.analysis.check import CheckResult, SeenFinding, TargetResult
from promptpath.model.codec import encode, encode_document
from promptpath.model.document import Document
from promptpath.model.rows import Json
from promptpath.model.units import opt_ms

CHECK_SCHEMA = "promptpath.check/1"
"""Only grows within the major version."""


def write(result: CheckResult) -> Iterator[bytes]:
    """The document in pieces, so that a long stream is not held twice."""
    yield b'{"schema":' + encode(CHECK_SCHEMA)
    yield b',"tool":' + encode(result.tool)
    yield b',"exit_code":' + encode(result.exit_code)
    yield b',"targets":['
    for index, target in enumerate(result.targets):
        yield b"," if index else b""
        yield from _target(target)
    yield b"]}\n"


def _target(target: TargetResult) -> Iterator[bytes]:
    head: dict[str, Json] = {
        "name": target.name,
        "url": target.url,
        "outcome": target.outcome,
        "exit_code": target.exit_code,
        "strict": target.strict,
        "problem": list(target.problem),
        "notes": list(target.notes),
        "budgets": [_budget(target, verdict) for verdict in target.budgets],
    }
    yield encode(head)[:-1]
    yield b',"findings":' + encode([_finding(seen) for seen in target.findings])
    for name, document in (("document", target.document), ("idle", target.idle)):
        yield f',"{name}":'.encode()
        yield from _document(document)
    yield b"}"


def _budget(target: TargetResult, verdict: BudgetVerdict) -> dict[str, Json]:
    budget = verdict.budget
    return {
        "name": budget.name.value,
        "limit_ms": opt_ms(budget.limit_ns),
        "version": budget.version,
        "verdict": verdict.keeping.value,
        "fails": target.fails(verdict),
        "measured_ms": verdict.measured_ms,
        "low_ms": verdict.low_ms,
        "high_ms": verdict.high_ms,
        "because": list(verdict.because),
    }


def _finding(seen: SeenFinding) -> dict[str, object]:
    return {
        "finding": seen.finding,
        "runs": seen.runs,
        "allowed": seen.allowed,
        "fails": seen.fails,
    }


def _document(document: Document | None) -> Iterator[bytes]:
    if document is None:
        yield b"null"
        return
    for piece in encode_document(document):
        yield piece.rstrip(b"\n")
