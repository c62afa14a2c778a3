"""Conversations in Redis, so that several processes share them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reference_server.gateway.redis_client import connect
from reference_server.sessions.store import MOST_MESSAGES, StoreUnavailable
from reference_server.text.prompt import Message

if TYPE_CHECKING:
    from redis.asyncio import Redis

_KEPT_S = 30 * 24 * 3600
"""A conversation that nobody continues is forgotten after 30 days. A choice."""


class RedisStore:
    """A `ConversationStore` of Redis lists."""

    def __init__(self, url: str) -> None:
        """Raises RedisDown on a bad URL."""
        self._redis: Redis = connect(url)

    async def load(self, key: str) -> list[Message]:
        """The messages in order. Raises StoreUnavailable."""
        try:
            answer: Any = self._redis.lrange(_name(key), 0, -1)
            rows = [json.loads(row) for row in await answer]
            return [Message(str(row["role"]), tuple(row["parts"])) for row in rows]
        except Exception as error:  # redis-py raises RedisError, OSError, TimeoutError and others
            raise StoreUnavailable(type(error).__name__) from error

    async def append(self, key: str, messages: Sequence[Message]) -> None:
        """Add all of them or none. Raises StoreUnavailable."""
        rows = [json.dumps({"role": each.role, "parts": each.parts}) for each in messages]
        try:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.rpush(_name(key), *rows)
                pipe.ltrim(_name(key), -MOST_MESSAGES, -1)
                pipe.expire(_name(key), _KEPT_S)
                await pipe.execute()
        except Exception as error:  # as above
            raise StoreUnavailable(type(error).__name__) from error

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _name(key: str) -> str:
    return f"promptpath:conversation:{key}"
