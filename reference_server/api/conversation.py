"""The field `conversation`: the server remembers what was said before and prepends it."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference_server.api.errors import ApiError
from reference_server.api.fields import Fields, wrong
from reference_server.api.service import Service
from reference_server.asgi import Header
from reference_server.gateway.gateway import Caller
from reference_server.sessions.assemble import Assembled, spoken
from reference_server.sessions.store import ConversationStore, StoreUnavailable
from reference_server.text.prompt import Message

_LOG = logging.getLogger("reference_server")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")

NOT_SAVED = b": promptpath: this turn could not be saved in the conversation\n\n"
"""A comment in the stream (WHATWG HTML 9.2.6): every reader may pass over it."""
NOT_SAVED_HEADER: Header = (b"x-promptpath-conversation-saved", b"no")


@dataclass(slots=True)
class Conversation:
    """One request's place in a conversation."""

    store: ConversationStore
    key: str
    history: list[Message]
    new: list[Message]
    """What the request brings, without its system messages."""
    answer: list[str] = field(default_factory=list)
    """The answer's pieces as they come."""

    async def save(self) -> bool:
        """Remember what was asked and answered; False when the store cannot."""
        turn = [*self.new, Message("assistant", ("".join(self.answer),))]
        try:
            await self.store.append(self.key, turn)
        except StoreUnavailable as error:
            _LOG.warning("a turn of a conversation could not be saved: %s", error)
            return False
        return True


def conversation_id(fields: Fields) -> str | None:
    """The id, `"..."` or OpenAI's `{"id": "..."}`; None when the request has none.

    Raises ApiError 400.
    """
    value = fields.get("conversation")
    if isinstance(value, dict):
        value = value.get("id")
    if value is None and fields.get("conversation") is None:
        return None
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise wrong("conversation", "an id of 1 to 128 letters, digits and _.:-")
    return value


async def open_conversation(
    service: Service, caller: Caller, name: str | None, messages: Sequence[Message]
) -> Conversation | None:
    """Load the history. Raises ApiError 400 when there is no store, 503 when it fails."""
    if name is None:
        return None
    if service.conversations is None:
        message = "This server keeps no conversations."
        raise ApiError(400, "unsupported_parameter", message, param="conversation")
    if not messages:
        message = "A conversation needs messages."
        raise ApiError(400, "unsupported_parameter", message, param="conversation")
    key = f"{caller.id}/{name}"
    try:
        history = await service.conversations.load(key)
    except StoreUnavailable as error:
        _LOG.warning("a conversation could not be loaded: %s", error)
        retry = (b"retry-after", str(service.settings.retry_after_s).encode())
        message = "The store of the conversations does not answer."
        raise ApiError(503, "conversation_unavailable", message, headers=(retry,)) from None
    return Conversation(service.conversations, key, history, spoken(messages))


def conversation_header(found: Assembled) -> Header:
    """What of the history is in the prompt, and what did not fit."""
    value = f"history={found.history}, dropped={found.dropped}"
    return (b"x-promptpath-conversation", value.encode())
