"""What makes a product let a stream pass: the lines of configuration, by what was found.

The data stand in cures.toml, each cure with the version it was measured with or its source.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from promptpath.model.redact import printable

MOST = 3
"""Cures named in one finding, where no header tells the product."""


@dataclass(frozen=True, slots=True)
class Cure:
    """One product's cure."""

    product: str
    answers: tuple[str, ...]
    """The buffering answers it cures."""
    lines: tuple[str, ...]
    """Of its configuration."""
    verified: str | None
    """The version it was measured with; None: not verified here."""
    source: str
    signs: tuple[str, ...]
    """"header: piece of its value", lower case."""

    def shows(self, headers: Mapping[str, str]) -> bool:
        """Whether the response headers (lower-case names) suggest the product."""
        for sign in self.signs:
            name, _, piece = sign.partition(": ")
            if name in headers and piece in headers[name].lower():
                return True
        return False

    @property
    def text(self) -> str:
        """In one line, with how far it is known to help."""
        known = f"verified here with {self.verified}" if self.verified else "not verified here"
        return f"{self.product}: {' '.join(self.lines)} ({known})"


@cache
def all_cures() -> tuple[Cure, ...]:
    """Every cure, in the order of the file."""
    document = tomllib.loads(files("promptpath.analysis").joinpath("cures.toml").read_text())
    return tuple(
        Cure(
            product=entry["product"],
            answers=tuple(entry["answers"]),
            lines=tuple(entry["lines"]),
            verified=entry.get("verified"),
            source=entry["source"],
            signs=tuple(entry["signs"]),
        )
        for entry in document["cure"]
    )


def cures_for(answer: str, headers: Mapping[str, str]) -> tuple[Cure, ...]:
    """The cures of an answer: those of the products that the headers suggest, else the first few
    of all; headers are hints only, half of the products measured leave none."""
    fitting = [cure for cure in all_cures() if answer in cure.answers]
    shown = [cure for cure in fitting if cure.shows(headers)]
    return tuple(shown or fitting[:MOST])


def cure_text(answer: str, headers: Mapping[str, str]) -> str:
    """The cures as advice; empty when there is none."""
    found = cures_for(answer, headers)
    if not found:
        return ""
    return printable("Cure: " + "; or ".join(cure.text for cure in found) + ".")
