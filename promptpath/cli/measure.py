"""Runs a plan with everything around it: Ctrl-C, the journal, the live view. Nothing here is timed.

Imported before t0, and it brings in all that a run needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from promptpath.cli.plan_builder import Prepared
from promptpath.cli.tap import Sink, Tap
from promptpath.model.log import Observer
from promptpath.model.redact import plan_record, plan_secrets
from promptpath.model.trace import Trace
from promptpath.probe.clock import RunClock
from promptpath.probe.walk import walk


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it."""

    traces: tuple[Trace, ...]
    interrupted: bool
    """Ctrl-C (or SIGTERM) ended it; the traces hold what there was until then."""


def measure(prepared: Prepared, sinks: list[Sink]) -> Measured:
    """Run the plan. A second Ctrl-C raises KeyboardInterrupt."""
    return asyncio.run(_measure(prepared, Tap(plan_record(prepared.plan), sinks)))


async def _measure(prepared: Prepared, tap: Tap) -> Measured:
    stop = asyncio.Event()
    traces: list[Trace] = []
    secrets = secrets_of(prepared)

    def watch(index: int, kind: str, clock: RunClock) -> list[Observer]:
        return tap.begin(index, kind, clock.info())

    with stop_on_signals(stop):
        pump = asyncio.create_task(tap.pump())
        try:
            runs = walk(
                prepared.plan, stop=stop, watch=watch, clock=RunClock.start(), secrets=secrets
            )
            async for trace in runs:
                traces.append(trace)
        finally:
            pump.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pump
            tap.flush()
    return Measured(traces=tuple(traces), interrupted=stop.is_set())


def secrets_of(prepared: Prepared) -> tuple[str, ...]:
    """Whatever far-side text must never repeat: what the plan sends, and the key by itself."""
    key = (prepared.key.value,) if prepared.key else ()
    return tuple(dict.fromkeys((*plan_secrets(prepared.plan), *key)))


@contextlib.contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """The first SIGINT or SIGTERM sets `stop`; later ones act as ever."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)

    def restore() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def asked() -> None:
        stop.set()
        restore()

    for number in numbers:
        loop.add_signal_handler(number, asked)
    try:
        yield
    finally:
        restore()
