"""What `promptpath matrix` says: cells, their runs, and how each differs from the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from promptpath.model.document import Tool

MATRIX_SCHEMA = "promptpath.matrix/1"
"""Only grows within the major version."""


class Difference(StrEnum):
    """What one metric of one cell is, against the baseline's."""

    LOWER = "lower"
    HIGHER = "higher"
    NONE = "no-difference"
    """None beyond the error: not shown to be equal either."""
    TOO_FEW = "too-few-runs"
    """Even complete separation of so few runs would not be significant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRun:
    """One run of a cell."""

    round: int
    """From 0."""
    position: int
    """Its place in the round's order, from 0."""
    outcome: str
    """ok | failed. A failed run is counted, and stands in no median."""
    reason: str | None
    """Why it failed."""
    until_ms: float | None
    """Start to the failure: what a fallback would have cost."""
    metrics: dict[str, float]
    """In ms; a metric that the run does not have is missing."""
    errors: dict[str, float]
    """Of each metric, in ms: how far the measurement itself may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixCell:
    """One combination of levels."""

    name: str
    levels: dict[str, str]
    runs: tuple[MatrixRun, ...]
    medians: dict[str, float]
    """Of the runs that are ok, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One metric of one cell against the baseline."""

    cell: str
    metric: str
    runs: tuple[int, int]
    """The cell's and the baseline's runs with the metric."""
    shift_ms: float
    """Cell less baseline: Hodges-Lehmann, the median of all differences."""
    error_ms: float
    """Of the measurement: the largest of either side, added."""
    p: float
    """Two-sided, of the rank-sum test."""
    p_holm: float
    """The same, corrected for all comparisons of the matrix."""
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixReport:
    """All of one command."""

    schema: str
    tool: Tool
    url: str
    """Redacted."""
    repeat: int
    seed: int
    alpha: float
    factors: dict[str, tuple[str, ...]]
    crossed: bool
    """All combinations; else each level against the baseline, one factor at a time."""
    baseline: str
    """The first cell: the first level of every factor."""
    cells: tuple[MatrixCell, ...]
    comparisons: tuple[Comparison, ...]
    sentence: str
    notes: tuple[str, ...]
    interrupted: bool
    exit_code: int


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{MATRIX_SCHEMA.replace('/', ':')}",
        "title": MATRIX_SCHEMA,
        **msgspec.json.schema(MatrixReport),
    }
