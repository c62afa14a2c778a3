"""Signs and styles, and the gate that far-side text passes on its way to a terminal."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from rich.text import Text

from promptpath.model.enums import Severity, Stage
from promptpath.model.redact import printable
from promptpath.model.units import format_ms


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs that differ between a terminal and plain text."""

    bar: str
    rule: str
    plus_minus: str
    arrow: str


UNICODE = Glyphs(bar="█", rule="─", plus_minus="±", arrow="►")
ASCII = Glyphs(bar="#", rule="-", plus_minus="+-", arrow=">")

STAGE_STYLES: dict[Stage, str] = {
    Stage.DNS: "cyan",
    Stage.PROXY: "magenta",
    Stage.TCP: "blue",
    Stage.TLS: "blue",
    Stage.QUIC: "blue",
    Stage.REQUEST: "cyan",
    Stage.WAIT: "yellow",
    Stage.GENERATION: "green",
    Stage.FINISH: "cyan",
}
"""Of the top-level hops; those within take their hop's colour."""

SEVERITY_STYLES: dict[Severity, str] = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "yellow",
    Severity.INFO: "dim",
}


def safe(text: str) -> str:
    """Text that moves no cursor and hides nothing, tabs as blanks. Rich's markup is off everywhere,
    so square brackets stay what they are."""
    return printable(text).replace("\t", " ")


def duration(duration_ms: float | None) -> str:
    """A time for a table cell; a dash when there is none."""
    return "-" if duration_ms is None else format_ms(duration_ms)


def hanging(text: str, width: int, *, first: str, style: str = "") -> Text:
    """Text wrapped to the width, its further lines indented as deep as `first` is long."""
    lines = textwrap.wrap(text, width - len(first), break_on_hyphens=False) or [""]
    indent = "\n" + " " * len(first)
    return Text(first, style=style or "dim").append(indent.join(lines), style=style or "default")
