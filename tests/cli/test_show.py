from __future__ import annotations

import io
import json

import pytest

from promptpath.cli.show import show, wants_color, write_text
from tests.export.documents import document, hostile_trip, trip


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "no_color", "wanted"),
    [
        ({}, False, True),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({}, True, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    environ: dict[str, str], no_color: bool, wanted: bool
) -> None:
    assert wants_color(Terminal(), no_color=no_color, environ=environ) == wanted
    assert not wants_color(io.StringIO(), no_color=no_color, environ=environ)


def test_json_is_the_document_and_nothing_else(capfd: pytest.CaptureFixture[str]) -> None:
    show(document([trip()]), as_json=True, no_color=False)
    out, err = capfd.readouterr()
    assert json.loads(out)["schema"] == "promptpath.report/1" and err == ""


def test_text_that_is_no_terminals_is_plain(capfd: pytest.CaptureFixture[str]) -> None:
    show(document([hostile_trip()]), as_json=False, no_color=False)
    out, _ = capfd.readouterr()
    assert "\x1b" not in out and out.startswith("POST ")


def test_what_the_encoding_lacks_is_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    write_text("a\ud800b\n")
    assert capfd.readouterr().out == "a\\ud800b\n"
