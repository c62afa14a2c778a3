"""`promptpath matrix URL`: the same prompt over several paths, and what differs beyond the
error."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from promptpath.probe.kernel_support import start_keeper

start_keeper()  # before the slow imports: the kernel needs 2 ms to switch stamping on

from promptpath import __version__  # noqa: E402
from promptpath.analysis.matrix import ALPHA, cell_of, compare, run_of, sentence  # noqa: E402
from promptpath.cli.judge import document_of  # noqa: E402
from promptpath.cli.matrix_options import (  # noqa: E402
    Cell,
    MatrixOptions,
    applied,
    cells_of,
    factors_of,
    shown,
)
from promptpath.cli.measure import measure  # noqa: E402
from promptpath.cli.options import DialOptions, PromptOptions, TraceOptions  # noqa: E402
from promptpath.cli.outputs import ResultFile  # noqa: E402
from promptpath.cli.plan_builder import Prepared, prepare  # noqa: E402
from promptpath.cli.show import write_bytes, write_text  # noqa: E402
from promptpath.cli.streams import say  # noqa: E402
from promptpath.errors import ExitCode, UsageError  # noqa: E402
from promptpath.export import matrix_text  # noqa: E402
from promptpath.export.formats import suffix_of  # noqa: E402
from promptpath.model.codec import encode  # noqa: E402
from promptpath.model.document import Tool  # noqa: E402
from promptpath.model.matrix import MATRIX_SCHEMA, MatrixReport, MatrixRun  # noqa: E402
from promptpath.model.names import HTTP_STATUS  # noqa: E402
from promptpath.model.redact import redact_url  # noqa: E402

RATE_LIMITED = 429
"""RFC 6585, 4: whoever says it is not asked again."""


@dataclass(slots=True)
class _Measuring:
    """A cell with what came of it so far."""

    cell: Cell
    ready: Prepared
    runs: list[MatrixRun] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _End:
    """How the measuring ended."""

    interrupted: bool = False
    notes: list[str] = field(default_factory=list)


def run(options: MatrixOptions) -> int:
    """Measure, show, write; returns the exit code."""
    for name in options.output or []:
        if suffix_of(name) not in (".json", ".md"):
            raise UsageError(f"no format for {name!r}", expected="a file name in .json or .md")
    factors = factors_of(options)
    cells = [
        _Measuring(cell, _prepared(options, cell))
        for cell in cells_of(factors, crossed=options.cross)
    ]
    files = [ResultFile(name) for name in options.output or []]
    try:
        for notice in dict.fromkeys(note for one in cells for note in one.ready.notices):
            say(f"note: {notice}")
        end = _measure_all(cells, options)
        report = _report(cells, options, factors, end)
        for file in files:
            file.write_pieces(_pieces(report, file.name))
        if options.json:
            write_bytes([encode(report), b"\n"])
        else:
            write_text(matrix_text.render(report))
        return report.exit_code
    finally:
        for file in files:
            file.forget()


def _prepared(options: MatrixOptions, cell: Cell) -> Prepared:
    """The cell's plan: one run of it. Raises UsageError, naming the cell."""
    shared = [*fields(DialOptions), *fields(PromptOptions)]
    values = {item.name: getattr(options, item.name) for item in shared}
    values |= applied(cell)
    try:
        return prepare(TraceOptions(url=options.url, **values))
    except UsageError as error:
        raise UsageError(
            error.what,
            expected=error.expected,
            where=f"the cell {cell.name}" + (f" ({error.where})" if error.where else ""),
            hint=error.hint or "name the levels that this target can have: --vary FACTOR=A,B",
        ) from error


def order_of(count: int, repeat: int, seed: int) -> Iterator[tuple[int, list[int]]]:
    """Each round with the order of its cells. Shuffled: what drifts or repeats on the path meets
    every cell alike."""
    source = random.Random(seed)
    for round_ in range(repeat):
        order = list(range(count))
        source.shuffle(order)
        yield round_, order


def _measure_all(cells: Sequence[_Measuring], options: MatrixOptions) -> _End:
    """All rounds, one run at a time. Ends at Ctrl-C and at the first 429."""
    end = _End()
    for round_, order in order_of(len(cells), options.repeat, options.seed):
        for position, index in enumerate(order):
            limited = _measure_one(cells[index], end, round_, position)
            if limited:
                end.notes.append("ended early: the endpoint limits the rate of requests (429)")
            if limited or end.interrupted:
                return end
    return end


def _measure_one(one: _Measuring, end: _End, round_: int, position: int) -> bool:
    """One run of one cell; whether the endpoint limits the rate. A warm cell's is the second on its
    connection; where the first failed there is none, and the first says why."""
    measured = measure(one.ready, [])
    end.interrupted = measured.interrupted
    if measured.interrupted or not measured.traces:
        return False
    document = document_of(measured.traces, one.ready.plan)
    last = document.runs[-1]
    result = run_of(last, round_=round_, position=position)
    if one.ready.plan.warm and len(document.runs) == 1 and result.reason is None:
        why = "the connection could not be used again"
        result = replace(result, outcome="failed", reason=why, metrics={}, errors={})
    one.runs.append(result)
    one.codes.append(last.report.exit_code)
    return bool(last.trace.fact(HTTP_STATUS) == RATE_LIMITED)


def _report(
    cells: Sequence[_Measuring],
    options: MatrixOptions,
    factors: dict[str, tuple[str, ...]],
    end: _End,
) -> MatrixReport:
    found = [cell_of(one.cell.name, one.cell.public, one.runs) for one in cells]
    comparisons = compare(found)
    if end.interrupted:
        end.notes.append("interrupted: what was measured until then")
    return MatrixReport(
        schema=MATRIX_SCHEMA,
        tool=Tool(name="promptpath", version=__version__),
        url=redact_url(cells[0].ready.plan.target.url),
        repeat=options.repeat,
        seed=options.seed,
        alpha=ALPHA,
        factors={name: tuple(map(shown, levels)) for name, levels in factors.items()},
        crossed=options.cross,
        baseline=cells[0].cell.name,
        cells=tuple(found),
        comparisons=comparisons,
        sentence=sentence(found, comparisons),
        notes=tuple(end.notes),
        interrupted=end.interrupted,
        exit_code=_exit_code(cells, end),
    )


def _exit_code(cells: Sequence[_Measuring], end: _End) -> int:
    """A cell that got no response is a result; only when all are so, nothing was measured."""
    if end.interrupted:
        return int(ExitCode.INTERRUPTED)
    answered = [code for one in cells for code in one.codes if code != ExitCode.UNMEASURED]
    if not answered:
        return int(ExitCode.UNMEASURED)
    return int(ExitCode.FINDING if any(answered) else ExitCode.OK)


def _pieces(report: MatrixReport, name: str) -> list[bytes]:
    if suffix_of(name) == ".md":
        return [matrix_text.markdown(report).encode()]
    return [encode(report), b"\n"]
