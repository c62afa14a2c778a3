"""ASGI in a few typed lines: the request, the response, and what our own listener adds.

Our listener offers the extension `promptpath.listener`: `received_ns`, when the request head was
complete, and the message key `promptpath.render`, a function that is called with the clock's time
right before the write and returns the body. Under any other server the time is taken right before
`send`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

from reference_server.clock import Now

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]
Render = Callable[[int], bytes]

EXTENSION = "promptpath.listener"
RENDER = "promptpath.render"


class ClientGone(OSError):
    """The client left; whatever is being done for it may stop."""


class BodyTooLarge(Exception):
    """The request body is larger than allowed."""


class Exchange:
    """One request and its response."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, now: Now) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self._query_string: bytes = scope.get("query_string", b"")
        self._headers: list[Header] = list(scope["headers"])
        self._receive = receive
        self._send = send
        self.now = now
        offered: dict[str, Any] = (scope.get("extensions") or {}).get(EXTENSION) or {}
        self.received_ns: int = offered.get("received_ns", now())
        """When the request head was complete, as far as the server underneath tells."""
        self._listener_renders = bool(offered)
        self.started = False
        """A response head was sent."""
        self.status: int | None = None
        """Of the response head that was sent."""
        self.sent_bytes = 0
        """Bytes of the response body so far, before framing."""
        self.about: dict[str, Any] = {}
        """What the access log says beside; never a key, a prompt or an answer."""

    def header(self, name: str) -> str | None:
        """The first header of that (lower-case) name."""
        wanted = name.encode("latin-1")
        for key, value in self._headers:
            if key.lower() == wanted:
                return value.decode("latin-1")
        return None

    def query(self) -> dict[str, str]:
        """The query's parameters; of a repeated one the last. Raises ValueError above 100."""
        text = self._query_string.decode("latin-1")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=100))

    async def read_body(self, limit: int) -> bytes:
        """The whole body. Raises BodyTooLarge beyond `limit` bytes, ClientGone."""
        length = self.header("content-length")
        if length is not None and re.fullmatch(r"\d{1,18}", length) and int(length) > limit:
            raise BodyTooLarge
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            if len(body) > limit:
                raise BodyTooLarge
            if not message.get("more_body", False):
                return bytes(body)

    async def start(self, status: int, headers: list[Header]) -> None:
        """Send the response head at once, also under servers that wait for a first body piece."""
        self.started = True
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        if not self._listener_renders:
            await self._send({"type": "http.response.body", "body": b"", "more_body": True})

    async def write(self, render: Render) -> None:
        """Send one piece of the body; `render` gets the time of the write."""

        def counted(sent_ns: int) -> bytes:
            data = render(sent_ns)
            self.sent_bytes += len(data)
            return data

        message: Message = {"type": "http.response.body", "more_body": True}
        if self._listener_renders:
            message[RENDER] = counted
        else:
            message["body"] = counted(self.now())
        await self._send(message)

    async def end(self) -> None:
        """End the body."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def respond(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a whole response with its length."""
        self.started = True
        self.status = status
        self.sent_bytes += len(body)
        head = [*headers, (b"content-length", str(len(body)).encode())]
        await self._send({"type": "http.response.start", "status": status, "headers": head})
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def abort(self, how: str) -> None:
        """Break the connection (`reset` or `close`); only our listener can, others just end."""
        if self._listener_renders:
            await self._send({"type": "promptpath.abort", "how": how})

    async def while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` to its end, or cancel it and raise ClientGone when the client leaves.

        Only after the request body was read whole.
        """
        task = asyncio.ensure_future(work)
        watcher = asyncio.ensure_future(self._until_gone())
        try:
            await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left_early = not task.done()
            for each in (task, watcher):
                each.cancel()
            with suppress(asyncio.CancelledError):
                await watcher
        if left_early:
            with suppress(asyncio.CancelledError):
                await task
            raise ClientGone
        await task

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
