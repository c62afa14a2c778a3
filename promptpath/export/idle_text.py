"""An idle pass as plain text: a table of the streams, the products that fit, one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from promptpath.analysis.idle import Fate, StreamFate
from promptpath.analysis.idle_pass import Pass, sentence, title
from promptpath.model.redact import printable
from promptpath.model.units import Ns, format_duration

_MARKS = {Fate.SURVIVED: "ok", Fate.UNFINISHED: "..", Fate.UNMEASURED: "??"}
_HEAD = ("", "stream", "silent", "in all", "what ended it")


def render(fates: Sequence[StreamFate], found: Pass | None) -> str:
    """The pass for a person."""
    return "".join(f"{line}\n".rstrip(" ") for line in _lines(fates, found))


def _lines(fates: Sequence[StreamFate], found: Pass | None) -> Iterator[str]:
    yield from table([_HEAD, *(_row(fate) for fate in fates)])
    if found is None:
        return
    matches = found.matches()
    if matches:
        yield ""
        yield "known defaults that fit:"
    for match in matches:
        default, kinds = match.default, " and ".join(kind.value for kind in match.kinds)
        named = "; the response headers name it" if match.named else ""
        checked = "" if default.verified else "; not verified here"
        known = f"{default.setting}{named}{checked}"
        yield f"  {default.seconds:g} s, {kinds}: {default.product} ({known})"
        yield f"    cure: {default.cure}"
    yield ""
    yield sentence(found)


def _row(fate: StreamFate) -> tuple[str, ...]:
    mark = _MARKS.get(fate.fate, "!!")
    ended = printable(fate.how)
    if fate.expected and fate.keepalive in ("comment", "event"):
        ended += f"; {fate.keepalives} keepalives came, {fate.expected} were due"
    silent = None if fate.fate is Fate.SURVIVED and fate.at != "kept" else fate.silent_ns
    return mark, title(fate), _time(silent), _time(fate.after_request_ns), ended


def _time(duration_ns: Ns | None) -> str:
    return "-" if duration_ns is None else format_duration(duration_ns)


def table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Rows of cells in columns; the first row is the head, the last column as wide as it is."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield "  ".join([*cells, row[-1]]).rstrip()
