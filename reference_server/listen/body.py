"""The request body on its way from the wire to the application: bounded, with a time limit."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from reference_server.asgi import Message


class InboundBody:
    """What ASGI's `receive` gives. `on_consumed(bytes)` is called as the application takes data."""

    def __init__(self, timeout_s: float, on_consumed: Callable[[int], None]) -> None:
        self._pieces: deque[tuple[bytes, int]] = deque()
        self._timeout_s = timeout_s
        self._on_consumed = on_consumed
        self._wake = asyncio.Event()
        self._ended = False
        self._end_told = False
        self._gone = False
        self.timed_out = False
        """The client paused longer than it may in the middle of its body."""
        self.waiting_bytes = 0
        """Bytes that the application has not taken yet."""

    @property
    def complete(self) -> bool:
        """The client sent its whole request."""
        return self._ended

    def feed(self, data: bytes, wire_bytes: int | None = None) -> None:
        """A piece came; `wire_bytes` is its share of the flow-control window."""
        self._pieces.append((data, len(data) if wire_bytes is None else wire_bytes))
        self.waiting_bytes += len(data)
        self._wake.set()

    def end(self) -> None:
        """The body is complete."""
        self._ended = True
        self._wake.set()

    def disconnect(self) -> None:
        """The client left, or the response is complete."""
        self._gone = True
        self._wake.set()

    async def receive(self) -> Message:
        """The next ASGI message: body pieces, then http.disconnect once the client has left."""
        while True:
            if self._pieces:
                data, wire_bytes = self._pieces.popleft()
                self.waiting_bytes -= len(data)
                self._on_consumed(wire_bytes)
                self._end_told = self._ended and not self._pieces
                return {"type": "http.request", "body": data, "more_body": not self._end_told}
            if self._gone:
                return {"type": "http.disconnect"}
            if self._ended and not self._end_told:
                self._end_told = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await self._wait()

    async def _wait(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(None if self._ended else self._timeout_s):
                await self._wake.wait()
        except TimeoutError:
            self.timed_out = True
            self._gone = True
