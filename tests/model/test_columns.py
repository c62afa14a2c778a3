"""Columns with missing values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.model.columns import NONE, OptionalColumn


@given(st.lists(st.just(NONE) | st.integers(0, 2**63 - 1), max_size=20))
def test_what_was_appended_is_there_and_missing_is_none(values: list[int]) -> None:
    column = OptionalColumn("q")
    for value in values:
        column.append(value)
    assert [column[i] for i in range(len(values))] == [None if v == NONE else v for v in values]


def test_what_the_type_cannot_hold_is_refused() -> None:
    with pytest.raises(OverflowError):
        OptionalColumn("q").append(2**63)
