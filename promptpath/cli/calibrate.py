"""`promptpath calibrate URL`: which box holds a stream back, how large it is, how slow, what cures
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath.analysis.calibration import fastest_ns, next_sizes, streams_of  # noqa: E402
from promptpath.analysis.calibration_pass import best_tries, judge_calibration, to_repeat  # noqa: E402
from promptpath.cli.active import Tests, finish, prepared, run_active  # noqa: E402
from promptpath.cli.options import CalibrateOptions  # noqa: E402
from promptpath.cli.outputs import Output  # noqa: E402
from promptpath.cli.plan_builder import Prepared  # noqa: E402
from promptpath.model.trace import Trace  # noqa: E402
from promptpath.probe.active import StreamTest  # noqa: E402
from promptpath.probe.calibrate import first_pass, next_sweep, single, variants  # noqa: E402

MOST_PASSES = 7
"""The first one, and six of the sweep: each divides what is left by nine, and 9^6 is more than
64 kB."""
TRIES = 2
"""Passes in which a variant may be seen to pass, before it counts as held."""
_USUAL_S = 10.0
"""The first pass takes 8 s (probe.calibrate.single)."""


def run(options: CalibrateOptions) -> int:
    """Measure, show, write; returns the exit code."""
    outputs = [Output(name) for name in options.output or []]
    try:
        ready = prepared(options)
        result = run_active(ready, _passes(ready), label="calibrate", longest_s=_USUAL_S)
        streams = streams_of(result.traces)
        if streams:
            traces = tuple(result.traces[run] for run in best_tries(streams))
            result = replace(result, traces=traces)
        return finish(options, ready, result, outputs)
    finally:
        for output in outputs:
            output.forget()


def _passes(ready: Prepared) -> Tests:
    plan, done = ready.plan, 0

    def tests(traces: Sequence[Trace]) -> list[StreamTest] | None:
        nonlocal done
        done += 1
        if done == 1:
            return first_pass(plan)
        streams = streams_of(traces)
        fastest, found = fastest_ns(streams), judge_calibration(streams)
        if fastest is None or found is None or done > MOST_PASSES:
            return None
        batch = next_sweep(plan, next_sizes(streams, fastest))
        if done <= TRIES:
            names, unclear = to_repeat(found)
            batch += [*variants(plan, names), *([single(plan)] if unclear else [])]
        return batch

    return tests
