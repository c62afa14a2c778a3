from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from promptpath.cli.tap import Sink, Tap
from promptpath.model.log import Row
from tests.analysis.build import PLAN
from tests.export.documents import trip

CLOCK = trip().clock


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, str]] = []
        self.batches: list[list[tuple[Row, bytes]]] = []

    def begin(self, index: int, kind: str, head: bytes) -> None:
        self.runs.append((index, kind))

    def write(self, batch: Iterable[tuple[Row, bytes]]) -> None:
        self.batches.append(list(batch))


def test_rows_are_handed_on_in_order_and_once() -> None:
    sinks: list[Sink] = [Kept(), Kept()]
    tap = Tap(PLAN, sinks)
    (observe,) = tap.begin(0, "cold", CLOCK)
    rows: list[Row] = [["span-conn", 1, number] for number in range(5)]
    for row in rows[:3]:
        observe(row)
    tap.flush()
    tap.flush()
    for row in rows[3:]:
        observe(row)
    tap.flush()
    for sink in sinks:
        assert isinstance(sink, Kept)
        given = [pair for batch in sink.batches for pair in batch]
        assert [row for row, _ in given] == rows
        assert [msgspec.json.decode(line) for _, line in given] == rows
        assert len(sink.batches) == 2


def test_rows_of_one_run_never_reach_the_next() -> None:
    kept = Kept()
    tap = Tap(PLAN, [kept])
    (observe,) = tap.begin(0, "cold", CLOCK)
    observe(["span-conn", 1, 1])
    tap.begin(1, "warm", CLOCK)
    assert len(kept.batches) == 1
    assert kept.runs == [(0, "cold"), (1, "warm")]


def test_nobody_listening_costs_nothing() -> None:
    assert Tap(PLAN, []).begin(0, "cold", CLOCK) == []


def test_the_pump_flushes_until_it_is_cancelled(monkeypatch: object) -> None:
    kept = Kept()
    tap = Tap(PLAN, [kept])

    async def pumped() -> None:
        (observe,) = tap.begin(0, "cold", CLOCK)
        observe(["span-conn", 1, 1])
        pump = asyncio.create_task(tap.pump())
        while not kept.batches:
            await asyncio.sleep(0.01)
        pump.cancel()

    asyncio.run(pumped())
    assert len(kept.batches) == 1
