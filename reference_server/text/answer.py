"""An answer's text as its tokens come: never half a character, never part of a stop text."""

from __future__ import annotations

import codecs

from reference_server.text.stops import StopTexts
from reference_server.text.tokenizer import Tokenizer


class Answer:
    """An `engine.loop.AnswerText`: token ids to text."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...] = ()) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopTexts(stops)

    @property
    def stop_text(self) -> str | None:
        """The stop text that has come."""
        return self._stops.stop_text

    def push(self, token_id: int) -> str:
        """The text that is certain now; bytes that are no UTF-8 become U+FFFD."""
        return self._stops.push(self._decoder.decode(self._tokenizer.bytes_of(token_id)))

    def end(self) -> str:
        """What was held back for a stop text. Half a character, cut by the limit of tokens, is
        left out."""
        return self._stops.end()
