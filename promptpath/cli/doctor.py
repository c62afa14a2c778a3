"""`promptpath doctor`: what this machine can measure and how well, tried out on loopback."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import msgspec

from promptpath.cli.judge import this_machine
from promptpath.cli.options import DoctorOptions
from promptpath.cli.show import PLAIN_WIDTH, write_bytes, write_text
from promptpath.model.codec import encode
from promptpath.model.units import format_duration
from promptpath.probe.capability import Examination, examine

DOCTOR_SCHEMA = "promptpath.doctor/1"
_NAME = 26


def run(options: DoctorOptions) -> int:
    """Print what works here. Always 0: a machine that can less is no error."""
    found = asyncio.run(examine())
    if options.json:
        write_bytes([encode(as_json(found)), b"\n"])
    else:
        machine = ", ".join(str(value) for value in this_machine().values())
        write_text(f"{machine}\n\n{report(found)}")
    return 0


def as_json(found: Examination) -> dict[str, Any]:
    """The examination as the document that --json prints."""
    values: dict[str, Any] = msgspec.to_builtins(found)
    return {"schema": DOCTOR_SCHEMA, "machine": this_machine(), **values}


def report(found: Examination) -> str:
    """A line an ability, then how good a stamp is."""
    lines: list[str] = []
    for ability in found.abilities:
        word = "yes" if ability.works else "no"
        lines += textwrap.wrap(
            ability.detail,
            PLAIN_WIDTH,
            initial_indent=f"{ability.name:<{_NAME}}{word:<4}",
            subsequent_indent=" " * (_NAME + 4),
        )
    for line in _conclusion(found):
        lines += ["", *textwrap.wrap(line, PLAIN_WIDTH)]
    return "\n".join([*lines, ""])


def _conclusion(found: Examination) -> list[str]:
    lines = [f"arrivals are stamped by the {found.clock.value} clock"]
    if found.error_ns is not None:
        lines[0] += f", +-{format_duration(found.error_ns)}"
    delay = found.read_delay
    if delay is not None:
        lines.append(
            f"without kernel stamps they would be {format_duration(delay.median_ns)} late"
            f" (median), {format_duration(delay.p99_ns)} (p99), just now on this machine"
        )
    return lines
