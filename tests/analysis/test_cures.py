"""The cures: every line is somebody's configuration, and says how far it is known to help."""

from __future__ import annotations

from pathlib import Path

import pytest

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.cures import MOST, Cure, all_cures, cure_text, cures_for

CURABLE = (
    Answer.WHOLE_BODY,
    Answer.SIZE_BUFFER,
    Answer.TIMER,
    Answer.ONE_EVENT_HOLD,
    Answer.INITIAL_HOLD,
    Answer.HEADERS_HELD,
    Answer.COMPRESSION,
    Answer.TLS_RECORD_BUFFER,
    Answer.TRANSPORT_CORK,
    Answer.THROTTLE,
)


@pytest.mark.parametrize("cure", all_cures(), ids=lambda cure: cure.product)
def test_a_cure_has_lines_answers_and_a_source(cure: Cure) -> None:
    assert cure.lines
    assert cure.source
    assert cure.answers
    assert set(cure.answers) <= {answer.value for answer in Answer}
    assert all(sign == sign.lower() and ": " in sign for sign in cure.signs)


@pytest.mark.parametrize("answer", CURABLE)
def test_every_box_has_a_cure(answer: Answer) -> None:
    assert cure_text(answer.value, {}).startswith("Cure: ")


def test_a_product_that_shows_itself_is_named_alone() -> None:
    found = cures_for("whole-body", {"server": "Caddy"})
    assert [cure.product for cure in found] == ["Caddy"]


def test_without_a_sign_a_few_are_named() -> None:
    assert len(cures_for("whole-body", {"server": "gunicorn"})) == MOST


def test_what_was_not_measured_says_so() -> None:
    assert "(not verified here)" in cure_text("whole-body", {"server": "Microsoft-IIS/10.0"})


def test_nothing_is_advised_for_a_healthy_stream() -> None:
    assert cure_text("streaming", {}) == ""


def test_every_product_not_measured_here_stands_on_its_page() -> None:
    page = (Path(__file__).parents[2] / "docs/proxies/elsewhere.md").read_text()
    measured_elsewhere = {"Apache httpd"}  # has a page of its own
    for cure in all_cures():
        if cure.verified is None and cure.product not in measured_elsewhere:
            assert f"| {cure.product} |" in page
            assert all(f"`{line}`" in page for line in cure.lines)
