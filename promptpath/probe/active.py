"""Active tests: many designed streams of the reference server at once, each a trace of its own.

All streams of one pass share one clock and one t0, so that their times compare without a sum. Each
has its own connection: what cuts one cannot cut another by accident.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import (
    MARK_GOAWAY,
    MARK_TRANSPORT_END,
    RUN,
    TEST,
    TEST_KEPT,
)
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from promptpath.model.units import Ns
from promptpath.probe.clock import RunClock
from promptpath.probe.connect import Connection, open_connection, prepare, snapshot
from promptpath.probe.exchange import Exchange, LimitReached
from promptpath.probe.link import Closed
from promptpath.probe.recorder import Recorder
from promptpath.wire.http import Goaway

CALIBRATE = "calibrate"
SILENCE = "silence"
"""The two test streams, by the last part of their path (docs/commands/serve.md)."""
_FOLDER = "/promptpath/"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTest:
    """One stream to ask for."""

    plan: Plan
    about: dict[str, Json] = field(default_factory=dict)
    """The fact `names.TEST`."""
    keep_idle_ns: Ns | None = None
    """After the response leave the connection idle so long, then ask again over it."""


Done = Callable[[int, Trace], None]
"""Called with a test's index and its trace as soon as it has ended."""


def base_path(path: str) -> str:
    """Where the test streams are, for the path a person typed: behind its prefix, or beside the API
    it names."""
    path = path.partition("?")[0]
    for known in (_FOLDER, "/v1/"):
        front, found, _ = path.partition(known)
        if found:
            return front + _FOLDER
    return path.rstrip("/") + _FOLDER


def ask_for(plan: Plan, stream: str, knobs: Mapping[str, str | int | float]) -> Plan:
    """The plan of a test stream: a GET with these knobs, and nothing that only explains a run."""
    path = base_path(plan.target.path) + stream
    if knobs:
        path += "?" + urlencode(knobs)
    return replace(
        plan,
        target=replace(plan.target, path=path),
        method="GET",
        body=None,
        resume=False,
        dns_detail=False,
        repeat=1,
        warm=False,
    )


async def run_tests(
    tests: Sequence[StreamTest],
    *,
    stop: asyncio.Event,
    clock: RunClock,
    secrets: tuple[str, ...] = (),
    done: Done | None = None,
) -> list[Trace]:
    """All streams at the same time; their traces in the order of the tests. When `stop` is set,
    what was measured until then. Never raises for what the far side does."""
    if not tests:
        return []
    prepare(tests[0].plan)
    streams = [_Stream(test, index, clock, secrets) for index, test in enumerate(tests)]
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()  # a full collection is milliseconds of lateness
    try:
        return await asyncio.gather(*(stream.run(stop, done) for stream in streams))
    finally:
        if enabled:
            gc.enable()


class _Stream:
    """One test while it runs."""

    def __init__(
        self, test: StreamTest, index: int, clock: RunClock, secrets: tuple[str, ...]
    ) -> None:
        self._test = test
        self._index = index
        self._clock = clock
        self._recorder = Recorder(clock, secrets=secrets)
        self._connection: Connection | None = None
        self._truncated: str | None = None

    async def run(self, stop: asyncio.Event, done: Done | None) -> Trace:
        """Measure until the stream ends, a limit is reached or `stop` is set."""
        work = asyncio.create_task(self._measure())
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
        if self._connection is not None:
            await self._connection.link.close()
        trace = Trace(clock=self._clock.info(), log=self._recorder.log, truncated=self._truncated)
        if done is not None:
            done(self._index, trace)
        return trace

    async def _measure(self) -> None:
        recorder, plan = self._recorder, self._test.plan
        recorder.observed(RUN, {"kind": "cold", "index": self._index, "reused": False})
        recorder.observed(TEST, self._test.about)
        total_ns = plan.limits.total_ns
        deadline_ns = None if total_ns is None else recorder.now_ns() + total_ns
        try:
            connect_ns = recorder.now_ns() + plan.limits.connect_ns
            if deadline_ns is not None:
                connect_ns = min(connect_ns, deadline_ns)
            connection = self._connection = await open_connection(recorder, plan, connect_ns)
            await self._exchange(connection, deadline_ns)
            if self._test.keep_idle_ns is not None:
                await self._keep_idle(connection, self._test.keep_idle_ns)
        except LimitReached as limit:
            self._truncated = limit.name
            recorder.limit(limit.name, limit.value)
        except MeasureError as error:
            recorder.failure(error)

    async def _exchange(self, connection: Connection, deadline_ns: Ns | None) -> None:
        exchange = Exchange(self._recorder, self._test.plan, connection, deadline_ns, ping=False)
        try:
            await exchange.run()
        finally:
            snapshot(self._recorder, connection.link, "end")

    # -- an idle connection ----------------------------------------------------------------------

    async def _keep_idle(self, connection: Connection, keep_ns: Ns) -> None:
        """Watch the connection do nothing, then see whether it still takes a request."""
        recorder = self._recorder
        began_ns = recorder.now_ns()
        if not connection.http.reusable():
            value: dict[str, Json] = {"idle_ns": None, "closed": None, "reused": None}
            recorder.observed(TEST_KEPT, value)
            return
        closed = await self._closed_while_idle(connection, began_ns + keep_ns)
        if closed is not None:
            idle_ns = closed.stamp.at_ns - began_ns
            value = {"idle_ns": idle_ns, "closed": closed.how, "reused": False}
            recorder.observed(TEST_KEPT, value)
            return
        idle_ns = recorder.now_ns() - began_ns
        reused = False
        with suppress(MeasureError, LimitReached):
            await self._exchange(connection, recorder.now_ns() + self._test.plan.limits.connect_ns)
            reused = True
        recorder.observed(TEST_KEPT, {"idle_ns": idle_ns, "closed": None, "reused": reused})

    async def _closed_while_idle(self, connection: Connection, until_ns: Ns) -> Closed | None:
        """How the peer ended the idle connection; None when it did not. A GOAWAY is the end too:
        no further request may be sent (RFC 9113, 6.8)."""
        link, http = connection.link, connection.http
        while True:
            try:
                items = await link.receive(until_ns)
            except TimeoutError:
                return None
            for item in items:
                if isinstance(item, Closed):
                    self._recorder.mark(
                        Stage.FINISH,
                        MARK_TRANSPORT_END,
                        item.stamp,
                        conn=link.conn,
                        detail={"how": item.how},
                    )
                    return item
                for event in http.receive(item.data, item.stamp):
                    if isinstance(event, Goaway):
                        self._recorder.mark(
                            Stage.FINISH,
                            MARK_GOAWAY,
                            event.stamp,
                            conn=link.conn,
                            detail={"code": event.code, "last_stream": event.last_stream},
                        )
                        return Closed("goaway", event.stamp)
            link.write(http.data_to_send())
