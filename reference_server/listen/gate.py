"""Waiting until the transport can write: a client that does not read must not fill our memory."""

from __future__ import annotations

import asyncio

from reference_server.asgi import ClientGone


class WriteGate:
    """Open while the transport's buffer is empty; closed for good when the connection is lost."""

    def __init__(self, timeout_s: float) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._timeout_s = timeout_s
        self._lost = False

    def pause(self) -> None:
        """The transport's buffer holds something."""
        if not self._lost:
            self._open.clear()

    def resume(self) -> None:
        """The buffer is empty again."""
        self._open.set()

    def lose(self) -> None:
        """The connection is lost: everybody who waits gets ClientGone."""
        self._lost = True
        self._open.set()

    async def wait(self) -> None:
        """Return when a write would go out now. Raises ClientGone, also after the time limit."""
        if not self._open.is_set():
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._open.wait()
            except TimeoutError:
                raise ClientGone("the client does not read") from None
        if self._lost:
            raise ClientGone("the connection is lost")
