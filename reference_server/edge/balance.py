"""Which backend gets the next request: a healthy one with few under way, and of these the one that
has seen most of the prompt. Pure policy.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from reference_server.edge.affinity import PrefixMemory

_FAILURES = 2
"""So many failed health checks in a row take a backend out; one good one brings it back. A choice
(HAProxy's defaults are 3 and 2; a replica on the same machine is judged faster)."""
_SLACK = 2
"""So many requests more than the least busy one a backend may have under way and still be chosen
for the prompt that it knows: a cached prefix saves a prefill, a larger batch slows each step. A
choice."""


@dataclass(slots=True, eq=False)
class Backend:
    """One server behind the edge."""

    name: str
    host: str
    port: int
    healthy: bool = True
    outstanding: int = 0
    """Requests under way."""
    served: int = 0
    """Requests it was given since the start."""
    failures: int = 0
    """Failed health checks in a row."""
    memory: PrefixMemory = field(default_factory=PrefixMemory)
    """The prompts that it was sent."""


class Balancer:
    """Knows who is there."""

    def __init__(self, backends: Collection[Backend]) -> None:
        self.backends = tuple(backends)

    def pick(
        self, without: Collection[Backend] = (), blocks: Sequence[bytes] = ()
    ) -> Backend | None:
        """Of the healthy backends with at most `_SLACK` more under way than the least busy one, the
        one that knows most of the prompt's `blocks`; of equal ones the one with the fewest under
        way, then the one that had the fewest so far. None when there is none but `without`.
        """
        able = [each for each in self.backends if each.healthy and each not in without]
        if not able:
            return None
        fewest = min(each.outstanding for each in able)
        near = [each for each in able if each.outstanding <= fewest + _SLACK]
        return min(near, key=lambda e: (-e.memory.match(blocks), e.outstanding, e.served))

    def checked(self, backend: Backend, good: bool) -> None:
        """A health check has ended."""
        backend.failures = 0 if good else backend.failures + 1
        if good:
            backend.healthy = True
        elif backend.failures >= _FAILURES:
            backend.healthy = False

    def refused(self, backend: Backend) -> None:
        """It did not take a connection: out at once, until a health check succeeds."""
        backend.failures = max(backend.failures, _FAILURES)
        backend.healthy = False
