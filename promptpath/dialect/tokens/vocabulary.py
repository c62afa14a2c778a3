"""o200k_base as a `tiktoken.Encoding`, built from package data: at once, offline, on first use.

`tiktoken.get_encoding` would fetch the vocabulary from the network. Loading takes 0.25 s (measured:
tiktoken import 27 ms, unpacking 37 + 74 ms, tiktoken's own tables 116 ms), so it happens when the
stream is over, never while it is measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

from promptpath.dialect.tokens.ranks import O200K_TOKENS, unpack

if TYPE_CHECKING:
    import tiktoken

O200K_BASE: Final = "o200k_base"
PACKED_SHA256: Final = "87153d9c9c01efca072ae40a1c59a5f696bfde9ddabbbe94195df7a12d45080d"
"""Of data/o200k_base.xz."""

MAX_SEGMENT_CHARS: Final = 32_768
"""Longest text handed to tiktoken at once. Measured with tiktoken 0.14: 1,000,000 spaces overflow
its regex stack and panic (a BaseException), 1,000,000 times "a" take 0.36 s; 32,768 of anything
take under 10 ms. A cut falls before white space where there is some; elsewhere it may add one
token."""

_SPECIAL: Final = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}
_PATTERN: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""The split pattern and special tokens of o200k_base, from tiktoken's
tiktoken_ext/openai_public.py."""


class Vocabulary:
    """A vocabulary that texts can be cut with. Special tokens in a text are text."""

    def __init__(self, name: str, encoding: tiktoken.Encoding, tokens: list[bytes]) -> None:
        self.name = name
        self._encoding = encoding
        self._tokens = tokens

    def encode(self, text: str) -> list[int]:
        """The token ids of a text; never fails (lone surrogates become U+FFFD)."""
        return [token for segment in self.segments(text) for token in segment]

    def segments(self, text: str) -> Iterator[list[int]]:
        """The same, piece by piece: bounded work at a time."""
        for segment in cut(text):
            yield self._encoding.encode_ordinary(segment)

    def count(self, text: str) -> int:
        """How many tokens a text has."""
        return sum(len(segment) for segment in self.segments(text))

    def sizes(self, text: str) -> bytes:
        """How many bytes of the text each token is, one byte a token (the longest has 128)."""
        return b"".join(
            bytes(len(self.token_bytes(token)) for token in segment)
            for segment in self.segments(text)
        )

    def token_bytes(self, token: int) -> bytes:
        """The bytes a token stands for: not always whole characters. Raises KeyError for an id
        that is none."""
        if 0 <= token < len(self._tokens):
            return self._tokens[token]
        return self._encoding.decode_single_token_bytes(token)


@cache
def o200k_base() -> Vocabulary:
    """The vocabulary of OpenAI's models since GPT-4o."""
    from importlib import resources  # 8 ms that a start-up need not pay

    import tiktoken

    packed = resources.files(__package__).joinpath("data/o200k_base.xz").read_bytes()
    tokens = unpack(packed, O200K_TOKENS, PACKED_SHA256)
    encoding = tiktoken.Encoding(
        O200K_BASE,
        pat_str=_PATTERN,
        mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
        special_tokens=_SPECIAL,
    )
    return Vocabulary(O200K_BASE, encoding, tokens)


def cut(text: str, limit: int = MAX_SEGMENT_CHARS) -> Iterator[str]:
    """The text in pieces of at most `limit` characters, cut before white space where possible."""
    start = 0
    while len(text) - start > limit:
        end = start + limit
        space = max(text.rfind(" ", start + 1, end), text.rfind("\n", start + 1, end))
        if space > start + limit // 2:
            end = space
        yield text[start:end]
        start = end
    yield text[start:]
