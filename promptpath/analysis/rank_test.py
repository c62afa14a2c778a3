"""Whether two small samples differ: the rank-sum test, exact, and Holm's correction.

Mann and Whitney, "On a test of whether one of two random variables is stochastically larger than
the other" (1947); exact permutation distribution with midranks for ties: Lehmann, "Nonparametrics"
(1975), 1.4. Holm, "A simple sequentially rejective multiple test procedure" (1979).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import comb, erfc, sqrt

from promptpath.analysis.stats import median

EXACT_MOST = 40
"""Runs of both sides together up to which the distribution is counted out (measured: 40
distinct values in 32 ms); above, the normal approximation, which Mann and Whitney found good from
8 a side on."""


def rank_sum_p(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p of "both come from one distribution". Raises ValueError without values."""
    if not first or not second:
        raise ValueError("no test of nothing")
    doubled = _doubled_midranks([*first, *second])
    if len(doubled) <= EXACT_MOST:
        return _exact(doubled, len(first))
    return _normal(doubled, len(first))


def smallest_p(first: int, second: int) -> float:
    """What p is for so many runs a side when all of one lie below all of the other."""
    return min(1.0, 2 / comb(first + second, first))


def holm(values: Sequence[float]) -> list[float]:
    """Each p, corrected for all of them being looked at, in the same order."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    corrected, worst = [0.0] * len(values), 0.0
    for place, index in enumerate(order):
        worst = max(worst, min(1.0, (len(values) - place) * values[index]))
        corrected[index] = worst
    return corrected


def shift(first: Sequence[float], second: Sequence[float]) -> float:
    """First less second: Hodges and Lehmann's estimate (1963), the median of all differences."""
    return median(a - b for a in first for b in second)


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the middle of theirs."""
    counts, below = Counter(values), 0
    ranks: dict[float, int] = {}
    for value in sorted(counts):
        ranks[value] = 2 * below + counts[value] + 1
        below += counts[value]
    return [ranks[value] for value in values]


def _exact(doubled: Sequence[int], size: int) -> float:
    """The share of all ways to draw `size` ranks whose sum is as far from the middle."""
    ways: list[Counter[int]] = [Counter() for _ in range(size + 1)]
    ways[0][0] = 1
    for rank in doubled:
        for taken in range(size, 0, -1):
            for total, count in ways[taken - 1].items():
                ways[taken][total + rank] += count
    middle = size * (len(doubled) + 1)
    far = abs(sum(doubled[:size]) - middle)
    extreme = sum(count for total, count in ways[size].items() if abs(total - middle) >= far)
    return extreme / comb(len(doubled), size)


def _normal(doubled: Sequence[int], size: int) -> float:
    """With the correction for ties and for continuity (half a rank)."""
    total, other = len(doubled), len(doubled) - size
    far = abs(sum(doubled[:size]) / 2 - size * (total + 1) / 2) - 0.5
    ties = sum(count**3 - count for count in Counter(doubled).values())
    variance = size * other / 12 * ((total + 1) - ties / (total * (total - 1)))
    if variance <= 0 or far <= 0:
        return 1.0
    return erfc(far / sqrt(2 * variance))
