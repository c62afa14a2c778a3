"""Answers: no half characters, no stop texts, whatever the tokens' borders."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reference_server.text.answer import Answer, StopTexts
from reference_server.text.tokenizer import Tokenizer
from tests.reference_server.text.tiny import vocabulary

TINY = Tokenizer(vocabulary())


def _bytes(text: str) -> list[int]:
    """One token a byte."""
    single = {data: at for at, data in enumerate(TINY.vocabulary.tokens) if data}
    return [single[bytes([byte])] for byte in text.encode()]


def test_a_character_comes_with_its_last_byte() -> None:
    answer = Answer(TINY)
    assert [answer.push(at) for at in _bytes("é😀!")] == ["", "é", "", "", "", "😀", "!"]
    assert answer.end() == ""


def test_half_a_character_at_the_end_is_a_replacement_character() -> None:
    answer = Answer(TINY)
    assert answer.push(_bytes("é")[0]) == "" and answer.end() == "\ufffd"


def test_bytes_that_are_no_character_are_replaced_and_cost_no_later_one() -> None:
    answer = Answer(TINY)
    first, second = _bytes("é")
    assert [answer.push(at) for at in (second, first, *_bytes("a"))] == ["\ufffd", "", "\ufffda"]


def test_only_what_may_become_a_stop_text_is_held_back() -> None:
    stops = StopTexts(("STOP",))
    assert [stops.push(piece) for piece in ("a S", "T", "x ST", "OP b", "c")] == [
        *("a ", "", "STx ", "", "")
    ]
    assert stops.stopped and stops.end() == ""


def test_what_was_held_back_comes_at_the_end() -> None:
    stops = StopTexts(("\n\nEnd", "###"))
    assert stops.push("done\n\nE") == "done" and stops.end() == "\n\nE"
    assert not stops.stopped


def test_a_stop_text_across_tokens_and_characters_ends_the_answer() -> None:
    answer = Answer(TINY, ("é!",))
    assert "".join(answer.push(at) for at in _bytes("café! more")) == "caf"
    assert answer.stopped


@pytest.mark.parametrize(
    ("stops", "left"), [(("abc", "b"), "a"), (("bc", "abc"), ""), (("c", "abcd"), "ab")]
)
def test_the_first_that_is_complete_ends_it(stops: tuple[str, ...], left: str) -> None:
    assert StopTexts(stops).push("abcd") == left


def _by_the_rule(text: str, stops: tuple[str, ...]) -> tuple[str, bool]:
    """The definition, character by character."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return text[: end - max(map(len, complete))], True
    return text, False


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=4).map(tuple),
    st.lists(st.integers(0, 30), max_size=8),
)
@example("aab", ("ab",), [2])
def test_the_result_does_not_depend_on_the_cuts(
    text: str, stops: tuple[str, ...], cuts: list[int]
) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    passed = StopTexts(stops)
    got = [passed.push(text[a:b]) for a, b in pairwise(edges)]
    assert ("".join(got) + passed.end(), passed.stopped) == _by_the_rule(text, stops)
