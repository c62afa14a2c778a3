"""A calibration as plain text: what each test shows, the variants, cures, one sentence."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.calibration_pass import (
    Calibration,
    Row,
    ramp_line,
    sentence,
    single_line,
    sweep_line,
)
from promptpath.export.idle_text import table
from promptpath.model.redact import printable
from promptpath.model.units import format_duration

_HEAD = ("", "variant", "HTTP", "hold p50", "p90", "max")


def render(found: Calibration) -> str:
    """The calibration for a person."""
    return "".join(f"{line}\n" for line in _lines(found))


def _lines(found: Calibration) -> Iterator[str]:
    yield f"ramp            {ramp_line(found)}"
    yield f"single events   {single_line(found)}"
    yield f"comments first  {sweep_line(found)}"
    yield ""
    yield from table([_HEAD, *(_row(row) for row in found.rows)])
    if found.cures:
        yield ""
        yield "cures:"
        for cure in found.cures:
            yield f"  {printable(cure.text)}"
    yield ""
    yield sentence(found)


def _row(row: Row) -> tuple[str, ...]:
    http = printable(row.http or "-")
    if row.held is None:
        status = "no stream" if row.status is None else f"status {row.status}"
        return "??", row.name, http, "-", "-", f"- ({status}, not whole)"
    mark = "ok" if row.held.passes else "!!"
    times = (row.held.p50_ns, row.held.p90_ns, row.held.max_ns)
    return (mark, row.name, http, *(format_duration(time_ns) for time_ns in times))
