from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec
import pytest

from promptpath.cli.live_feed import LiveFeed, live_feed, wants_live
from promptpath.cli.live_model import LiveRun
from promptpath.cli.options import TraceOptions
from promptpath.model.codec import encode_row
from promptpath.model.log import Row


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    yield reader, writer
    os.close(reader)


def batch(*rows: Row) -> list[tuple[Row, bytes]]:
    return [(row, encode_row(row)) for row in rows]


def everything(reader: int) -> bytes:
    """All that the pipe holds now."""
    data = b""
    while True:
        try:
            piece = os.read(reader, 1 << 20)
        except BlockingIOError:
            break
        if not piece:
            break
        data += piece
    return data


def rows_in(data: bytes) -> list[Row]:
    return [msgspec.json.decode(line) for line in data.splitlines()]


STAMP: Row = ["stamp", 5, 4, 6, 3]


def test_rows_reach_the_view_without_arrivals(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    feed = LiveFeed(writer)
    feed.begin(0, "cold", b"")
    feed.write(batch(STAMP, ["arrival", 0, 1, 0, 0, 9, 1, 0, 0], ["span-conn", 1, 1]))
    feed.close()
    assert rows_in(everything(reader)) == [["run", 0, "cold"], STAMP, ["span-conn", 1, 1]]
    assert feed.dropped == 0


def test_a_view_that_does_not_read_loses_rows_and_learns_how_far_it_is_behind(
    pipe: tuple[int, int],
) -> None:
    reader, writer = pipe
    feed = LiveFeed(writer)
    feed.begin(0, "cold", b"")
    written = 0
    while not feed.dropped:
        feed.write(batch(*([STAMP] * 1000)))
        written += 1000
    data = everything(reader)
    feed.write(batch(STAMP))
    data += everything(reader)
    feed.write(batch(STAMP))
    data += everything(reader)
    seen = rows_in(data)
    assert seen[0] == ["run", 0, "cold"]
    resync = next(row for row in seen if row[0] == "resync")
    assert resync == ["resync", written]
    assert sum(row[0] == "stamp" for row in seen) == written + 2 - feed.dropped
    model = LiveRun()
    for row in seen:
        model.apply(row)
    assert model._next_stamp == written + 2
    feed.close()


def test_no_line_is_ever_torn(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    feed = LiveFeed(writer)
    feed.begin(0, "cold", b"")
    data = b""
    for number in range(3000):
        feed.write(batch(["fact", "key", "x" * (number % 997), "observed", None], STAMP))
        if number % 50 == 0:
            data += os.read(reader, 100_000)
    feed.write(batch(STAMP))
    feed.close()
    while piece := os.read(reader, 1 << 20):
        data += piece
    *lines, _last = data.split(b"\n")
    assert all(isinstance(msgspec.json.decode(line), list) for line in lines)


def test_a_view_that_died_does_not_matter() -> None:
    reader, writer = os.pipe()
    feed = LiveFeed(writer)
    os.close(reader)
    feed.begin(0, "cold", b"")
    for _ in range(3):
        feed.write(batch(STAMP))
    feed.close()
    feed.close()


def test_there_is_no_view_where_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    options = TraceOptions()
    assert not wants_live(options)  # the streams of a test are no terminals
    with live_feed(options) as feed:
        assert feed is None
