"""Bars are judged as they say, and a number that is missing has not passed."""

from __future__ import annotations

from typing import Literal

import pytest

from benchmarks.harness import Bar, percentile


@pytest.mark.parametrize(
    ("value", "limit", "better", "passed"),
    [
        (5, 5, "<=", True),
        (5.1, 5, "<=", False),
        (0.98, 0.98, ">=", True),
        (0.97, 0.98, ">=", False),
        (None, 5, "<=", False),
        (None, None, "<=", None),
        (1e9, None, "<=", None),
    ],
)
def test_bar(
    value: float | None, limit: float | None, better: Literal["<=", ">="], passed: bool | None
) -> None:
    bar = Bar(name="x", value=value, unit="", limit=limit, better=better)
    assert bar.passed is passed


def test_percentile_is_a_value_that_was_measured() -> None:
    values = list(range(1, 101))
    assert percentile(values, 50) == 50
    assert percentile(values, 99) == 99
    assert percentile(values, 100) == 100
    assert percentile([7.0], 99) == 7.0
    assert percentile([], 99) is None
