"""The final view: a document as text for a person, in the shape of the prompt's trip.

Returns text and prints nothing; the only module beside `cli` that knows rich.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.text import Text

from promptpath.analysis.summary import run_kind
from promptpath.export.terminal.lesson import lesson
from promptpath.export.terminal.sections import (
    cadence_lines,
    findings,
    header_lines,
    instrument_line,
    server_line,
    verdict,
)
from promptpath.export.terminal.spread import spread_lines
from promptpath.export.terminal.style import ASCII, UNICODE, Glyphs
from promptpath.export.terminal.waterfall import waterfall
from promptpath.model.document import Document, Run
from promptpath.model.plan import PlanRecord

__all__ = ["render", "render_lines"]

MIN_WIDTH = 60
"""Columns below which a table of times cannot be read; narrower terminals scroll or wrap."""


def render(
    document: Document, *, width: int = 80, color: bool = False, explain: bool = False
) -> str:
    """The document as text `width` columns wide; without `color` plain ASCII but for far-side text.

    `explain` adds a sentence for each hop: what it is and what drives it. One run is shown whole.
    Of several, the last of each kind (cold, warm) is shown and the medians of all stand in a table.
    """
    glyphs = UNICODE if color else ASCII
    parts = list(_parts(document, glyphs, max(width, MIN_WIDTH)))
    if explain and document.runs:
        parts += [Text(), *lesson(document.runs[0].report)]
    return _to_text(Group(*parts), width, color)


def render_lines(lines: list[Text | str], *, width: int = 80, color: bool = False) -> str:
    """Lines of text in the same manner, for views that are no document."""
    return _to_text(Group(*lines), width, color)


def _to_text(renderable: RenderableType, width: int, color: bool) -> str:
    console = Console(
        file=StringIO(),
        width=max(width, MIN_WIDTH),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as capture:
        console.print(renderable)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _parts(document: Document, glyphs: Glyphs, width: int) -> Iterator[RenderableType]:
    shown = _shown(document.runs)
    for number, run in shown:
        if number != shown[0][0]:
            yield Text()
        if len(document.runs) > 1:
            yield Text(f"run {number} of {len(document.runs)}", style="bold")
        yield from _run(run, document.plan, glyphs, width)
    if len(document.runs) > 1:
        yield Text()
        yield from spread_lines(document.summary, glyphs)


def _shown(runs: tuple[Run, ...]) -> list[tuple[int, Run]]:
    """The last run of each kind, with its number."""
    last: dict[str, tuple[int, Run]] = {}
    for number, run in enumerate(runs, start=1):
        last[run_kind(run.trace)] = (number, run)
    return sorted(last.values(), key=lambda item: item[0])


def _run(run: Run, plan: PlanRecord, glyphs: Glyphs, width: int) -> Iterator[RenderableType]:
    yield from header_lines(run.trace, plan, width)
    if run.report.hops:
        yield Text()
        yield from waterfall(run.report, glyphs, width)
    details = [
        *cadence_lines(run.report, width),
        *server_line(run.report, width),
        *instrument_line(run.report, glyphs, width),
    ]
    if details:
        yield Text()
        yield from details
    yield from findings(run.report.findings, glyphs, width)
    yield Text()
    yield verdict(run)
