"""The hops as rows whose bars lie where the time lies, cut by the line of the first token."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.cells import set_cell_size
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from promptpath.export.figures import share
from promptpath.export.terminal.style import STAGE_STYLES, Glyphs, duration, safe
from promptpath.model.enums import FactSource, Stage
from promptpath.model.report import Hop, Report

NAME = 27
"""Columns of the hop's name: the longest usual title ("wait for the first token") with its sign."""
TIME, ERROR, SHARE = 9, 9, 6
_SIGNS = {FactSource.OBSERVED: "", FactSource.REPORTED: " *", FactSource.INFERRED: " ~"}
_LEGEND = {
    FactSource.REPORTED: "* reported by the far side, not measured",
    FactSource.INFERRED: "~ inferred from the rest",
}


def waterfall(report: Report, glyphs: Glyphs, width: int) -> Iterator[RenderableType]:
    """Column heads, the hops, the line of the first token before generation, the sum."""
    view = _View(report, glyphs, width)
    yield Text(columns("hop", "time", glyphs.plus_minus, "share").rstrip(), style="dim")
    drawn = False
    for hop in report.hops:
        if not drawn and _after_first_token(hop):
            yield view.first_token_line()
            drawn = True
        yield from view.hop(hop)
    if not drawn:
        yield view.first_token_line()
    yield from view.sum()
    yield from view.legend()


def columns(name: str, time: str, error: str, part: str) -> str:
    """The text columns of one row; a name too long for its column is cut."""
    cut = set_cell_size(name, NAME)
    return f"{cut}{time:>{TIME}}{error:>{ERROR}}{part:>{SHARE}}  "


def place(start_ms: float, duration_ms: float, whole_ms: float, width: int) -> tuple[int, int]:
    """First cell and number of cells of a bar on a line of `width` cells: at least one cell for any
    time at all, never beyond the line."""
    if whole_ms <= 0 or duration_ms <= 0 or width <= 0:
        return 0, 0
    first = min(max(math.floor(width * start_ms / whole_ms), 0), width - 1)
    end = min(max(round(width * (start_ms + duration_ms) / whole_ms), first + 1), width)
    return first, end - first


def _after_first_token(hop: Hop) -> bool:
    return Stage.GENERATION in (hop.stage, hop.within) or hop.stage is Stage.FINISH


class _View:
    """One report at one width."""

    def __init__(self, report: Report, glyphs: Glyphs, width: int) -> None:
        self._report = report
        self._glyphs = glyphs
        self._width = width
        self._bar = width - NAME - TIME - ERROR - SHARE - 2

    def hop(self, hop: Hop) -> Iterator[RenderableType]:
        """The hop's row, and under it what made it so long."""
        indent = "" if hop.within is None else "  "
        row = Text(
            columns(
                f"{indent}{safe(hop.title)}{_SIGNS[hop.source]}",
                duration(hop.duration_ms),
                duration(hop.error_ms),
                share(hop.duration_ms, self._report.latency.e2e_ms),
            )
        )
        yield row.append_text(self._bar_of(hop))
        if hop.drivers:
            drivers = Text(safe("; ".join(hop.drivers)), style="dim")
            yield Padding(drivers, (0, 0, 0, len(indent) + 4))

    def first_token_line(self) -> Text:
        """A line across the rows: when the first visible token came, or why none did."""
        latency, sign = self._report.latency, self._glyphs.plus_minus
        if latency.ttft_ms is None:
            label = "no visible token"
            label += f": {safe(latency.ttft_never)}" if latency.ttft_never else ""
        else:
            label = f"first token at {duration(latency.ttft_ms)}"
            if latency.ttft_error_ms is not None:
                label += f" {sign} {duration(latency.ttft_error_ms)}"
            if latency.ttft_request_ms is not None:
                label += f", {duration(latency.ttft_request_ms)} after the request"
        label = label[: self._width - 8]
        fill = self._glyphs.rule * (self._width - len(label) - 5)
        return Text(f"{self._glyphs.rule * 3} {label} {fill}", style="bold")

    def sum(self) -> Iterator[Text]:
        """What lies between the hops, and the whole."""
        latency = self._report.latency
        whole = latency.e2e_ms
        if latency.unexplained_ms:
            between = duration(latency.unexplained_ms)
            part = share(latency.unexplained_ms, whole)
            yield Text(columns("between hops", between, "", part).rstrip(), style="dim")
        yield Text(columns("total", duration(whole), "", "").rstrip(), style="bold")

    def legend(self) -> Iterator[Text]:
        """What the signs behind the names mean, where there are any."""
        sources = {hop.source for hop in self._report.hops}
        texts = [text for source, text in _LEGEND.items() if source in sources]
        if texts:
            yield Text("; ".join(texts), style="dim")

    def _bar_of(self, hop: Hop) -> Text:
        """The hop's place in the trip; empty where its place is not known."""
        if hop.start_ms is None:
            return Text("")
        first, cells = place(hop.start_ms, hop.duration_ms, self._report.latency.e2e_ms, self._bar)
        style = STAGE_STYLES.get(hop.within or hop.stage, "")
        return Text(" " * first).append(self._glyphs.bar * cells, style=style)
