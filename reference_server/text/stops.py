"""Stop texts: where an answer ends, whatever the tokens' borders."""

from __future__ import annotations


class StopTexts:
    """Passes text on, up to the first stop text.

    Of several stop texts the one that is complete first ends the text, of those complete at the
    same character the longest; so the result does not depend on how the text was cut.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        """No stop text may be empty."""
        self._stops = stops
        self._held = ""
        self.stop_text: str | None = None
        """The stop text that has come."""

    def push(self, text: str) -> str:
        """What can no longer become a stop text; nothing once stopped."""
        if self.stop_text is not None:
            return ""
        whole = self._held + text
        found = [(at + len(s), at) for s in self._stops if (at := whole.find(s)) >= 0]
        if found:
            end, start = min(found)
            self.stop_text = whole[start:end]
            self._held = ""
            return whole[:start]
        held = max((_overlap(whole, stop) for stop in self._stops), default=0)
        self._held = whole[len(whole) - held :]
        return whole[: len(whole) - held]

    def end(self) -> str:
        """What was held back, when nothing follows."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    longest = min(len(text), len(stop) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(stop[:n])), 0)
