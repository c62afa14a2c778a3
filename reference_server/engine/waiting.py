"""The bounded queue before the scheduler: by priority, then by arrival."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from reference_server.engine.sequence import Sequence
from reference_server.engine.slots import QueueFull


class WaitingQueue:
    """Sequences without a place in the batch. Preempted ones come back here, also when it is full:
    they were admitted once and are not refused now."""

    def __init__(self, limit: int) -> None:
        """At most `limit` new sequences wait."""
        self._limit = limit
        self._queue: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._queue)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self._queue)

    @property
    def first(self) -> Sequence:
        """Who is next. The queue must not be empty."""
        return self._queue[0]

    def add(self, sequence: Sequence, free_places: int) -> None:
        """A new sequence; raises QueueFull when it would wait as one more than the limit."""
        if len(self._queue) >= free_places + self._limit:
            raise QueueFull
        self.put_back(sequence)

    def put_back(self, sequence: Sequence) -> None:
        """A preempted sequence, at its old place."""
        insort(self._queue, sequence, key=_order)

    def remove(self, sequence: Sequence) -> None:
        """Take a waiting sequence out."""
        at = bisect_left(self._queue, sequence.order, key=_order)
        del self._queue[at]

    def expired(self, now_ns: int) -> list[Sequence]:
        """Those never scheduled whose deadline has passed."""
        return [
            sequence
            for sequence in self._queue
            if sequence.scheduled_ns is None
            and sequence.request.deadline_ns is not None
            and sequence.request.deadline_ns <= now_ns
        ]


def _order(sequence: Sequence) -> tuple[int, int]:
    return sequence.order
