"""How many tokens a text and each event of a stream have.

Tokens of an event: the whole text of its kind is encoded once, and each token belongs to the event
that brought its last byte. So the parts add up to the whole (encoding piece by piece over-counts:
a cut inside a word makes two tokens of one), an event may complete no token, and the work is
linear.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from promptpath.dialect.tokens.vocabulary import O200K_BASE, Vocabulary, o200k_base

USAGE: Final = "usage"
ESTIMATE: Final = "estimate"

MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Text kept for counting, UTF-8. 4 MiB are about a million tokens, more than any model answers at
once, and take under 0.5 s to encode (measured: 900,000 bytes of prose 26 ms, the worst text of
`vocabulary.MAX_SEGMENT_CHARS` 0.6 s). Beyond it the rest is estimated at the rate of the part
counted."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tokens and where it comes from: usage | o200k_base | estimate."""

    tokens: int
    source: str


def count_source(vocabulary: str | None, model: str | None) -> str:
    """Whether o200k_base is this model's own vocabulary or stands in for an unknown one.

    tiktoken's own table of model names decides; a vendor prefix ("openai/") is looked past. As a
    stand-in o200k_base is nearer than characters divided by four: see docs/commands/tokens.md.
    """
    if vocabulary != O200K_BASE or not model:
        return ESTIMATE
    from tiktoken.model import encoding_name_for_model

    name = model.rpartition("/")[2].removeprefix("ft:")
    try:
        return O200K_BASE if encoding_name_for_model(name).startswith("o200k") else ESTIMATE
    except KeyError:
        return ESTIMATE


def count_text(text: str, vocabulary: str | None, model: str | None) -> Count:
    """The tokens of a text for this dialect's vocabulary and model."""
    return Count(o200k_base().count(text), count_source(vocabulary, model))


class Pieces:
    """The text of one kind as it came, event by event; bounded."""

    def __init__(self, limit: int = MAX_KEPT_BYTES) -> None:
        self._limit = limit
        self._text = bytearray()
        self._sizes = array("I")
        self._rows = array("I")
        self._kept = 0
        """Pieces whose text was kept whole; after the first that was not, none is."""

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: int, text: str) -> None:
        """A piece that event number `row` brought."""
        data = text.encode("utf-8", "replace")
        self._rows.append(row)
        self._sizes.append(len(data))
        if self._kept == len(self._rows) - 1 and len(self._text) + len(data) <= self._limit:
            self._text += data
            self._kept += 1

    @property
    def whole(self) -> bool:
        """Whether all text was kept."""
        return self._kept == len(self._rows)

    def counts(self, vocabulary: Vocabulary) -> Iterator[tuple[int, int]]:
        """(row, tokens) of every piece, in order."""
        sizes = _token_sizes(vocabulary, self._text.decode())
        end = token_end = counted = 0
        size = next(sizes, 0)
        for row, piece in zip(self._rows[: self._kept], self._sizes, strict=False):
            end += piece
            tokens = 0
            while size and token_end + size <= end:
                token_end += size
                tokens += 1
                size = next(sizes, 0)
            counted += tokens
            yield row, tokens
        yield from self._estimated(counted / end if end else 0.25)

    def _estimated(self, tokens_per_byte: float) -> Iterator[tuple[int, int]]:
        """The pieces without text, at a rate; the rounding error is carried on, not lost."""
        owed = 0.0
        for row, piece in zip(self._rows[self._kept :], self._sizes[self._kept :], strict=True):
            owed += piece * tokens_per_byte
            tokens = int(owed)
            owed -= tokens
            yield row, tokens


def _token_sizes(vocabulary: Vocabulary, text: str) -> Iterator[int]:
    for segment in vocabulary.segments(text):
        for token in segment:
            yield len(vocabulary.token_bytes(token))
