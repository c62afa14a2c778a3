"""Columns of integers in which a value may be missing: what the event log is made of."""

from __future__ import annotations

from array import array

NONE = -1
"""Marks "missing" inside a column and in an observer's row; it never leaves the log."""


def optional(value: int) -> int | None:
    """A column's value as everybody else sees it."""
    return None if value == NONE else value


class OptionalColumn:
    """Integers, NONE among them; takes no memory until the first that is not."""

    __slots__ = ("_missing", "_typecode", "_values")

    def __init__(self, typecode: str) -> None:
        """`typecode` as of `array.array`."""
        self._typecode = typecode
        self._missing = 0
        self._values: array[int] | None = None

    def append(self, value: int) -> None:
        """The next row's value. Raises OverflowError for one that the type cannot hold."""
        values = self._values
        if values is None:
            if value == NONE:
                self._missing += 1
                return
            values = self._values = array(self._typecode, [NONE]) * self._missing
        values.append(value)

    def __getitem__(self, index: int) -> int | None:
        """The value of a row that was appended."""
        return None if self._values is None else optional(self._values[index])
