"""First come, first served over a fixed number of slots, with a bounded queue. Pure policy."""

from __future__ import annotations

from collections import deque


class QueueFull(Exception):
    """The queue holds as many requests as it may; nothing was added."""


class SlotScheduler:
    """Decides which request runs. Requests are known by an id that the caller chooses.

    >>> slots = SlotScheduler(slots=1, queue_limit=1)
    >>> slots.submit("a"), slots.submit("b")
    >>> slots.start_ready(), slots.release("a"), slots.start_ready()
    (['a'], None, ['b'])
    """

    def __init__(self, slots: int, queue_limit: int) -> None:
        """`slots` run at once (at least 1), `queue_limit` wait (0 or more)."""
        if slots < 1 or queue_limit < 0:
            raise ValueError("slots must be at least 1 and queue_limit at least 0")
        self._slots = slots
        self._queue_limit = queue_limit
        self._waiting: deque[str] = deque()
        self._running: set[str] = set()

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    def submit(self, request_id: str) -> None:
        """Queue a request; raises QueueFull when slots and queue are taken."""
        free = self._slots - len(self._running)
        if len(self._waiting) >= free + self._queue_limit:
            raise QueueFull
        self._waiting.append(request_id)

    def start_ready(self) -> list[str]:
        """Give the free slots to the longest waiting; returns who starts now, in order."""
        started = []
        while self._waiting and len(self._running) < self._slots:
            request_id = self._waiting.popleft()
            self._running.add(request_id)
            started.append(request_id)
        return started

    def release(self, request_id: str) -> None:
        """Take a request out of its slot or of the queue; an unknown one is no error."""
        if request_id in self._running:
            self._running.discard(request_id)
        elif request_id in self._waiting:
            self._waiting.remove(request_id)
