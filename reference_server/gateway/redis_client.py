"""One way to reach Redis: short time-outs, no long retries. Needs the `redis` extra."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from redis.asyncio import Redis

_TIMEOUT_S = 0.5
"""For connecting and for each answer: a request must not hang on its limits. A choice."""


class RedisDown(Exception):
    """Redis cannot be used; the text says why, without the URL: that may hold a password."""


def connect(url: str) -> Redis:
    """A client of the Redis at `url`; nothing is sent yet. Raises RedisDown."""
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError:
        raise RedisDown("the redis package is missing: pip install 'promptpath[redis]'") from None
    try:
        # One retry, for a connection that Redis closed while it was idle.
        return Redis.from_url(
            url,
            socket_timeout=_TIMEOUT_S,
            socket_connect_timeout=_TIMEOUT_S,
            retry=Retry(NoBackoff(), 1),
        )
    except ValueError:
        raise RedisDown("the URL must be redis://HOST:PORT/NUMBER") from None


def where(url: str) -> str:
    """Host and port of a Redis URL, without its password."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        return "the given URL"
