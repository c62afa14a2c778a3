"""`--http race`: QUIC against TCP, as a browser that knows of h3 does it.

QUIC starts; TCP starts beside it 250 ms later, or at once when QUIC fails; whoever completes its
handshakes first carries the prompt and the other is given up. The head start is a critical hop of
its own when QUIC does not make it: what a blocked UDP port costs stands in the waterfall.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import QUIC_RACE, SPAN_HANDSHAKE, SPAN_SECOND
from promptpath.model.plan import Plan
from promptpath.model.units import NS_PER_S, Ns
from promptpath.probe.connect import Connection
from promptpath.probe.dial import ATTEMPT_DELAY_NS
from promptpath.probe.quic_dial import dial_quic
from promptpath.probe.recorder import Recorder
from promptpath.wire.h3 import H3Connection

HEAD_START_NS = ATTEMPT_DELAY_NS
"""RFC 8305's Connection Attempt Delay, which Happy Eyeballs v3 (draft-ietf-happy-happyeyeballs-v3)
keeps between QUIC and TCP."""

OverTcp = Callable[[tuple[str, ...]], Awaitable[Connection]]
"""Opens the connection over TCP and TLS to these addresses."""


async def race(
    recorder: Recorder,
    plan: Plan,
    addresses: tuple[str, ...],
    over_tcp: OverTcp,
    *,
    deadline_ns: Ns,
    ready: H3Connection | None,
) -> Connection:
    """The connection that won; `quic.race` says how. Raises TCP's MeasureError when both failed."""
    target = plan.target
    aside = recorder.start(Stage.QUIC, SPAN_SECOND)
    span = recorder.start(Stage.QUIC, SPAN_HANDSHAKE)
    start_ns = recorder.now_ns()

    async def over_quic() -> Connection:
        peers = [(address, target.port) for address in addresses]
        link = await dial_quic(
            recorder, plan, peers, deadline_ns=deadline_ns, ready=ready, parent=aside
        )
        return Connection(target=target, link=link, http=link.http, tls=None, absolute_form=False)

    quic = asyncio.create_task(over_quic())
    tasks: set[asyncio.Task[Connection]] = {quic}
    try:
        await asyncio.wait(tasks, timeout=HEAD_START_NS / NS_PER_S)
        won, why = _outcome(quic)
        if won is not None:
            recorder.log.set_conn(span, won.conn)
            recorder.end(span)
            _record(recorder, "quic", None, None)
            recorder.end(aside)
            return won
        reason = why or f"no handshake within the head start of {HEAD_START_NS // 1_000_000} ms"
        outcome = Outcome.FAILED if why else Outcome.TIMED_OUT
        recorder.fail(span, outcome, f"{reason}; TCP was started")
        cost_ns = recorder.now_ns() - start_ns
        tcp = asyncio.ensure_future(over_tcp(addresses))
        tasks.add(tcp)
        winner = await _first(quic, tcp)
        name = "quic" if winner is quic else "tcp"
        _record(recorder, name, reason, cost_ns)
        return winner.result()
    finally:
        for task in tasks:
            if not task.done():
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with suppress(ValueError):
            recorder.end(aside)


async def _first(
    quic: asyncio.Task[Connection], tcp: asyncio.Future[Connection]
) -> asyncio.Future[Connection]:
    """The first of the two that succeeds; TCP, where neither does."""
    left: set[asyncio.Future[Connection]] = {tcp} if quic.done() else {quic, tcp}
    while left:
        done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            if not task.cancelled() and task.exception() is None:
                return task
    return tcp


def _outcome(task: asyncio.Task[Connection]) -> tuple[Connection | None, str | None]:
    """What QUIC came to within its head start: a connection, why not, or neither yet."""
    if not task.done():
        return None, None
    error = task.exception()
    if error is None:
        return task.result(), None
    if isinstance(error, MeasureError):
        return None, error.what
    raise error


def _record(recorder: Recorder, winner: str, why: str | None, cost_ns: Ns | None) -> None:
    recorder.observed(QUIC_RACE, {"winner": winner, "why": why, "cost_ns": cost_ns})
