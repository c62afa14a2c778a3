"""The word-like tokens of the paced engine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reference_server.text.pieces import count_pieces, split_pieces


@given(st.text())
def test_pieces_joined_give_the_text_again(text: str) -> None:
    pieces = split_pieces(text)
    assert "".join(pieces) == text
    assert len(pieces) == count_pieces(text)


def test_a_piece_is_a_word_with_the_space_before_it() -> None:
    assert split_pieces("Why, BGP 65001?") == ["Why", ",", " BGP", " 650", "01", "?"]


def test_no_piece_is_empty_and_lone_surrogates_are_counted() -> None:
    assert split_pieces("\ud800a\n\n b") == ["\ud800", "a", "\n\n", " b"]
    assert split_pieces("") == []
