"""`promptpath calibrate URL`: which box holds a stream back, how large it is, how slow, what cures
it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath.analysis.calibration import fastest_ns, next_sizes, streams_of  # noqa: E402
from promptpath.cli.active import ActiveResult, Tests, prepared, run_active  # noqa: E402
from promptpath.cli.options import CalibrateOptions  # noqa: E402
from promptpath.cli.outputs import Output  # noqa: E402
from promptpath.cli.plan_builder import Prepared  # noqa: E402
from promptpath.errors import ExitCode  # noqa: E402
from promptpath.model.trace import Trace  # noqa: E402
from promptpath.probe.active import StreamTest  # noqa: E402
from promptpath.probe.calibrate import first_pass, next_sweep  # noqa: E402

MOST_PASSES = 7
"""The first one, and six of the sweep: each divides what is left by nine, and 9^6 is more than
64 kB."""
_USUAL_S = 10.0
"""The first pass takes 8 s (probe.calibrate.single)."""


def run(options: CalibrateOptions) -> int:
    """Measure, show, write; returns the exit code."""
    outputs = [Output(name) for name in options.output or []]
    try:
        ready = prepared(options)
        result = run_active(ready, _passes(ready), label="calibrate", longest_s=_USUAL_S)
        return _finish(options, ready, result, outputs)
    finally:
        for output in outputs:
            output.forget()


def _passes(ready: Prepared) -> Tests:
    done = 0

    def tests(traces: Sequence[Trace]) -> list[StreamTest] | None:
        nonlocal done
        done += 1
        if not traces:
            return first_pass(ready.plan)
        streams = streams_of(traces)
        fastest = fastest_ns(streams)
        if fastest is None or done > MOST_PASSES:
            return None
        return next_sweep(ready.plan, next_sizes(streams, fastest))

    return tests


def _finish(
    options: CalibrateOptions, ready: Prepared, result: ActiveResult, outputs: list[Output]
) -> int:
    from promptpath.analysis.calibration_pass import judge_calibration
    from promptpath.cli.judge import document_of
    from promptpath.cli.show import write_bytes, write_text
    from promptpath.export import jsonfile
    from promptpath.export.calibration_text import render

    document = document_of(result.traces, ready.plan, interrupted=result.interrupted)
    if result.problem is not None:
        summary = replace(document.summary, exit_code=int(ExitCode.UNMEASURED))
        document = replace(document, summary=summary)
        print("\n".join(result.problem.lines()), file=sys.stderr)
    for output in outputs:
        output.write(document)
    if options.json:
        write_bytes(jsonfile.write(document))
    elif found := judge_calibration(streams_of([each.trace for each in document.runs])):
        write_text(render(found))
    return document.summary.exit_code
