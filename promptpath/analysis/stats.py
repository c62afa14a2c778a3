"""Order statistics: the quantiles, median and spread every report number rests on.

Quantiles are linear between order statistics: type 7 of Hyndman and Fan, "Sample Quantiles in
Statistical Packages", The American Statistician 50 (1996), the default of R and numpy.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from heapq import merge
from math import ceil

from promptpath.model.report import Quantiles, Spread
from promptpath.model.units import NS_PER_MS, NS_PER_US, Ns

DIGITS = 3
"""Report values in ms keep three digits, the microsecond: kernel stamps are not finer."""


def error_ms(error_ns: Ns) -> float:
    """An error in ms, rounded up to the microsecond: never shown smaller than it is."""
    return ceil(error_ns / NS_PER_US) / 1000


SORT_PIECE = 65_536
"""Values sorted at a time: `sorted` boxes each number, 40 bytes where an array holds 8."""


def ascending(values: array[int] | array[float]) -> array[int] | array[float]:
    """The values in order, without a boxed copy of a long stream in memory."""
    starts = range(0, len(values), SORT_PIECE)
    pieces = [array(values.typecode, sorted(values[at : at + SORT_PIECE])) for at in starts]
    return pieces[0] if len(pieces) == 1 else array(values.typecode, merge(*pieces))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The type-7 quantile of ascending values, `share` in 0..1; ValueError without values."""
    if not ordered:
        raise ValueError("no quantile of nothing")
    position = (len(ordered) - 1) * share
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Iterable[float]) -> float:
    """The middle value. Raises ValueError without values."""
    return quantile(sorted(values), 0.5)


def mad(values: Sequence[float]) -> float:
    """Median absolute deviation from the median, unscaled. Raises ValueError without values."""
    middle = median(values)
    return median(abs(value - middle) for value in values)


def quantiles_ms(ordered: Sequence[float]) -> Quantiles | None:
    """The distribution of ascending lengths in ns, in ms; None without values."""
    if not ordered:
        return None

    def in_ms(value: float) -> float:
        return round(value / NS_PER_MS, DIGITS)

    return Quantiles(
        count=len(ordered),
        mean=in_ms(sum(ordered) / len(ordered)),
        p50=in_ms(quantile(ordered, 0.5)),
        p90=in_ms(quantile(ordered, 0.9)),
        p99=in_ms(quantile(ordered, 0.99)),
        max=in_ms(ordered[-1]),
    )


def spread(values: Sequence[float]) -> Spread:
    """Median, extremes and median absolute deviation. Raises ValueError without values."""
    return Spread(
        count=len(values),
        median=round(median(values), DIGITS),
        min=round(min(values), DIGITS),
        max=round(max(values), DIGITS),
        mad=round(mad(values), DIGITS),
    )
