"""Arrivals in columns: what was appended is what is read, in the order it came."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.model.arrivals import Arrivals
from promptpath.model.enums import Clock, Layer
from promptpath.model.rows import Arrival
from promptpath.model.stamp import Stamp

OPTIONAL = st.just(-1) | st.integers(0, 2**31 - 1)
ROWS = st.lists(
    st.tuples(
        st.integers(0, len(Layer) - 1),
        st.sampled_from([-1, 1, 2]),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**32 - 1),
        OPTIONAL,
        OPTIONAL,
        OPTIONAL,
    ),
    max_size=40,
)


def stamp(index: int) -> Stamp:
    return Stamp(index, index, index, Clock.KERNEL, True)


def as_row(arrival: Arrival) -> tuple[int, ...]:
    cells = (arrival.segments, arrival.ooo, arrival.pending)
    layer = tuple(Layer).index(arrival.layer)
    span = -1 if arrival.span is None else arrival.span
    missing = (-1 if cell is None else cell for cell in cells)
    return (layer, span, arrival.at_ns, arrival.offset, arrival.size, *missing)


@given(ROWS)
def test_rows_come_back_as_they_were_in_the_order_they_came(rows: list[tuple[int, ...]]) -> None:
    arrivals = Arrivals(stamp)
    for row in rows:
        arrivals.append(row)
    assert [as_row(arrival) for arrival in arrivals] == rows
    assert [as_row(arrivals[i]) for i in range(-len(rows), len(rows))] == rows * 2
    assert [as_row(arrival) for arrival in arrivals[1::3]] == rows[1::3]


@pytest.mark.parametrize(
    "row",
    [(9, 1, 0, 0, 0, 1, 1, 1), (0, 1, 2**32, 0, 0, 1, 1, 1), (0, 1, 0, 0, -1, 1, 1, 1), (0, 1, 0)],
    ids=["no layer", "no stamp", "no size", "too short"],
)
def test_what_is_no_row_is_refused(row: tuple[int, ...]) -> None:
    with pytest.raises((IndexError, OverflowError, ValueError)):
        Arrivals(stamp).append(row)


def test_rows_that_come_while_somebody_reads_are_read_too() -> None:
    arrivals = Arrivals(stamp)
    arrivals.append((0, 1, 0, 0, 5, 1, 0, -1))
    reading = iter(arrivals)
    assert next(reading).size == 5
    arrivals.append((4, 2, 0, 0, 7, -1, -1, 3))
    assert next(reading).size == 7
