"""`promptpath idle URL`: who ends silent streams, after how long, and what helps."""

from __future__ import annotations

from collections.abc import Sequence

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath.cli.active import Tests, finish, prepared, run_active  # noqa: E402
from promptpath.cli.options import IdleOptions  # noqa: E402
from promptpath.cli.outputs import Output  # noqa: E402
from promptpath.cli.plan_builder import Prepared  # noqa: E402
from promptpath.errors import UsageError  # noqa: E402
from promptpath.model.trace import Trace  # noqa: E402
from promptpath.model.units import NS_PER_S, Ns, parse_duration_ns  # noqa: E402
from promptpath.probe.active import StreamTest  # noqa: E402
from promptpath.probe.idle import AFTER_NS, LATE_NS, SHORTEST_NS, idle_tests  # noqa: E402

LONGEST_NS = 3_590 * NS_PER_S
"""The reference server is silent for an hour at most."""


def run(options: IdleOptions) -> int:
    """Measure, show, write; returns the exit code."""
    longest_ns = _longest_ns(options.max)
    outputs = [Output(name) for name in options.output or []]
    try:
        ready = prepared(options)
        seconds = (longest_ns + LATE_NS + AFTER_NS) / NS_PER_S
        result = run_active(ready, _one_pass(ready, longest_ns), label="idle", longest_s=seconds)
        return finish(options, ready, result, outputs)
    finally:
        for output in outputs:
            output.forget()


def _longest_ns(text: str) -> Ns:
    try:
        longest_ns = parse_duration_ns(text)
    except UsageError as error:
        raise UsageError(f"--max: {error.what}", expected=error.expected) from error
    if not SHORTEST_NS <= longest_ns <= LONGEST_NS:
        raise UsageError(
            f"--max {text} is out of range",
            expected=f"{SHORTEST_NS // NS_PER_S}s to {LONGEST_NS // NS_PER_S}s",
        )
    return longest_ns


def _one_pass(ready: Prepared, longest_ns: Ns) -> Tests:
    def tests(traces: Sequence[Trace]) -> list[StreamTest] | None:
        return None if traces else idle_tests(ready.plan, longest_ns)

    return tests
