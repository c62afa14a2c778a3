"""What `idle` and `calibrate` share: the plan, the check that the test streams are there, Ctrl-C,
and a line of progress on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, fields, replace

from promptpath.cli.measure import secrets_of, stop_on_signals
from promptpath.cli.options import ActiveOptions, DialOptions, TraceOptions
from promptpath.cli.outputs import Output
from promptpath.cli.plan_builder import Prepared, prepare
from promptpath.cli.streams import say
from promptpath.errors import ExitCode, MeasureError
from promptpath.model.enums import EventKind, Stage
from promptpath.model.names import FAILURE, HTTP_STATUS, STREAM_DIALECT
from promptpath.model.redact import redact_url
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_S
from promptpath.model.urls import parse_url
from promptpath.probe.active import CALIBRATE, StreamTest, ask_for, base_path, run_tests
from promptpath.probe.clock import RunClock

_PROGRESS_S = 1.0
_CHECK_NS = 30 * NS_PER_S
"""For the first, short stream: as long as a gateway usually waits for its server."""


@dataclass(frozen=True, slots=True)
class ActiveResult:
    """What came of an active test."""

    traces: tuple[Trace, ...]
    interrupted: bool
    problem: MeasureError | None
    """Why there is nothing to judge; the traces then hold the first stream alone."""


Tests = Callable[[Sequence[Trace]], list[StreamTest] | None]
"""From the traces so far to the streams that come next; None: enough."""


def prepared(options: ActiveOptions) -> Prepared:
    """The plan of an active test. Raises UsageError."""
    dial = {item.name: getattr(options, item.name) for item in fields(DialOptions)}
    target = parse_url(options.url)
    # An API's own path would make it a prompt.
    folder = replace(target, path=base_path(target.path)).url
    return prepare(TraceOptions(url=folder, header=options.header, **dial))


def run_active(ready: Prepared, tests: Tests, *, label: str, longest_s: float) -> ActiveResult:
    """Check the endpoint, then run pass after pass."""
    return asyncio.run(_run(ready, tests, label, longest_s))


async def _run(ready: Prepared, tests: Tests, label: str, longest_s: float) -> ActiveResult:
    stop = asyncio.Event()
    clock = RunClock.start()
    secrets = secrets_of(ready)
    with stop_on_signals(stop):
        (first,) = await run_tests([check_test(ready)], stop=stop, clock=clock, secrets=secrets)
        problem = None if stop.is_set() else surface_problem(first, ready)
        if problem is not None or stop.is_set():
            return ActiveResult((first,), stop.is_set(), problem)
        traces: list[Trace] = []
        progress = _Progress(label, longest_s)
        async with progress.shown():
            while not stop.is_set() and (batch := tests(traces)):
                progress.begin(len(batch))
                traces += await run_tests(
                    batch, stop=stop, clock=clock, secrets=secrets, done=progress.one_ended
                )
    return ActiveResult(tuple(traces), stop.is_set(), None)


def finish(
    options: ActiveOptions, ready: Prepared, result: ActiveResult, outputs: list[Output]
) -> int:
    """Judge, write the files, print; returns the exit code."""
    # Only now: analysis and drawing must not make the start slow.
    from promptpath.cli.judge import document_of
    from promptpath.cli.show import write_bytes, write_text
    from promptpath.export import active_text, jsonfile

    document = document_of(result.traces, ready.plan, interrupted=result.interrupted)
    if result.problem is not None:
        summary = replace(document.summary, exit_code=int(ExitCode.UNMEASURED))
        document = replace(document, summary=summary)
        say(*result.problem.lines())
    for output in outputs:
        output.write(document)
    if options.json:
        write_bytes(jsonfile.write(document))
    elif text := active_text.render(document):
        write_text(text)
    return document.summary.exit_code


def check_test(ready: Prepared) -> StreamTest:
    """One event, to see whether the test streams are there."""
    limits = replace(ready.plan.limits, total_ns=_CHECK_NS)
    plan = replace(ready.plan, limits=limits)
    knobs = {"events": 1, "min_gap_ms": 0, "max_gap_ms": 0}
    return StreamTest(plan=ask_for(plan, CALIBRATE, knobs), about={"command": "check"})


def surface_problem(trace: Trace, ready: Prepared) -> MeasureError | None:
    """Why the endpoint cannot be tested, from its answer to `check_test`; None when it can."""
    if trace.fact(FAILURE):
        return _failed(trace.fact(FAILURE))
    dialect, status = trace.fact(STREAM_DIALECT), trace.fact(HTTP_STATUS)
    ended = any(event.kind is EventKind.END for event in trace.events)
    if isinstance(dialect, dict) and dialect.get("name") == "calibration" and ended:
        return None
    where = f"wait, {redact_url(check_test(ready).plan.target.url)}"
    if status == 429:
        return MeasureError(
            "the endpoint limits the rate of requests (429)",
            stage=Stage.WAIT.value,
            code="rate-limited",
            expected="a dozen streams at a time",
            where=where,
            hint="wait, or raise --test-streams of the server behind it",
        )
    return MeasureError(
        f"there is no reference server behind this URL (status {status})",
        stage=Stage.WAIT.value,
        code="no-calibration",
        expected="a test stream",
        where=where,
        hint="run 'promptpath serve --engine none' behind the same boxes and name that URL;"
        " for any other endpoint: promptpath trace URL",
    )


def _failed(failure: object) -> MeasureError:
    record = failure if isinstance(failure, dict) else {}
    return MeasureError(
        str(record.get("what")),
        stage=str(record.get("stage")),
        code=str(record.get("code")),
        expected=record.get("expected"),
        where=record.get("where"),
        hint=record.get("hint"),
    )


class _Progress:
    """One line on standard error: what runs, and the time left."""

    def __init__(self, label: str, longest_s: float) -> None:
        self._label = label
        self._left_s = longest_s
        self._streams = 0
        self._ended = 0
        self._drawn = sys.stderr.isatty()

    def begin(self, streams: int) -> None:
        """A pass begins."""
        self._streams += streams

    def one_ended(self, index: int, trace: Trace) -> None:
        """A stream has ended."""
        self._ended += 1

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Draw while the block runs, once a second; where nobody looks, only say what begins."""
        if not self._drawn:
            print(f"{self._label}: up to {self._left_s:.0f} s", file=sys.stderr)
            yield
            return
        task = asyncio.create_task(self._draw())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    async def _draw(self) -> None:
        while True:
            line = (
                f"{self._label}: at most {self._left_s:.0f} s left,"
                f" {self._ended} of {self._streams} streams ended"
            )
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            await asyncio.sleep(_PROGRESS_S)
            self._left_s = max(0.0, self._left_s - _PROGRESS_S)
