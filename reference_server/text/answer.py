"""An answer's text as its tokens come: never half a character, never part of a stop text."""

from __future__ import annotations

import codecs

from reference_server.text.tokenizer import Tokenizer


class StopTexts:
    """Passes text on, up to the first stop text.

    Of several stop texts the one that is complete first ends the text, of those complete at the
    same character the longest; so the result does not depend on how the text was cut.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        """No stop text may be empty."""
        self._stops = stops
        self._held = ""
        self.stopped = False

    def push(self, text: str) -> str:
        """What can no longer become a stop text; nothing once stopped."""
        if self.stopped:
            return ""
        whole = self._held + text
        found = [(at + len(s), at) for s in self._stops if (at := whole.find(s)) >= 0]
        if found:
            self.stopped = True
            self._held = ""
            return whole[: min(found)[1]]
        held = max((_overlap(whole, stop) for stop in self._stops), default=0)
        self._held = whole[len(whole) - held :]
        return whole[: len(whole) - held]

    def end(self) -> str:
        """What was held back, when nothing follows."""
        held, self._held = self._held, ""
        return held


class Answer:
    """An `engine.loop.AnswerText`: token ids to text."""

    def __init__(self, tokenizer: Tokenizer, stops: tuple[str, ...] = ()) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = StopTexts(stops)

    @property
    def stopped(self) -> bool:
        """A stop text has come."""
        return self._stops.stopped

    def push(self, token_id: int) -> str:
        """The text that is certain now; bytes that are no UTF-8 become U+FFFD."""
        return self._stops.push(self._decoder.decode(self._tokenizer.bytes_of(token_id)))

    def end(self) -> str:
        """What was held back; half a character becomes U+FFFD."""
        last = self._stops.push(self._decoder.decode(b"", final=True))
        return last + self._stops.end()


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
