"""A matrix for people: the medians, each difference, one sentence; as text and as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from promptpath.analysis.matrix import METRICS
from promptpath.model.matrix import Comparison, Difference, MatrixCell, MatrixReport
from promptpath.model.redact import printable

_WIDTH = 80
_COLUMN = 10
_WORDS = {
    Difference.LOWER: "lower",
    Difference.HIGHER: "higher",
    Difference.NONE: "no difference beyond the error",
    Difference.TOO_FEW: "too few runs to tell",
}


def render(report: MatrixReport) -> str:
    """The whole text, at most 80 columns."""
    lines = [*_wrapped(f"matrix {printable(report.url)}"), *_wrapped(_design(report)), ""]
    wide = min(_WIDTH - 8, max([4, *(len(cell.name) for cell in report.cells)]))
    for start in range(0, len(METRICS), 3):
        lines += [*_medians(report.cells, list(METRICS)[start : start + 3], wide), ""]
    for cell in report.cells[1:]:
        lines += _differences(cell, report)
    lines += _wrapped(printable(report.sentence))
    for note in report.notes:
        lines += _wrapped(f"note: {printable(note)}")
    return "\n".join(lines) + "\n"


def markdown(report: MatrixReport) -> str:
    """The same for a ticket."""
    names = " | ".join(METRICS.values())
    lines = ["# promptpath matrix", "", f"`{_cell_text(report.url)}`", "", report.sentence, ""]
    lines = [*map(printable, lines), _design(report), ""]
    lines += [f"| cell | ok | {names} |", "|---|---" + "|---:" * len(METRICS) + "|"]
    for cell in report.cells:
        values = " | ".join(_median(cell, metric) for metric in METRICS)
        lines.append(f"| {_cell_text(cell.name)} | {_count(cell)} | {values} |")
    lines += [
        "",
        "| cell | metric | shift, ms | error, ms | p (Holm) | |",
        "|---|---|---:|---:|---:|---|",
    ]
    for one in report.comparisons:
        lines.append(
            f"| {_cell_text(one.cell)} | {METRICS[one.metric]} | {one.shift_ms:+.3f} |"
            f" {one.error_ms:.3f} | {_p(one.p_holm)} | {_WORDS[one.difference]} |"
        )
    return "\n".join([*lines, *(f"\n{printable(note)}" for note in report.notes)]) + "\n"


def _design(report: MatrixReport) -> str:
    how = "all combinations" if report.crossed else "one factor at a time"
    return (
        f"{report.repeat} rounds, order shuffled in each (seed {report.seed}), {how};"
        f" baseline {printable(report.baseline)}; medians in ms"
    )


def _medians(cells: Sequence[MatrixCell], metrics: Sequence[str], wide: int) -> list[str]:
    head = "".join(METRICS[metric].rjust(_COLUMN) for metric in metrics)
    lines = [f"{'cell':{wide}}"[:_WIDTH] + "     ok" + head]
    if wide + 7 + _COLUMN * len(metrics) > _WIDTH:
        lines = [" " * 7 + head]
    for cell in cells:
        row = _count(cell).rjust(7) + "".join(_median(cell, m).rjust(_COLUMN) for m in metrics)
        name = printable(cell.name)
        if wide + len(row) > _WIDTH:
            lines += [*_wrapped(name), row]
        else:
            lines.append(f"{name:{wide}}{row}")
    return lines


def _differences(cell: MatrixCell, report: MatrixReport) -> list[str]:
    found = [one for one in report.comparisons if one.cell == cell.name]
    if not found:
        return []
    title = f"{cell.name} less {report.baseline}"
    return [*_wrapped(printable(title)), *(_difference(one) for one in found), ""]


def _difference(one: Comparison) -> str:
    shift = f"{one.shift_ms:+.2f} ms".rjust(14)
    return (
        f"  {METRICS[one.metric]:9}{shift}  error {one.error_ms:.3f}  p {_p(one.p_holm)}"
        f"  {_WORDS[one.difference]}"
    )


def _median(cell: MatrixCell, metric: str) -> str:
    value = cell.medians.get(metric)
    return "-" if value is None else f"{value:.2f}"


def _count(cell: MatrixCell) -> str:
    return f"{sum(run.outcome == 'ok' for run in cell.runs)}/{len(cell.runs)}"


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _cell_text(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("`", "'")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, subsequent_indent="  ")
