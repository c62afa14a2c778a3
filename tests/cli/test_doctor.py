from __future__ import annotations

import json
from dataclasses import replace

import pytest

from promptpath.cli.doctor import report
from promptpath.cli.main import run
from promptpath.model.enums import Clock
from promptpath.probe.capability import Ability, Examination, ReadDelay

GOOD = Examination(
    abilities=(Ability("kernel receive stamps", True, "arrivals known to 300 ns"),),
    clock=Clock.KERNEL,
    error_ns=300,
    read_delay=ReadDelay(median_ns=80_000, p99_ns=400_000, certified=99, segments=100),
)


def test_each_ability_is_a_line_and_the_clock_the_end() -> None:
    assert report(GOOD) == (
        "kernel receive stamps     yes arrivals known to 300 ns\n\n"
        "arrivals are stamped by the kernel clock, +-300 ns\n\n"
        "without kernel stamps they would be 80 us late (median), 400 us (p99), just now\n"
        "on this machine\n"
    )


def test_a_machine_without_stamps_is_told_so() -> None:
    poor = replace(
        GOOD,
        abilities=(Ability("kernel receive stamps", False, "word " * 40),),
        clock=Clock.USER,
        error_ns=None,
        read_delay=None,
    )
    text = report(poor)
    assert text.endswith("arrivals are stamped by the user clock\n")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.slow
def test_this_machine_can_be_examined(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["schema"] == "promptpath.doctor/1" and said["clock"] in ("kernel", "user")
    assert {ability["name"] for ability in said["abilities"]} >= {"TCP_INFO", "IPv4 route"}
