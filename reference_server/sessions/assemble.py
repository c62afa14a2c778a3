"""From what is remembered and what is new to one prompt that fits the context. Pure.

The order is: the request's own system messages, the history, the request's other messages. When
that is too long the oldest exchanges go, each from a user's message to before the next one; what
the request itself brings is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reference_server.text.prompt import Message, Prompt, PromptText, PromptTooLong

_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Assembled:
    """A prompt that fits."""

    prompt: Prompt
    history: int
    """Messages of the history in it."""
    dropped: int
    """Messages of the history that did not fit."""


def spoken(messages: Sequence[Message]) -> list[Message]:
    """What of a request becomes history: everything but its system messages."""
    return [message for message in messages if message.role not in _SYSTEM]


def assemble(
    text: PromptText, history: Sequence[Message], new: Sequence[Message], limit: int
) -> Assembled:
    """As much of the latest history as fits. Raises PromptTooLong when not even `new` does."""
    system = [message for message in new if message.role in _SYSTEM]
    said = spoken(new)
    turns = [number for number, message in enumerate(history) if message.role == "user"]
    starts = sorted({0, *turns, len(history)})

    def from_start(index: int) -> Prompt | None:
        try:
            return text.chat([*system, *history[starts[index] :], *said], limit)
        except PromptTooLong:
            return None

    prompt = from_start(0)
    if prompt is not None:
        return Assembled(prompt, len(history), 0)
    # A later start is a shorter prompt, so the earliest one that fits is found by halving.
    found: Assembled | None = None
    low, high = 1, len(starts) - 1
    while low <= high:
        middle = (low + high) // 2
        prompt = from_start(middle)
        if prompt is None:
            low = middle + 1
        else:
            found = Assembled(prompt, len(history) - starts[middle], starts[middle])
            high = middle - 1
    if found is None:
        raise PromptTooLong
    return found
