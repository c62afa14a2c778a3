from __future__ import annotations

import pytest

from promptpath.export.terminal import render
from promptpath.export.terminal.lesson import LESSONS
from promptpath.model.enums import Stage
from tests.export.documents import by_hand, document, trip


@pytest.mark.parametrize("stage", Stage)
def test_each_stage_has_one_plain_sentence(stage: Stage) -> None:
    text = LESSONS[stage]
    assert text.isascii() and text[0].isupper() and text.endswith(".")
    assert len(text) <= 200 and text.count(". ") == 0


def test_it_follows_the_view_and_tells_each_hop_of_this_trip_once() -> None:
    plain, told = render(by_hand()), render(by_hand(), explain=True)
    assert told.startswith(plain)
    lesson = told.removeprefix(plain)
    assert lesson.startswith("\nwhat the hops are\n")
    assert lesson.count("TCP connect\n") == lesson.count("One round trip: the SYN") == 1
    assert "TLS 1.3, two" not in lesson  # This trip had no TLS hop.
    assert lesson.index("queue") < lesson.index("generation") < lesson.index("finish")


def test_it_fits_the_width() -> None:
    for width in (60, 80, 132):
        text = render(document([trip()]), width=width, explain=True)
        assert text.isascii() and max(map(len, text.splitlines())) <= width
