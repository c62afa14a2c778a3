"""How many tokens a text and each event of a stream have.

Tokens of an event: the whole text of its kind is encoded once, and each token belongs to the event
that brought its last byte. So the parts add up to the whole (encoding piece by piece over-counts:
a cut inside a word makes two tokens of one), an event may complete no token, and the work is
linear.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from promptpath.dialect.tokens.vocabulary import O200K_BASE

USAGE: Final = "usage"
ESTIMATE: Final = "estimate"

MAX_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Text kept for counting, UTF-8. 4 MiB are about a million tokens, more than any model answers at
once, and take under 0.5 s to encode (measured: 900,000 bytes of prose 26 ms, the worst text of
`vocabulary.MAX_SEGMENT_CHARS` 0.6 s). Beyond it the rest is estimated at the rate of the part
counted."""


ONE_EACH: Final = "one-each"
SCALED: Final = "scaled"
COUNTED: Final = "counted"

_MARKER_TOKENS: Final = 4
_MARKER_SHARE: Final = 0.02
"""How many more tokens than events `usage` may have in a stream of one token an event: end-of-turn
and formatting tokens carry no text. Recorded: 0 to 4 more (OpenAI, Azure, Groq, DeepSeek,
llama-box), the medians of all recorded OpenAI, Mistral, DeepSeek and Ollama streams are 1.00 to
1.02 tokens an event."""
_ESTIMATE_ERROR: Final = 0.25
"""Worst difference of an o200k_base count from another vocabulary's: 23 % over 11 recorded
answers."""
_PLAUSIBLE: Final = 2.0
"""Usage beyond this factor of the estimate is not about this text (recorded: 1.03 to 1.30 for
answers of 40 characters or more, 1.8 for the shortest)."""


@dataclass(frozen=True, slots=True)
class Count:
    """A number of tokens and where it comes from: usage | o200k_base | estimate."""

    tokens: int
    source: str
    per_event: str = COUNTED
    """How the tokens of single events were had: `counted`; `one-each`, as usage says; or `scaled`,
    so that they add up to usage."""


def correct(estimates: array[int], usage: int | None) -> tuple[array[int], str]:
    """The tokens of the events of one stream, estimated with a vocabulary that is not the model's,
    brought in line with the number of streamed tokens that the endpoint reports.

    Most servers send an event a token; where usage and estimate agree with that, each event has
    one. Else the estimates are scaled to the sum, unless usage is missing or about something else.
    """
    events, total = len(estimates), sum(estimates)
    if not usage or not total:
        return estimates, COUNTED
    extra = usage - events
    if (
        0 <= extra <= _MARKER_TOKENS + _MARKER_SHARE * events
        and abs(total - events) <= _ESTIMATE_ERROR * events
    ):
        return array("I", [1]) * events, ONE_EACH
    ratio = usage / total
    if not 1 / _PLAUSIBLE <= ratio <= _PLAUSIBLE:
        return estimates, COUNTED
    return array("I", _whole(tokens * ratio for tokens in estimates)), SCALED


def _whole(shares: Iterable[float]) -> Iterator[int]:
    """Whole numbers with the same running sum; what rounding leaves is carried on, not lost."""
    given = 0
    due = 0.0
    for share in shares:
        due += share
        whole = round(due) - given
        given += whole
        yield whole


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
    def text(self) -> bytes:
        """What was kept, UTF-8."""
        return bytes(self._text)

    @property
    def whole(self) -> bool:
        """Whether all text was kept."""
        return self._kept == len(self._rows)

    def counts(self, token_sizes: bytes) -> Iterator[tuple[int, int]]:
        """(row, tokens) of every piece, in order; `token_sizes` are those of `text`
        (`Vocabulary.sizes`)."""
        sizes = iter(token_sizes)
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
        """The pieces without text, at a rate."""
        rest = self._sizes[self._kept :]
        shares = _whole(piece * tokens_per_byte for piece in rest)
        yield from zip(self._rows[self._kept :], shares, strict=True)
