"""Answers: no half characters, and no stop texts across tokens."""

from __future__ import annotations

from reference_server.text.answer import Answer
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


def test_half_a_character_at_the_end_is_left_out() -> None:
    answer = Answer(TINY)
    assert answer.push(_bytes("é")[0]) == "" and answer.end() == ""


def test_bytes_that_are_no_character_are_replaced_and_cost_no_later_one() -> None:
    answer = Answer(TINY)
    first, second = _bytes("é")
    assert [answer.push(at) for at in (second, first, *_bytes("a"))] == ["\ufffd", "", "\ufffda"]


def test_a_stop_text_across_tokens_and_characters_ends_the_answer() -> None:
    answer = Answer(TINY, ("é!",))
    assert "".join(answer.push(at) for at in _bytes("café! more")) == "caf"
    assert answer.stop_text == "é!"
