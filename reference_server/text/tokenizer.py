"""Text to token ids and back: a `tiktoken.Encoding` over a model's own vocabulary.

tiktoken ends with a PanicException, which is no Exception, where it meets a byte without a rank or
a run of about a million white-space characters: every byte gets a rank here, and long runs are cut.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import tiktoken

from reference_server.text.vocabulary import Vocabulary, VocabularyError

_LONGEST_SPACE = 8192
"""White-space characters in a row that are encoded as one run. The regular expression engine keeps
state for each and overflowed at 1,000,000 (measured; 100,000 were well)."""
_LONG_SPACE = re.compile(rf"\s{{{_LONGEST_SPACE}}}(?=\s)")


class Tokenizer:
    """Exact against Hugging Face `tokenizers` with the same vocabulary, but for text with bytes
    that the vocabulary lacks (both drop them; theirs then merges across the gap) and for more than
    8,192 white-space characters in a row."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises VocabularyError when the expression cannot be compiled."""
        self.vocabulary = vocabulary
        ids = {text: at for at, text in enumerate(vocabulary.tokens) if text is not None}
        ranks = {bytes([byte]): byte for byte in range(256)}
        for merged in vocabulary.merged:
            if merged in ids:
                ranks.setdefault(merged, len(ranks))
        self._id_of_rank = [ids.get(text) for text in ranks]
        self._names = {at: name.encode() for name, at in vocabulary.specials.items()}
        self.longest = max(map(len, ranks))
        """Bytes of the longest token: a text has at least its bytes / this many tokens."""
        try:
            self._encoding = tiktoken.Encoding(
                "model", pat_str=vocabulary.pattern, mergeable_ranks=ranks, special_tokens={}
            )
        except ValueError as error:
            raise VocabularyError(f"the vocabulary's expression: {error}") from None

    def encode(self, text: str) -> list[int]:
        """The ids of a text in which nothing is special: `<|im_end|>` in it is seven characters'
        worth of ordinary tokens. Bytes that the vocabulary lacks are dropped."""
        if self.vocabulary.nfc:
            text = unicodedata.normalize("NFC", text)
        id_of = self._id_of_rank
        found: list[int] = []
        for piece in _short_runs(text):
            ids = [id_of[rank] for rank in self._encoding.encode_ordinary(piece)]
            found += [at for at in ids if at is not None]
        return found

    def bytes_of(self, token_id: int) -> bytes:
        """What a token adds to the text: nothing for a special one or an unknown id."""
        tokens = self.vocabulary.tokens
        return (tokens[token_id] or b"") if 0 <= token_id < len(tokens) else b""

    def label(self, token_id: int) -> bytes:
        """What a token is called in a list of probabilities: its bytes, or its special name."""
        return self._names.get(token_id) or self.bytes_of(token_id)


def _short_runs(text: str) -> Iterator[str]:
    """The text, cut inside of runs of white space that are too long to be handled at once."""
    start = 0
    for run in _LONG_SPACE.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]
