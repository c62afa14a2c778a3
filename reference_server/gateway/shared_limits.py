"""The buckets in Redis, so that several processes keep one limit together.

One Lua script reads, refills, checks and takes in a single step: Redis runs nothing beside it, so
no two processes can spend the same token. Its clock is Redis's own (`TIME`), the same for all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from reference_server.clock import Now
from reference_server.gateway.limits import (
    Cost,
    Decision,
    Levels,
    Limits,
    LimitStore,
    LimitsUnavailable,
    decide,
)
from reference_server.gateway.redis_client import RedisDown, connect

if TYPE_CHECKING:
    from redis.asyncio import Redis

WhenDown = Literal["refuse", "allow-local"]

_PAUSE_NS = 1_000_000_000
"""After a failure Redis is left alone for so long: not every request waits for a time-out. A
choice."""

_SCRIPT = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local rpm, tpm = tonumber(ARGV[1]), tonumber(ARGV[2])
local requests, tokens = tonumber(ARGV[3]), tonumber(ARGV[4])
local held = redis.call('HMGET', KEYS[1], 'requests', 'tokens', 'at')
local r, t = rpm, tpm
if held[3] then
  local passed = math.max(0, now - tonumber(held[3]))
  r = math.min(rpm, tonumber(held[1]) + rpm * passed / 60000000)
  t = math.min(tpm, tonumber(held[2]) + tpm * passed / 60000000)
end
local before_r, before_t = r, t
if ARGV[5] == 'settle' then
  t = math.min(tpm, t - tokens)
elseif (rpm == 0 or r >= requests) and (tpm == 0 or t >= tokens) then
  r, t = r - requests, t - tokens
end
redis.call('HSET', KEYS[1], 'requests', string.format('%.6f', r),
  'tokens', string.format('%.6f', t), 'at', string.format('%.0f', now))
local full = 60000
if tpm > 0 then full = math.max(full, (tpm - t) / tpm * 60000) end
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', full + 1000))
return {string.format('%.6f', before_r), string.format('%.6f', before_t)}
"""
"""A bucket without a limit is 0. The key goes when both buckets would be full again anyway."""


class RedisLimits:
    """A `LimitStore` in Redis. When Redis cannot be reached: refuse, or count in this process."""

    def __init__(
        self,
        url: str,
        when_down: WhenDown,
        local: LimitStore,
        now: Now,
        say: Callable[[str], None],
    ) -> None:
        """`say` is told when Redis goes and when it is back. Raises RedisDown on a bad URL."""
        self._redis: Redis = connect(url)
        self._script: Any = self._redis.register_script(_SCRIPT)
        self._when_down = when_down
        self._local = local
        self._now = now
        self._say = say
        self._down_until_ns: int | None = None

    async def start(self) -> None:
        """Raises RedisDown when Redis does not answer, unless local counting is allowed."""
        try:
            await self._redis.ping()
        except Exception as error:  # redis-py raises RedisError, OSError, TimeoutError and others
            if self._when_down == "refuse":
                raise RedisDown(type(error).__name__) from error
            self._went_down(error)

    async def take(self, key_id: str, limits: Limits, cost: Cost) -> Decision:
        """Take the cost, or nothing. Raises LimitsUnavailable when Redis is down, if so set."""
        levels = await self._run(key_id, limits, cost, "take")
        if levels is not None:
            return decide(limits, cost, levels)
        if self._when_down == "refuse":
            raise LimitsUnavailable
        return dataclasses.replace(await self._local.take(key_id, limits, cost), local=True)

    async def settle(self, key_id: str, limits: Limits, unused_tokens: int) -> None:
        """Put back. When Redis is down the reservation stays taken there: never too generous."""
        if await self._run(key_id, limits, Cost(tokens=-unused_tokens), "settle") is None:
            await self._local.settle(key_id, limits, unused_tokens)

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _run(
        self, key_id: str, limits: Limits, cost: Cost, what: Literal["take", "settle"]
    ) -> Levels | None:
        """The levels before; None while Redis is down."""
        if self._down_until_ns is not None and self._now() < self._down_until_ns:
            return None
        rpm, tpm = limits.requests_per_minute or 0, limits.tokens_per_minute or 0
        arguments = [rpm, tpm, cost.requests, cost.tokens, what]
        try:
            answer = await self._script(keys=[f"promptpath:limits:{key_id}"], args=arguments)
            levels = Levels(float(answer[0]), float(answer[1]))
        except Exception as error:  # redis-py raises RedisError, OSError, TimeoutError and others
            self._went_down(error)
            return None
        if self._down_until_ns is not None:
            self._down_until_ns = None
            self._say("Redis is back: limits are shared again")
        return levels

    def _went_down(self, error: Exception) -> None:
        if self._down_until_ns is None:
            then = {
                "refuse": "requests are refused with 503",
                "allow-local": "each process counts for itself",
            }
            kind = type(error).__name__
            self._say(f"Redis does not answer ({kind}): {then[self._when_down]}")
        self._down_until_ns = self._now() + _PAUSE_NS
