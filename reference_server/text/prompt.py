"""From a conversation to what the engine is given: the seam between the API and a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reference_server.text.pieces import count_pieces


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: str
    parts: tuple[str, ...]
    """Its texts, in order; none for a message without content."""

    @property
    def text(self) -> str:
        """The parts, a line each."""
        return "\n".join(self.parts)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as the engine takes it."""

    count: int
    """Tokens."""
    ids: tuple[int, ...] = ()
    """The tokens; empty for an engine that only counts."""


class PromptTooLong(Exception):
    """The prompt has more tokens than the limit; counted no further."""


class PromptRefused(Exception):
    """There is no prompt for this model in the request; the text says why, for its sender."""


class PromptText(Protocol):
    """Turns text into a prompt, for one model."""

    @property
    def description(self) -> str:
        """What a person is told about the tokenizer."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Tokens that end an answer."""

    def chat(self, messages: Sequence[Message], limit: int) -> Prompt:
        """The conversation, ready for the assistant to answer. Raises PromptTooLong when it has
        more than `limit` tokens, PromptRefused when the model has no form for it."""

    def plain(self, text: str, limit: int) -> Prompt:
        """The text as it is, to be continued. Raises PromptTooLong, PromptRefused."""


class PacedText:
    """The `PromptText` of the paced engine: words are counted, there are no token ids."""

    description = "words, approximate (reference_server.text.pieces)"
    stop_ids: tuple[int, ...] = ()

    def chat(self, messages: Sequence[Message], limit: int) -> Prompt:
        """Every text of the conversation, a line each. Raises PromptTooLong."""
        return self.plain("\n".join(_texts(messages)), limit)

    def plain(self, text: str, limit: int) -> Prompt:
        """The text's pieces. Raises PromptTooLong."""
        count = count_pieces(text)
        if count > limit:
            raise PromptTooLong
        return Prompt(count)


def _texts(messages: Iterable[Message]) -> list[str]:
    return [part for message in messages for part in message.parts]
