"""Asking the reference server: in memory on virtual time, or through its own listener."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

from reference_server.app import ReferenceApp, create_app
from reference_server.asgi import RENDER, App, Message, Scope
from reference_server.clock import Now
from reference_server.listen.server import Listener, tls_context
from reference_server.settings import ListenSettings, Settings
from tests.peers.certs import Leaf
from tests.virtual_time import VirtualTimeLoop, run

MODEL = "promptpath-paced"
QUESTION = "Why does my BGP session keep flapping?"


def chat(**more: Any) -> dict[str, Any]:
    """An OpenAI chat request."""
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": MODEL, "messages": messages, "stream": True, "max_tokens": 4, **more}


@dataclass
class Answer:
    """What the application sent, each body piece with its time."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[tuple[int, bytes]] = field(default_factory=list)
    head_ns: int = 0

    @property
    def body(self) -> bytes:
        """All pieces joined."""
        return b"".join(data for _, data in self.pieces)

    def json(self) -> Any:
        """The body as one document."""
        return json.loads(self.body)

    def events(self) -> list[dict[str, Any]]:
        """The JSON of each event; comments and `[DONE]` left out."""
        return [json.loads(data) for data in data_lines(self.body) if data != b"[DONE]"]


def data_lines(body: bytes) -> list[bytes]:
    """The `data:` lines of an event stream."""
    return [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")]


class Client:
    """Calls an application in memory, as our listener would. `leave()` is a lost connection."""

    def __init__(self, app: App, now: Now) -> None:
        self._app = app
        self._now = now
        self._left = asyncio.Event()

    def leave(self) -> None:
        """The client goes away."""
        self._left.set()

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
        answer: Answer | None = None,
    ) -> Answer:
        """One request; `answer` is filled as the pieces come."""
        got = Answer() if answer is None else answer
        path, _, query = path.partition("?")
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        scope: Scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in (headers or {}).items()],
            "extensions": {"promptpath.listener": {"received_ns": self._now()}},
        }
        inbox: list[Message] = [{"type": "http.request", "body": data, "more_body": False}]

        async def receive() -> Message:
            if inbox:
                return inbox.pop(0)
            await self._left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                got.status = message["status"]
                got.headers = {k.decode(): v.decode() for k, v in message["headers"]}
                got.head_ns = self._now()
            elif RENDER in message:
                got.pieces.append((self._now(), message[RENDER](self._now())))
            else:
                got.pieces.append((self._now(), message["body"]))

        await self._app(scope, receive, send)
        return got


def ask(
    method: str,
    path: str,
    body: object = None,
    headers: dict[str, str] | None = None,
    settings: Settings | None = None,
) -> Answer:
    """One request in virtual time."""

    async def scenario(loop: VirtualTimeLoop) -> Answer:
        app = create_app(settings, loop.now_ns)
        return await Client(app, loop.now_ns).ask(method, path, body, headers)

    return run(scenario)[0]


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in a real event loop, with a limit so that it never hangs."""

    @wraps(test)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return wrapper


@dataclass(frozen=True)
class Served:
    """A running listener."""

    app: App
    listener: Listener
    url: str
    port: int


@contextlib.asynccontextmanager
async def serving(
    app: App | None = None,
    settings: Settings | None = None,
    leaf: Leaf | None = None,
    **listen: Any,
) -> AsyncIterator[Served]:
    """Our listener on a free loopback port; `listen` replaces fields of its settings.

    HTTP/3 (`http3=True`) needs a `leaf`, and is on the UDP port of the same number.
    """
    chosen = replace((settings or Settings()).listen, **listen)
    application: App = create_app(settings) if app is None else app
    context = _context(leaf, chosen)
    quic = None
    if leaf is not None and chosen.http3:
        from reference_server.listen.quic_setup import quic_setup

        quic = quic_setup(str(leaf.chain), str(leaf.key), chosen)
    listener = Listener(application, chosen, context, quic=quic)
    await listener.start()
    try:
        scheme = "http" if leaf is None else "https"
        url = f"{scheme}://localhost:{listener.port}"
        yield Served(application, listener, url, listener.port)
    finally:
        await listener.stop(grace_s=0)
        if isinstance(application, ReferenceApp):
            await application.close()


def _context(leaf: Leaf | None, listen: ListenSettings) -> ssl.SSLContext | None:
    return None if leaf is None else tls_context(str(leaf.chain), str(leaf.key), listen)


async def raw_exchange(port: int, data: bytes) -> bytes:
    """Send `data` over TCP and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    got = await reader.read()
    writer.close()
    return got
