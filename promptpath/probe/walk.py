"""Runs a plan: each run one prompt, stage after stage, and always a trace at the end.

The critical path comes first (DNS to the last byte); then, off it, what only explains: DNS details,
certificates, resumption, token counts.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urljoin

from promptpath.errors import MeasureError, UsageError
from promptpath.model.log import Observer
from promptpath.model.names import HTTP_REDIRECT, RUN
from promptpath.model.plan import Plan, Target
from promptpath.model.redact import is_secret_header, redact_url
from promptpath.model.trace import Trace
from promptpath.model.units import Ns
from promptpath.model.urls import parse_url
from promptpath.probe.aftermath import explain_run
from promptpath.probe.clock import RunClock
from promptpath.probe.connect import (
    Connection,
    Ready,
    open_connection,
    prepare,
    ready_for,
    snapshot,
)
from promptpath.probe.exchange import Exchange, LimitReached
from promptpath.probe.link import Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.response import ResponseReader

Watch = Callable[[int, str, RunClock], list[Observer]]
"""Called before each run with its index, its kind (cold | warm) and its clock: who wants its
rows."""

LEFTOVER_READS = 16
"""A peer that goes on sending after its response for so many reads is no peer to measure again."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""RFC 9110, 15.4."""


async def walk(
    plan: Plan, *, stop: asyncio.Event, watch: Watch, clock: RunClock, secrets: tuple[str, ...] = ()
) -> AsyncIterator[Trace]:
    """Each run's trace as it is complete: `repeat` cold runs, each followed by a warm one on the
    same connection with `warm`. Ends early when `stop` is set. Never raises for what the far side
    does."""
    prepare(plan)
    index = 0
    for _ in range(plan.repeat):
        carried: Connection | None = None
        for kind in ("cold", "warm") if plan.warm else ("cold",):
            run = _Run(plan, kind, index, clock, watch, secrets)
            trace, carried = await run.measure(carried, stop)
            yield trace
            index += 1
            if stop.is_set():
                break
            if carried is None:
                # Nothing to be warm on: a failed or unusable connection.
                break
        if carried is not None:
            await carried.link.close()
        if stop.is_set():
            return


class _Run:
    """One prompt."""

    def __init__(
        self,
        plan: Plan,
        kind: str,
        index: int,
        clock: RunClock,
        watch: Watch,
        secrets: tuple[str, ...],
    ) -> None:
        self._plan = plan
        self._kind = kind
        self._index = index
        self._watch = watch
        self._clock = clock
        self._recorder = Recorder(clock, secrets=secrets)
        self._ready: Ready | None = None
        self._connection: Connection | None = None
        self._reader: ResponseReader | None = None
        self._truncated: str | None = None

    async def measure(
        self, carried: Connection | None, stop: asyncio.Event
    ) -> tuple[Trace, Connection | None]:
        """The trace, and the connection if another request can go over it."""
        async with _quiet():
            self._begin(carried)
            await self._until_stopped(stop)
        if not stop.is_set():
            await self._aftermath(stop)
        kept = await self._keep_connection()
        trace = Trace(clock=self._clock.info(), log=self._recorder.log, truncated=self._truncated)
        return trace, kept

    def _begin(self, carried: Connection | None) -> None:
        """From here on time counts."""
        if carried is None:
            self._ready = ready_for(self._plan)
        self._clock = self._clock.restarted()
        self._recorder = Recorder(self._clock, secrets=self._recorder.secrets)
        for observer in self._watch(self._index, self._kind, self._clock):
            self._recorder.log.observe(observer)
        if carried is not None:
            carried.link.rebind(self._recorder)
        self._connection = carried
        self._recorder.observed(
            RUN, {"kind": self._kind, "index": self._index, "reused": carried is not None}
        )

    async def _until_stopped(self, stop: asyncio.Event) -> None:
        work = asyncio.create_task(self._critical_path())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            if not work.done():
                work.cancel()
                self._truncated = "interrupted"
                self._recorder.limit("interrupt", None)
            await asyncio.gather(work, stopped, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error

    async def _critical_path(self) -> None:
        recorder, plan = self._recorder, self._plan
        total_ns = plan.limits.total_ns
        deadline_ns = None if total_ns is None else recorder.now_ns() + total_ns
        try:
            await self._follow(plan, deadline_ns)
        except LimitReached as limit:
            self._truncated = limit.name
            recorder.limit(limit.name, limit.value)
        except MeasureError as error:
            recorder.failure(error)

    async def _follow(self, plan: Plan, deadline_ns: Ns | None) -> None:
        """The exchange, and those that redirects lead to."""
        for left in range(plan.max_redirects, -1, -1):
            reader = await self._exchange(plan, deadline_ns)
            onward = _redirected(plan, reader) if left else None
            if onward is None:
                return
            self._recorder.observed(
                HTTP_REDIRECT,
                {
                    "status": reader.status,
                    "from": redact_url(plan.target.url),
                    "to": redact_url(onward.target.url),
                },
            )
            await self._leave_connection(onward.target)
            plan = onward

    async def _exchange(self, plan: Plan, deadline_ns: Ns | None) -> ResponseReader:
        recorder = self._recorder
        if self._connection is None:
            connect_ns = recorder.now_ns() + plan.limits.connect_ns
            if deadline_ns is not None:
                connect_ns = min(connect_ns, deadline_ns)
            ready, self._ready = self._ready, None  # a redirect leads to another request
            self._connection = await open_connection(recorder, plan, connect_ns, ready)
        exchange = Exchange(recorder, plan, self._connection, deadline_ns)
        try:
            return await exchange.run()
        finally:
            self._reader = exchange.reader
            snapshot(recorder, self._connection.link, "end")

    async def _leave_connection(self, target: Target) -> None:
        """Keep the connection for the same origin, close it for another one."""
        connection = self._connection
        if connection is None:
            return
        same = (connection.target.scheme, connection.target.authority) == (
            target.scheme,
            target.authority,
        )
        if same and connection.http.reusable():
            connection.target = target
            return
        self._connection = None
        await connection.link.close()

    async def _aftermath(self, stop: asyncio.Event) -> None:
        work = asyncio.create_task(
            explain_run(self._recorder, self._plan, self._connection, self._reader)
        )
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            work.cancel()
            await asyncio.gather(work, stopped, return_exceptions=True)
        if not work.cancelled() and (error := work.exception()) is not None:
            raise error

    async def _keep_connection(self) -> Connection | None:
        connection = self._connection
        if connection is None:
            return None
        again = self._kind == "cold" and self._plan.warm and self._truncated is None
        if again and await _still_usable(connection, self._recorder):
            return connection
        await connection.link.close()
        return None


async def _still_usable(connection: Connection, recorder: Recorder) -> bool:
    """Whether the peer keeps the connection open for another request. What it sent since the
    response ended (a GOAWAY, a FIN) is taken in, so that the next run does not begin with it."""
    if not connection.http.reusable():
        return False
    for _ in range(LEFTOVER_READS):
        try:
            items = await connection.link.receive(recorder.now_ns())
        except TimeoutError:
            connection.link.write(connection.http.data_to_send())
            return connection.http.reusable()
        for item in items:
            if isinstance(item, Closed):
                return False
            connection.http.receive(item.data, item.stamp)
    return False


def _redirected(plan: Plan, reader: ResponseReader) -> Plan | None:
    """The plan that a redirect leads to; None when the response is none, or leads nowhere we can
    go."""
    if reader.status not in REDIRECTS or not reader.location:
        return None
    # A far side's Location is data: a bad one ends the trip, not the program.
    target = _target(plan.target.url, reader.location)
    if target is None:
        return None
    changed = replace(plan, target=target)
    if reader.status == 303 or (reader.status in (301, 302) and plan.method == "POST"):
        # RFC 9110, 15.4.4; for 301 and 302 user agents do the same (15.4.2, 15.4.3).
        changed = replace(changed, method="GET", body=None)
    if target.authority != plan.target.authority or target.scheme != plan.target.scheme:
        headers = tuple((name, value) for name, value in plan.headers if not is_secret_header(name))
        changed = replace(changed, headers=headers, sni=None)
    return changed


def _target(base: str, location: str) -> Target | None:
    try:
        return parse_url(urljoin(base, location))
    except (UsageError, ValueError):  # ValueError: urljoin's own, for brackets that hold no IPv6
        return None


@asynccontextmanager
async def _quiet() -> AsyncIterator[None]:
    """No garbage collection while measuring: a full collection is milliseconds of lateness."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
