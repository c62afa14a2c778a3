from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from promptpath.export.annotations import MOST, escape_data, escape_property, write
from promptpath.export.check_text import render
from tests.export.checks import WORSE, check

LINE = re.compile(r"::(error|warning) (?:file=([^,:]+),line=(\d+),)?title=([^,:]+)::(.*)")


def test_what_fails_is_an_error_at_its_line_and_what_is_open_a_warning() -> None:
    matches = [LINE.fullmatch(line) for line in write(check())]
    found = [match.groups()[:4] for match in matches if match is not None]
    assert len(found) == len(matches)
    file, line = "ci/paths.toml", "7"
    assert found == [
        ("error", file, line, "chat%3A require-streaming"),
        ("error", file, line, "chat%3A PP412 why"),
        ("error", None, None, "down%3A could not be measured"),
        ("warning", file, line, "chat%3A max-hold 2.00 s"),
        ("warning", file, line, "chat%3A PP419 why"),
        ("warning", None, None, "down%3A max-ttft 2.00 s"),
    ]


def test_strict_makes_an_open_budget_an_error() -> None:
    lines = [line for line in write(check(strict=True)) if "max-hold" in line]
    assert [line[:7] for line in lines] == ["::error"]


def test_no_more_than_github_shows() -> None:
    result = check()
    many = type(result)(tool=result.tool, targets=result.targets[:1] * 20)
    lines = list(write(many))
    assert sum(line.startswith("::error") for line in lines) == MOST


def test_escapes_are_those_of_the_toolkit() -> None:
    assert escape_data("50%") == "50%25"
    assert escape_property("a: b, c%") == "a%3A b%2C c%25"


@given(st.text(max_size=60))
def test_hostile_text_begins_no_command(text: str) -> None:
    hostile = f"{text}{WORSE}"
    for line in write(check(name=hostile, text=hostile)):
        assert LINE.fullmatch(line) and "##[" not in line
    for line in render(check(name=hostile, text=hostile)).splitlines():
        assert not line.strip().startswith("::") and "##[" not in line and "\x1b" not in line
