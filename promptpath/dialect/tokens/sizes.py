"""The token sizes of texts: what counting needs of a vocabulary, and small enough for a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from promptpath.dialect.tokens.vocabulary import o200k_base

_LENGTH_BYTES: Final = 4


def token_sizes(texts: Sequence[bytes]) -> list[bytes]:
    """For each UTF-8 text the sizes of its o200k_base tokens, one byte a token. Loads the
    vocabulary, unless all texts are empty."""
    return [o200k_base().sizes(text.decode("utf-8", "replace")) if text else b"" for text in texts]


def pack(parts: Iterable[bytes]) -> bytes:
    """Byte strings as one: before each its length, 4 bytes big-endian. Raises OverflowError for one
    of 4 GiB."""
    return b"".join(len(part).to_bytes(_LENGTH_BYTES) + part for part in parts)


def unpack(data: bytes) -> list[bytes]:
    """The byte strings again. Raises ValueError for bytes that `pack` did not make."""
    parts, position = [], 0
    while position < len(data):
        start = position + _LENGTH_BYTES
        position = start + int.from_bytes(data[start - _LENGTH_BYTES : start])
        parts.append(data[start:position])
    if position != len(data):
        raise ValueError(f"{len(data)} bytes where {position} were announced")
    return parts
