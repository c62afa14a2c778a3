"""What may be typed after `promptpath matrix`, and the cells it means."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from typer import Argument, Option

from promptpath.cli.options import DialOptions, ProcessOptions, PromptOptions, Text, Texts
from promptpath.errors import UsageError
from promptpath.model.redact import printable, redact_url

MOST_CELLS = 64
"""A guard against a slip: each cell costs --repeat prompts, 448 in all for so many."""

LEVELS: dict[str, tuple[str, ...]] = {
    "http": ("1.1", "2", "3"),
    "family": ("ipv4", "ipv6"),
    "proxy": ("none", "env"),
    "accept-encoding": ("identity", "gzip"),
    "warm": ("cold", "warm"),
}
"""The factors, each with the levels it has when none are named."""

_CLOSED = {
    "http": (*LEVELS["http"], "auto", "race"),
    "family": LEVELS["family"],
    "warm": LEVELS["warm"],
}
"""All levels of the factors that have no others."""

_SHORT = {"http": "http ", "proxy": "proxy ", "family": "", "accept-encoding": "", "warm": ""}


@dataclass(frozen=True, kw_only=True)
class MatrixOptions(ProcessOptions, DialOptions, PromptOptions):
    """`promptpath matrix URL`."""

    url: Annotated[
        Text, Argument(metavar="[URL]", help="What to measure; --curl brings its own.")
    ] = field(default=None, repr=False)
    vary: Annotated[
        Texts,
        Option(
            "--vary",
            metavar="FACTOR[=A,B]",
            help="http, family, proxy, accept-encoding, warm; with levels or a list (repeatable).",
        ),
    ] = None
    cross: Annotated[
        bool, Option("--cross", help="All combinations, not one factor at a time.")
    ] = False
    repeat: Annotated[
        int, Option("--repeat", metavar="N", min=1, help="Runs of each cell (7).")
    ] = 7
    seed: Annotated[int, Option("--seed", metavar="N", help="Of the order of the runs (1).")] = 1
    json: Annotated[
        bool, Option("--json", help="Print the JSON document (schema promptpath.matrix/1).")
    ] = False
    output: Annotated[
        Texts,
        Option(
            "--output", "-o", metavar="FILE", help="Also write FILE: .json or .md (repeatable)."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of levels."""

    name: str
    levels: Mapping[str, str] = field(repr=False)
    """As typed: a proxy's may hold a password."""

    @property
    def public(self) -> dict[str, str]:
        """The levels as they may be shown."""
        return {factor: shown(level) for factor, level in self.levels.items()}


def factors_of(options: MatrixOptions) -> dict[str, tuple[str, ...]]:
    """Each factor with its levels. Raises UsageError."""
    found: dict[str, tuple[str, ...]] = {}
    for text in options.vary or ["http"]:
        name, equals, levels = text.partition("=")
        pairs = [(name, tuple(levels.split(",")))] if equals else _defaults(text)
        for factor, values in pairs:
            _check(factor, values, found)
            found[factor] = values
    return found


def cells_of(factors: Mapping[str, tuple[str, ...]], *, crossed: bool) -> list[Cell]:
    """The cells, the baseline first. Raises UsageError when there are too many."""
    base = {factor: levels[0] for factor, levels in factors.items()}
    if crossed:
        combined = [
            dict(zip(factors, levels, strict=True))
            for levels in itertools.product(*factors.values())
        ]
    else:
        combined = [base]
        combined += [{**base, f: level} for f, levels in factors.items() for level in levels[1:]]
    if len(combined) > MOST_CELLS:
        raise UsageError(f"{len(combined)} cells", expected=f"at most {MOST_CELLS}")
    return [Cell(_name(levels), levels) for levels in combined]


def applied(cell: Cell) -> dict[str, Any]:
    """What the cell's levels are as options of `promptpath trace`."""
    changes: dict[str, Any] = {}
    for factor, level in cell.levels.items():
        if factor == "family":
            changes |= {"ipv4": level == "ipv4", "ipv6": level == "ipv6"}
        elif factor == "warm":
            changes["warm"] = level == "warm"
        else:
            changes[factor.replace("-", "_")] = level
    return changes


def shown(level: str) -> str:
    """A level without what must not be seen."""
    return printable(redact_url(level) if "://" in level else level)


def _defaults(text: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, LEVELS.get(name, ())) for name in text.split(",")]


def _check(factor: str, levels: tuple[str, ...], found: Mapping[str, object]) -> None:
    if factor not in LEVELS:
        raise UsageError(f"unknown factor {factor!r}", expected=", ".join(LEVELS), where="--vary")
    if factor in found:
        raise UsageError(f"the factor {factor} twice", expected="once", where="--vary")
    if len(levels) < 2 or len(set(levels)) < len(levels) or not all(levels):
        raise UsageError(
            f"--vary {factor} needs two or more different levels",
            expected=f"--vary {factor}=A,B",
            hint=f"for example --vary {factor}={','.join(LEVELS[factor])}",
        )
    known = _CLOSED.get(factor)
    unknown = [level for level in levels if known is not None and level not in known]
    if known is not None and unknown:
        raise UsageError(f"unknown level {unknown[0]!r} of {factor}", expected=", ".join(known))


def _name(levels: Mapping[str, str]) -> str:
    return ", ".join(f"{_SHORT[factor]}{shown(level)}" for factor, level in levels.items())
