"""The arrivals of a log in columns: one table for each layer and span, and the order of their rows.

A byte of a stream over TLS and HTTP arrives four times, once in each layer, so these rows are most
of a long trace. What all rows of a table share is stored once, and what a layer does not know
takes nothing: 20 bytes a row, a read from the kernel 26, a body piece 22 (measured; 31 with
every column in every row).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from promptpath.model.columns import NONE, optional
from promptpath.model.enums import Layer
from promptpath.model.rows import Arrival
from promptpath.model.stamp import Stamp

_LAYERS: tuple[Layer, ...] = tuple(Layer)
LAYER_INDEX = {layer: index for index, layer in enumerate(_LAYERS)}
"""The number that stands for a layer in a row."""

_Key = tuple[int, int, bool, bool, bool]
"""Layer, span, and whether segments, ooo and pending are known."""


class _Table:
    """The arrivals of one layer and span that know the same things."""

    __slots__ = ("layer", "offset", "ooo", "pending", "segments", "size", "span", "stamp")

    def __init__(self, layer: Layer, span: int | None) -> None:
        self.layer = layer
        self.span = span
        self.stamp = array("I")
        self.offset = array("q")
        self.size = array("I")
        self.segments = array("i")
        self.ooo = array("i")
        self.pending = array("i")

    def arrival(self, position: int, stamp: Stamp) -> Arrival:
        """The row at that position of this table."""
        return Arrival(
            layer=self.layer,
            span=self.span,
            at_ns=stamp.at_ns,
            lo_ns=stamp.lo_ns,
            hi_ns=stamp.hi_ns,
            exact=stamp.exact,
            clock=stamp.clock,
            offset=self.offset[position],
            size=self.size[position],
            segments=self.segments[position] if self.segments else None,
            ooo=self.ooo[position] if self.ooo else None,
            pending=self.pending[position] if self.pending else None,
        )


class Arrivals(Sequence[Arrival]):
    """All arrivals in order. For going through: one by its index takes time with the length."""

    def __init__(self, stamp: Callable[[int], Stamp]) -> None:
        """`stamp` gives the log's stamp by its index."""
        self._stamp = stamp
        self._order = array("H")
        self._tables: list[_Table] = []
        self._numbers: dict[_Key, int] = {}

    def append(self, row: Sequence[int]) -> None:
        """Add a row: layer, span, stamp, offset, size, segments, ooo, pending, as numbers. Raises
        OverflowError for those that no column can hold, and for more than 65,536 tables; IndexError
        and ValueError for what is no row."""
        layer, span, stamp, offset, size, segments, ooo, pending = row
        key = (layer, span, segments != NONE, ooo != NONE, pending != NONE)
        number = self._numbers.get(key)
        if number is None:
            number = self._new_table(key)
        table = self._tables[number]
        self._order.append(number)
        table.stamp.append(stamp)
        table.offset.append(offset)
        table.size.append(size)
        if segments != NONE:
            table.segments.append(segments)
        if ooo != NONE:
            table.ooo.append(ooo)
        if pending != NONE:
            table.pending.append(pending)

    def _new_table(self, key: _Key) -> int:
        self._tables.append(_Table(_LAYERS[key[0]], optional(key[1])))
        number = self._numbers[key] = len(self._tables) - 1
        return number

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Arrival]:
        positions = array("Q")
        for number in self._order:
            while number >= len(positions):
                positions.append(0)
            yield self._at(number, positions[number])
            positions[number] += 1

    def _at(self, number: int, position: int) -> Arrival:
        table = self._tables[number]
        return table.arrival(position, self._stamp(table.stamp[position]))

    @overload
    def __getitem__(self, index: int) -> Arrival: ...
    @overload
    def __getitem__(self, index: slice) -> list[Arrival]: ...
    def __getitem__(self, index: int | slice) -> Arrival | list[Arrival]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = self._order[index]
        before = self._order[: range(len(self))[index]]
        return self._at(number, before.count(number))
