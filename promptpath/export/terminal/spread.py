"""Several runs in one table: cold against warm, medians and their spread."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import set_cell_size
from rich.text import Text

from promptpath.export.figures import TITLES, metric_names, shown
from promptpath.export.terminal.style import Glyphs, safe
from promptpath.model.report import Spread, Summary

_NAME, _VALUE = 22, 10


def spread_lines(summary: Summary, glyphs: Glyphs) -> Iterator[Text]:
    """A row a metric. One kind of run: median, deviation, extremes. Cold and warm: both medians
    with their deviations, and what the warm connection saves."""
    kinds = list(summary.metrics)
    yield Text(f"medians of {summary.runs} runs", style="bold")
    sign = glyphs.plus_minus
    heads = ["min", "max"] if len(kinds) == 1 else []
    columns = [cell for kind in kinds for cell in (f"{safe(kind)} ({_count(summary, kind)})", sign)]
    if kinds == ["cold", "warm"]:
        heads = ["saved"]
    yield Text(_row("", [*columns, *heads]), style="dim")
    for name in metric_names(summary):
        found = [summary.metrics[kind].get(name) for kind in kinds]
        cells = [cell for spread in found for cell in _median(name, spread)]
        yield Text(_row(TITLES.get(name, safe(name)), [*cells, *_more(name, found, heads)]))


def _more(name: str, found: list[Spread | None], heads: list[str]) -> list[str]:
    if heads == ["saved"]:
        cold, warm = found
        if cold is None or warm is None or not name.endswith("_ms"):
            return []
        return [shown(name, cold.median - warm.median)]
    spread = found[0]
    if not heads or spread is None:
        return []
    return [shown(name, spread.min), shown(name, spread.max)]


def _median(name: str, spread: Spread | None) -> tuple[str, str]:
    if spread is None:
        return "-", ""
    return shown(name, spread.median), shown(name, spread.mad)


def _count(summary: Summary, kind: str) -> int:
    return max((spread.count for spread in summary.metrics[kind].values()), default=0)


def _row(name: str, cells: list[str]) -> str:
    return (set_cell_size(name, _NAME) + "".join(f"{cell:>{_VALUE}}" for cell in cells)).rstrip()
