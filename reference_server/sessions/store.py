"""Where conversations are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from reference_server.text.prompt import Message

MOST_MESSAGES = 2_000
"""Messages kept of one conversation; older ones are deleted as new ones come. A choice: beyond any
context window that a conversation of ordinary length fills."""


class StoreUnavailable(Exception):
    """The store does not answer now; the text says why and holds nothing of a conversation."""


class ConversationStore(Protocol):
    """Messages by conversation; the key holds whose it is."""

    async def load(self, key: str) -> list[Message]:
        """The messages in order, none for an unknown key. Raises StoreUnavailable."""

    async def append(self, key: str, messages: Sequence[Message]) -> None:
        """Add all of them or none. Raises StoreUnavailable."""

    async def close(self) -> None:
        """Let go of files and connections."""
