"""The listening sockets and all their connections; the orderly stop."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from reference_server.asgi import App
from reference_server.clock import Now, monotonic_ns
from reference_server.listen.connection import Connection
from reference_server.settings import ListenSettings

if TYPE_CHECKING:
    from reference_server.listen.quic import QuicEndpoint
    from reference_server.listen.quic_setup import QuicSetup

_LAST_CALL_S = 1.0
"""For the end of an answer to be written to a client that reads. A choice."""
_CLOSE_S = 0.5
"""For connections whose answers have ended to be closed by both sides. A choice."""
_LOOK_S = 0.01
_FREE_PORTS = 20
"""Free TCP ports that are tried until the UDP port of that number is free as well. A choice."""
_ALT_SVC = b'h3=":%d"; ma=600'
"""Clients keep that for ten minutes (RFC 7838 section 3.1), since a free port is soon another's."""


class Stoppable(Protocol):
    """A connection, as far as the orderly stop is concerned."""

    @property
    def busy(self) -> bool:
        """A request is being answered."""

    def shutdown(self) -> None:
        """Finish what runs, then close."""

    def cancel(self) -> None:
        """Close at once."""


class Listener:
    """Accepts connections for an ASGI application from `start` to `stop`."""

    def __init__(
        self,
        app: App,
        settings: ListenSettings,
        tls: ssl.SSLContext | None = None,
        now: Now = monotonic_ns,
        quic: QuicSetup | None = None,
    ) -> None:
        """`tls` None means clear text; its ALPN protocols must fit `settings` (`tls_context`).

        With `quic` (`quic_setup`) it listens for HTTP/3 too, on the UDP ports of the same numbers.
        """
        self._app = app
        self._settings = settings
        self._tls = tls
        self._now = now
        self._quic = quic
        self._server: asyncio.Server | None = None
        self._endpoints: list[QuicEndpoint] = []
        self._alt_svc: bytes | None = None
        self._connections: set[Stoppable] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    @property
    def port(self) -> int:
        """The port that is listened on. Only after `start`."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def start(self) -> None:
        """Listen. Raises OSError when the address cannot be had."""
        tries = _FREE_PORTS if self._quic is not None and not self._settings.port else 1
        for left in reversed(range(tries)):
            await self._listen_tcp()
            try:
                self._listen_udp()
                return
            except OSError:
                assert self._server is not None
                self._server.close()
                self._server = None
                if not left:
                    raise

    async def _listen_tcp(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._accept,
            self._settings.host,
            self._settings.port,
            backlog=511,  # nginx's
            ssl=self._tls,
        )

    def _listen_udp(self) -> None:
        """Bind the UDP port beside each TCP port."""
        if self._quic is None:
            return
        assert self._server is not None
        # Here, since aioquic and cryptography are not wanted by who serves without HTTP/3.
        from reference_server.listen.quic import QuicEndpoint

        bound: list[socket.socket] = []
        try:
            for each in self._server.sockets:
                bound.append(sock := socket.socket(each.family, socket.SOCK_DGRAM))
                sock.setblocking(False)
                if each.family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind(each.getsockname())
        except OSError:
            for sock in bound:
                sock.close()
            raise
        self._alt_svc = _ALT_SVC % self.port
        self._endpoints = [
            QuicEndpoint(
                sock, self._app, self._settings, self._quic, self._now, self._opened, self._closed
            )
            for sock in bound
        ]

    async def stop(
        self,
        grace_s: float | None = None,
        last_call: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Accept nothing more, let answers end for `grace_s` seconds, then break the rest off.

        `last_call` comes between: it makes the answers that still run say that they end.
        """
        if self._server is None:
            return
        self._server.close()
        for endpoint in self._endpoints:
            endpoint.refuse()
        for connection in list(self._connections):
            connection.shutdown()
        whole = await self._answered_within(self._settings.grace_s if grace_s is None else grace_s)
        if not whole and last_call is not None:
            await last_call()
            await self._answered_within(_LAST_CALL_S)
        for connection in list(self._connections):
            connection.cancel()
        # One round for the cancelled tasks and for connection_lost.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for endpoint in self._endpoints:
            endpoint.close()

    async def _answered_within(self, limit_s: float) -> bool:
        """Whether all answers ended in time. Then the connections get a moment more: over TLS one
        is closed only when the client has said so too, and a client that is idle does not."""
        try:
            async with asyncio.timeout(limit_s):
                while any(connection.busy for connection in self._connections):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(min(limit_s, _CLOSE_S)):
                await self._all_closed.wait()
        return True

    def _accept(self) -> Connection:
        return Connection(
            self._app, self._settings, self._now, self._opened, self._closed, self._alt_svc
        )

    def _opened(self, connection: Stoppable) -> None:
        self._connections.add(connection)
        self._all_closed.clear()

    def _closed(self, connection: Stoppable) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()


def tls_context(certificate: str, key: str, settings: ListenSettings) -> ssl.SSLContext:
    """A TLS 1.2/1.3 server context with ALPN for the protocols in `settings`.

    Raises OSError and ssl.SSLError when the files cannot be read or do not fit.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    protocols = [("h2", settings.http2), ("http/1.1", settings.http1)]
    context.set_alpn_protocols([name for name, wanted in protocols if wanted])
    return context
