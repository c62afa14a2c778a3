"""Feeds a parser bytes in pieces, each piece with a stamp of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TypeVar

from hypothesis import strategies as st

from promptpath.model.stamp import Stamp, user_stamp

T = TypeVar("T")
Feed = Callable[[bytes, Stamp], list[T]]


def at(ns: int) -> Stamp:
    """A stamp that says which piece it was."""
    return user_stamp(ns)


def pieces(data: bytes, cuts: Iterable[int]) -> Iterator[bytes]:
    """`data` cut at these offsets; those outside it cut nothing."""
    places = sorted({0, len(data), *(cut for cut in cuts if 0 < cut < len(data))})
    return (data[a:b] for a, b in pairwise(places))


def feed(parser: Feed[T], data: bytes, cuts: Iterable[int] = ()) -> list[T]:
    """Everything the parser gave, piece by piece; piece k carries stamp k, from 1."""
    out: list[T] = []
    for number, piece in enumerate(pieces(data, cuts), 1):
        out += parser(piece, at(number))
    return out


def feed_bytewise(parser: Feed[T], data: bytes) -> list[T]:
    """One byte a call; the stamp is the byte's number, from 1."""
    return feed(parser, data, range(len(data)))


def cut_lists(most: int = 400) -> st.SearchStrategy[list[int]]:
    """Offsets to cut at."""
    return st.lists(st.integers(1, most), max_size=8)
