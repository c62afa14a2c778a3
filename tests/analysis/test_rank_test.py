from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis.rank_test import EXACT_MOST, holm, rank_sum_p, shift, smallest_p

SMALL = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=4)


def by_enumeration(first: list[float], second: list[float]) -> Fraction:
    """The p by trying every split of the pooled values."""
    pooled = [*first, *second]

    def ranks(value: float) -> int:
        return 2 * sum(v < value for v in pooled) + pooled.count(value) + 1

    scores = [ranks(value) for value in pooled]
    middle = len(first) * (len(pooled) + 1)
    far = abs(sum(scores[: len(first)]) - middle)
    sums = [sum(some) for some in itertools.combinations(scores, len(first))]
    return Fraction(sum(abs(total - middle) >= far for total in sums), len(sums))


@given(SMALL, SMALL)
def test_the_exact_p_is_that_of_all_permutations(first: list[float], second: list[float]) -> None:
    assert rank_sum_p(first, second) == pytest.approx(float(by_enumeration(first, second)))


def test_known_values() -> None:
    assert rank_sum_p([1, 2, 3], [4, 5, 6]) == pytest.approx(2 / 20)
    assert rank_sum_p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(2 / 252)
    assert rank_sum_p([7, 7], [7, 7, 7]) == 1.0


@pytest.mark.parametrize(("first", "second"), [(1, 1), (3, 5), (7, 7)])
def test_the_smallest_p_is_that_of_complete_separation(first: int, second: int) -> None:
    low, high = list(map(float, range(first))), [100.0 + n for n in range(second)]
    assert rank_sum_p(low, high) == pytest.approx(smallest_p(first, second))


def test_the_approximation_goes_on_where_the_exact_test_ends() -> None:
    half = EXACT_MOST // 2
    first = [float(n) for n in range(half)]
    exact = rank_sum_p(first, [value + 5.5 for value in first])
    more = [*first, float(half)]
    approximate = rank_sum_p(more, [value + 5.5 for value in more])
    assert exact == pytest.approx(approximate, rel=0.5) and 0.001 < approximate < 0.05
    assert rank_sum_p([1.0] * 30, [1.0] * 30) == 1.0


def test_nothing_cannot_be_tested() -> None:
    with pytest.raises(ValueError, match="nothing"):
        rank_sum_p([], [1.0])


def test_holm_corrects_each_p_and_keeps_their_order() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


def test_the_shift_is_the_median_of_all_differences() -> None:
    assert shift([10, 11, 12], [1, 2, 300]) == 9
