"""The paced engine's tokenizer: an approximation, by words.

It is no model's vocabulary: a piece is a word with the space before it, a number of at most three
digits, one other visible character, or a run of white space. For English text the count lies near
a BPE tokenizer's, for other scripts and code it does not. Prompt and answer are counted by this
same rule, so `usage` is consistent with itself.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r" ?[^\W\d_]+| ?\d{1,3}| ?[^\w\s]| ?_|\s+(?=\s)|\s")


def split_pieces(text: str) -> list[str]:
    """The pieces of `text`; joined they give `text` again."""
    return _PIECE.findall(text)


def count_pieces(text: str) -> int:
    """How many pieces `text` has, without keeping them."""
    return sum(1 for _ in _PIECE.finditer(text))
