"""Order statistics against the standard library's and numpy's definition."""

from __future__ import annotations

import statistics
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis import stats
from promptpath.analysis.stats import ascending, mad, median, quantile, quantiles_ms, spread

NUMBERS = st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=60)


@given(NUMBERS)
def test_quantiles_are_type_7_as_the_standard_library_has_them(values: list[int]) -> None:
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    ordered = sorted(values)
    for percent in (1, 25, 50, 90, 99):
        assert quantile(ordered, percent / 100) == pytest.approx(cuts[percent - 1], abs=1e-2)


@given(NUMBERS)
def test_the_median_is_the_standard_librarys(values: list[int]) -> None:
    assert median(values) == statistics.median(values)


def test_a_single_value_is_all_its_quantiles() -> None:
    found = quantiles_ms([5_000_000])
    assert found is not None
    assert (found.count, found.mean, found.p50, found.p99, found.max) == (1, 5, 5, 5, 5)


def test_nothing_has_no_quantiles() -> None:
    assert quantiles_ms([]) is None
    with pytest.raises(ValueError, match="nothing"):
        quantile([], 0.5)


def test_the_spread_is_robust_against_one_outlier() -> None:
    found = spread([10, 11, 9, 10, 500])
    assert (found.count, found.median, found.min, found.max, found.mad) == (5, 10, 9, 500, 1)
    assert mad([1, 1, 1]) == 0


@given(st.lists(st.integers(-(2**40), 2**40), max_size=40))
def test_sorting_piece_by_piece_is_sorting(values: list[int]) -> None:
    whole, stats.SORT_PIECE = stats.SORT_PIECE, 7
    try:
        assert list(ascending(array("q", values))) == sorted(values)
    finally:
        stats.SORT_PIECE = whole
