"""Who calls, and whether they may now: keys and limits behind one door."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reference_server.gateway.auth import key_allowed
from reference_server.gateway.keys import ApiKey, KeyRing
from reference_server.gateway.limits import Cost, Decision, Limits, LimitStore

_BYTES_PER_TOKEN = 4
"""For the estimate before anything is tokenized: about four characters of English a token
(OpenAI's rule of thumb). What was really used is settled at the end."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is."""

    id: str
    """What limits, conversations and timelines are kept under."""
    name: str
    """For the access log."""
    limits: Limits


class Reservation:
    """What was taken from a caller's buckets for one request."""

    def __init__(self, store: LimitStore, caller: Caller, tokens: int, decision: Decision) -> None:
        self.decision = decision
        self.used_tokens = 0
        """What the request really used; set it before `settle`."""
        self._store = store
        self._caller = caller
        self._tokens = tokens

    async def settle(self) -> None:
        """Put back what was not used, or take what was used beyond the estimate."""
        limits = self._caller.limits
        unused = self._tokens - self.used_tokens
        if limits.tokens_per_minute is not None and unused:
            await self._store.settle(self._caller.id, limits, unused)


class Gateway:
    """Keys and limits as configured."""

    def __init__(
        self,
        store: LimitStore,
        *,
        keys: Iterable[ApiKey] | None = None,
        one_key_sha256: str | None = None,
        defaults: Limits = Limits(),  # noqa: B008 - frozen
    ) -> None:
        """`keys` None lets everybody in unless `one_key_sha256` is given; `defaults` hold for
        callers whose key names no limits."""
        self._store = store
        self._ring = None if keys is None else KeyRing(keys)
        self._one_key_sha256 = one_key_sha256
        self._defaults = defaults

    def authenticate(self, key: str | None) -> Caller | None:
        """Whose key it is; None: not let in."""
        if self._ring is not None and (found := self._ring.find(key)) is not None:
            limits = Limits(
                found.limits.requests_per_minute or self._defaults.requests_per_minute,
                found.limits.tokens_per_minute or self._defaults.tokens_per_minute,
            )
            return Caller(found.id, found.name, limits)
        if self._one_key_sha256 is not None:
            allowed = key_allowed(key, self._one_key_sha256)
            return Caller("environment", "environment", self._defaults) if allowed else None
        return None if self._ring is not None else Caller("anybody", "anybody", self._defaults)

    async def reserve(self, caller: Caller, body_bytes: int, max_tokens: int) -> Reservation:
        """Take one request and its estimated tokens; the decision says whether it may go on.

        Raises LimitsUnavailable.
        """
        tokens = body_bytes // _BYTES_PER_TOKEN + max_tokens
        if caller.limits.unlimited:
            return Reservation(self._store, caller, 0, Decision(None, None, None, None))
        cost = Cost(requests=1, tokens=tokens)
        decision = await self._store.take(caller.id, caller.limits, cost)
        taken = tokens if decision.refused_by is None else 0
        return Reservation(self._store, caller, taken, decision)

    async def start(self) -> None:
        """Raises RedisDown when the store must answer and does not."""
        await self._store.start()

    async def close(self) -> None:
        """Let go of the store."""
        await self._store.close()
