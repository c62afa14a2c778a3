"""Which backend gets the next request: the healthy one with the fewest under way. Pure policy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

_FAILURES = 2
"""So many failed health checks in a row take a backend out; one good one brings it back. A choice
(HAProxy's defaults are 3 and 2; a replica on the same machine is judged faster)."""


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


class Balancer:
    """Knows who is there."""

    def __init__(self, backends: Collection[Backend]) -> None:
        self.backends = tuple(backends)

    def pick(self, without: Collection[Backend] = ()) -> Backend | None:
        """The healthy backend with the fewest requests under way, of equal ones the one that had
        the fewest so far; None when there is none but those in `without`."""
        able = [each for each in self.backends if each.healthy and each not in without]
        return min(able, key=lambda each: (each.outstanding, each.served), default=None)

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
