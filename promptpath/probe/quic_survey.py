"""QUIC handshakes alone: name, handshake, certificate, resumption; no request is sent."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

from promptpath.errors import MeasureError
from promptpath.model.plan import Plan
from promptpath.model.trace import Trace
from promptpath.probe.clock import RunClock
from promptpath.probe.connect import Connection, open_connection, prepare, ready_for
from promptpath.probe.link import Closed
from promptpath.probe.quic import QuicLink
from promptpath.probe.quic_aftermath import explain_quic
from promptpath.probe.quic_failure import unconfirmed
from promptpath.probe.recorder import Recorder

TICKET_NS = 500_000_000
"""How long a ticket is waited for after the handshake. It comes with the server's next flight (RFC
8446, 4.6.1): half a second is a round trip to anywhere on earth."""


async def survey(plan: Plan, *, stop: asyncio.Event, clock: RunClock) -> AsyncIterator[Trace]:
    """A trace a handshake, `plan.repeat` of them; ends early when `stop` is set. Never raises for
    what the far side does. Raises UsageError for files of the user's."""
    prepare(plan)
    for _ in range(plan.repeat):
        if stop.is_set():
            return
        work = asyncio.create_task(_one(plan, clock))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return
        yield work.result()


async def _one(plan: Plan, clock: RunClock) -> Trace:
    ready = ready_for(plan)
    clock = clock.restarted()
    recorder = Recorder(clock)
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()  # a full collection is milliseconds of lateness
    connection: Connection | None = None
    try:
        connection = await open_connection(recorder, plan, plan.limits.connect_ns, ready)
        await _wait_for_the_end(recorder, plan, connection)
    except TimeoutError:
        recorder.failure(unconfirmed(plan.target.host))
    except MeasureError as error:
        recorder.failure(error)
    finally:
        if enabled:
            gc.enable()
    if connection is not None:
        await explain_quic(recorder, plan, connection)
        await connection.link.close()
    return Trace(clock=clock.info(), log=recorder.log, truncated=None)


async def _wait_for_the_end(recorder: Recorder, plan: Plan, connection: Connection) -> None:
    """Until the handshake is confirmed, then a moment for a ticket. Raises MeasureError where the
    server never confirms."""
    link = connection.link
    assert isinstance(link, QuicLink)
    while not link.confirmed and link.http.quic.closed is None:
        items = await link.receive_any(plan.limits.connect_ns)
        if any(isinstance(item, Closed) for item in items):
            raise unconfirmed(plan.target.host)
    until_ns = recorder.now_ns() + TICKET_NS
    while not link.http.quic.tickets and link.http.reusable():
        try:
            await link.receive_any(until_ns)
        except TimeoutError:
            return
