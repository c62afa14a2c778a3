"""Requests and tokens per minute for each key: token buckets. Pure arithmetic, time is handed in.

A bucket holds one minute's worth and fills evenly, so a key may spend a minute's worth at once and
then goes on at its rate. A request takes one request and its estimated tokens, both or neither;
what it did not use is put back at its end (`settle`), and what it used beyond its estimate is taken
then, below zero if need be.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal, Protocol

from reference_server.clock import Now

MINUTE_NS = 60_000_000_000
_MOST_KEYS = 100_000
"""Buckets kept in memory; beyond it the one unused for longest is dropped. A choice."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one key may do in a minute; None: as much as it likes."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    @property
    def unlimited(self) -> bool:
        """Neither is limited."""
        return self.requests_per_minute is None and self.tokens_per_minute is None


@dataclass(frozen=True, slots=True)
class Cost:
    """What is taken from the two buckets."""

    requests: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Levels:
    """What the two buckets hold; a bucket without a limit holds 0 and is not looked at."""

    requests: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Allowance:
    """One bucket after a decision."""

    limit: int
    remaining: int
    """Never negative, also when more was used than there was."""
    full_in_ns: int
    """Until it is full again when nothing is taken."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request may go on."""

    refused_by: Literal["requests", "tokens"] | None
    """The bucket that does not hold enough; None: it may go on."""
    retry_in_ns: int | None
    """When it would hold enough; None when it may go on, or when it never will: the request alone
    is larger than the bucket."""
    requests: Allowance | None
    tokens: Allowance | None
    local: bool = False
    """Decided from this process's own buckets, because the shared ones cannot be reached."""


class LimitStore(Protocol):
    """Where the buckets are."""

    async def start(self) -> None:
        """Raises RedisDown when the store does not answer and nobody may go on without it."""

    async def take(self, key_id: str, limits: Limits, cost: Cost) -> Decision:
        """Take the cost from the key's buckets, or nothing. Raises LimitsUnavailable."""

    async def settle(self, key_id: str, limits: Limits, unused_tokens: int) -> None:
        """Put back what was reserved and not used; negative takes what was used beyond it."""

    async def close(self) -> None:
        """Let go of connections."""


class LimitsUnavailable(Exception):
    """Nobody can say whether a request may go on."""


def fits(limits: Limits, cost: Cost, levels: Levels) -> Literal["requests", "tokens"] | None:
    """Which bucket does not hold enough; None when both do."""
    if limits.requests_per_minute is not None and levels.requests < cost.requests:
        return "requests"
    if limits.tokens_per_minute is not None and levels.tokens < cost.tokens:
        return "tokens"
    return None


def decide(limits: Limits, cost: Cost, levels: Levels) -> Decision:
    """The decision for buckets that hold `levels` before anything is taken."""
    refused = fits(limits, cost, levels)
    taken = cost if refused is None else Cost()
    retry_ns = None
    if refused == "requests":
        retry_ns = _wait(limits.requests_per_minute, levels.requests, cost.requests)
    elif refused == "tokens":
        retry_ns = _wait(limits.tokens_per_minute, levels.tokens, cost.tokens)
    return Decision(
        refused_by=refused,
        retry_in_ns=retry_ns,
        requests=_allowance(limits.requests_per_minute, levels.requests - taken.requests),
        tokens=_allowance(limits.tokens_per_minute, levels.tokens - taken.tokens),
    )


def refill(limit: int | None, level: float, passed_ns: int) -> float:
    """What a bucket holds after `passed_ns`."""
    return 0.0 if limit is None else min(limit, level + limit * passed_ns / MINUTE_NS)


def _allowance(limit: int | None, level: float) -> Allowance | None:
    if limit is None:
        return None
    return Allowance(limit, max(0, int(level)), _until(limit, limit - level))


def _wait(limit: int | None, level: float, cost: int) -> int | None:
    return None if limit is None or cost > limit else _until(limit, cost - level)


def _until(limit: int, missing: float) -> int:
    """Until `missing` has flowed in, rounded up."""
    return max(0, -int(-missing * MINUTE_NS // limit))


class LocalLimits:
    """A `LimitStore` in this process's memory."""

    def __init__(self, now: Now, most_keys: int = _MOST_KEYS) -> None:
        self._now = now
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, tuple[Levels, int]] = OrderedDict()

    async def start(self) -> None:
        """Always ready."""

    async def take(self, key_id: str, limits: Limits, cost: Cost) -> Decision:
        """Take the cost, or nothing. Never waits."""
        levels = self._levels(key_id, limits)
        if fits(limits, cost, levels) is None:
            self._keep(key_id, levels.requests - cost.requests, levels.tokens - cost.tokens)
        else:
            self._keep(key_id, levels.requests, levels.tokens)
        return decide(limits, cost, levels)

    async def settle(self, key_id: str, limits: Limits, unused_tokens: int) -> None:
        """Put back, up to a full bucket."""
        levels = self._levels(key_id, limits)
        most = limits.tokens_per_minute or 0
        self._keep(key_id, levels.requests, min(most, levels.tokens + unused_tokens))

    async def close(self) -> None:
        """Nothing to let go of."""

    def _levels(self, key_id: str, limits: Limits) -> Levels:
        found = self._buckets.get(key_id)
        if found is None:
            return Levels(limits.requests_per_minute or 0, limits.tokens_per_minute or 0)
        levels, at_ns = found
        passed_ns = max(0, self._now() - at_ns)
        return Levels(
            refill(limits.requests_per_minute, levels.requests, passed_ns),
            refill(limits.tokens_per_minute, levels.tokens, passed_ns),
        )

    def _keep(self, key_id: str, requests: float, tokens: float) -> None:
        self._buckets[key_id] = (Levels(requests, tokens), self._now())
        self._buckets.move_to_end(key_id)
        if len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)
