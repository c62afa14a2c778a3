"""`promptpath check [URL|FILE.toml]`: holds paths against budgets, for CI."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath import __version__  # noqa: E402
from promptpath.analysis.budgets import BudgetVerdict, judge_budget, judge_idle  # noqa: E402
from promptpath.analysis.check import (  # noqa: E402
    CheckResult,
    TargetResult,
    seen_findings,
    unmeasured,
)
from promptpath.analysis.idle import fates_of  # noqa: E402
from promptpath.analysis.idle_pass import judge_pass  # noqa: E402
from promptpath.cli.active import ActiveResult, prepared, run_active  # noqa: E402
from promptpath.cli.check_options import CheckOptions  # noqa: E402
from promptpath.cli.check_outputs import CheckOutputs  # noqa: E402
from promptpath.cli.check_targets import CheckTarget, config_of, targets_of  # noqa: E402
from promptpath.cli.judge import document_of  # noqa: E402
from promptpath.cli.measure import measure  # noqa: E402
from promptpath.cli.options import DialOptions, IdleOptions  # noqa: E402
from promptpath.cli.plan_builder import Prepared  # noqa: E402
from promptpath.cli.streams import say  # noqa: E402
from promptpath.cli.trace import PROMPT_PATHS  # noqa: E402
from promptpath.export import digest  # noqa: E402
from promptpath.model.document import Document, Tool  # noqa: E402
from promptpath.model.names import HTTP_STATUS  # noqa: E402
from promptpath.model.plan import Target  # noqa: E402
from promptpath.model.trace import Trace  # noqa: E402
from promptpath.model.units import NS_PER_S, Ns  # noqa: E402
from promptpath.probe.active import StreamTest  # noqa: E402
from promptpath.probe.idle import AFTER_NS, LATE_NS, idle_tests  # noqa: E402

RATE_LIMITED = 429
"""RFC 6585, 4: whoever says it is not asked again."""
_PACED = ("--engine", "paced", "--itl-ms", "10")
"""A check is of the path: it must not wait for a model to load; 128 tokens then take 1.3 s."""
LIMITED = "the endpoint limits the rate of requests (429)"


def run(options: CheckOptions) -> int:
    """Measure all targets, judge, write; returns the exit code."""
    outputs = CheckOutputs(options)
    try:
        with _served(options) as served:
            targets = targets_of(served)
            for target in targets:
                for notice in target.ready.notices:
                    say(f"note: {target.name}: {notice}")
            result = CheckResult(
                tool=Tool(name="promptpath", version=__version__),
                targets=tuple(_check_all(targets, options)),
            )
        outputs.write(result)
        return result.exit_code
    finally:
        outputs.forget()


@contextlib.contextmanager
def _served(options: CheckOptions) -> Iterator[CheckOptions]:
    """The options with a URL; without one, of the bundled server while the block runs."""
    if options.target is not None or config_of(options) or options.curl is not None:
        yield options
        return
    from promptpath.cli.bundled import bundled_server

    with bundled_server(*_PACED) as server:
        yield replace(
            options,
            target=server.url + PROMPT_PATHS.get(options.dialect, PROMPT_PATHS[None]),
            cacert=options.cacert or server.ca_file,
            model=options.model or server.model,
            proxy="none" if options.proxy == "env" else options.proxy,
        )


def _check_all(targets: Sequence[CheckTarget], options: CheckOptions) -> Iterator[TargetResult]:
    """Each target's result, one after the other: they must not disturb one another. Ends at Ctrl-C;
    a host that limits the rate is not asked again."""
    limited: set[tuple[str, int]] = set()
    for target in targets:
        peer = _peer(target.ready.plan.target)
        if peer in limited:
            why = f"not asked: {target.ready.plan.target.authority} limits the rate (429)"
            yield _result(target, options, _Measured(problem=(why,)))
            continue
        measured = _measure(target)
        if measured.limited:
            limited.add(peer)
        yield _result(target, options, measured)
        if measured.interrupted:
            return


def _peer(target: Target) -> tuple[str, int]:
    return target.host, target.port


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What came of one target."""

    document: Document | None = None
    idle: Document | None = None
    problem: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    limited: bool = False
    interrupted: bool = False


def _measure(target: CheckTarget) -> _Measured:
    """The runs, and the idle pass where one is asked for and the target answers."""
    plan = target.ready.plan
    once = replace(target.ready, plan=replace(plan, repeat=1))
    traces: list[Trace] = []
    interrupted = limited = False
    for _ in range(target.options.repeat):
        measured = measure(once, [])
        traces += measured.traces
        interrupted = measured.interrupted
        status = traces[-1].fact(HTTP_STATUS) if traces else None
        limited = status == RATE_LIMITED
        if interrupted or limited or status is None:
            break
    if not traces:
        return _Measured(interrupted=interrupted)
    plan = replace(plan, repeat=target.options.repeat)
    document = document_of(traces, plan, interrupted=interrupted)
    notes = [LIMITED] if limited else []
    if len(traces) < target.options.repeat:
        notes.append(f"{len(traces)} of {target.options.repeat} runs were made")
    done = _Measured(
        document=document,
        problem=_problem(document),
        notes=tuple(notes),
        limited=limited,
        interrupted=interrupted,
    )
    budget = target.idle_budget
    if budget is None or budget.limit_ns is None or interrupted or limited or done.problem:
        return done
    return _with_idle(done, target, budget.limit_ns)


def _problem(document: Document) -> tuple[str, ...]:
    """Why a run could not be measured; empty when all could."""
    failed = unmeasured(document.runs)
    if failed is None:
        return ()
    return tuple(digest.failure(failed.trace)) or ("no response head arrived",)


def _with_idle(done: _Measured, target: CheckTarget, limit_ns: Ns) -> _Measured:
    """The same with an idle pass that seeks timers up to the limit."""
    ready = _idle_plan(target)
    seconds = (limit_ns + LATE_NS + AFTER_NS) / NS_PER_S

    def tests(traces: Sequence[Trace]) -> list[StreamTest] | None:
        return None if traces else idle_tests(ready.plan, limit_ns)

    result: ActiveResult = run_active(ready, tests, label="idle", longest_s=seconds)
    problem: tuple[str, ...] = ()
    if result.problem is not None:
        problem = ("--min-idle needs a reference server", *result.problem.lines())
    return replace(
        done,
        idle=document_of(result.traces, ready.plan, interrupted=result.interrupted),
        problem=problem,
        interrupted=result.interrupted,
    )


def _idle_plan(target: CheckTarget) -> Prepared:
    """The plan of `promptpath idle` for the same target, with the same key."""
    options = target.options
    dial = {item.name: getattr(options, item.name) for item in fields(DialOptions)}
    key = target.ready.key
    headers = [*(options.header or []), *(f"{n}: {v}" for n, v in (key.headers if key else ()))]
    url = target.ready.plan.target.url
    return prepared(IdleOptions(url=url, header=headers or None, **dial))


def _result(target: CheckTarget, options: CheckOptions, measured: _Measured) -> TargetResult:
    runs = () if measured.document is None else measured.document.runs
    return TargetResult(
        name=target.name,
        url=target.url,
        place=target.place,
        document=measured.document,
        idle=measured.idle,
        problem=measured.problem,
        notes=measured.notes,
        budgets=tuple(_budget_verdicts(target, measured)),
        findings=seen_findings(runs, target.allowed),
        strict=options.strict,
        interrupted=measured.interrupted,
    )


def _budget_verdicts(target: CheckTarget, measured: _Measured) -> Iterator[BudgetVerdict]:
    runs = () if measured.document is None else measured.document.runs
    for budget in target.budgets:
        if budget is not target.idle_budget:
            yield judge_budget(budget, runs, target.allowed)
            continue
        traces = [] if measured.idle is None else [run.trace for run in measured.idle.runs]
        yield judge_idle(budget, judge_pass(fates_of(traces)))
