"""One accepted TCP connection: finds out which HTTP it speaks and hands the bytes on."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any, Protocol

from reference_server.asgi import App
from reference_server.clock import Now
from reference_server.listen.http1 import Http1Connection
from reference_server.listen.http2 import Http2Connection
from reference_server.listen.request import Endpoints, address
from reference_server.settings import ListenSettings

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What a client with prior knowledge of HTTP/2 sends first (RFC 9113 section 3.4)."""


class HttpConnection(Protocol):
    """What both HTTP versions give to `Connection`."""

    @property
    def busy(self) -> bool:
        """A request is being answered."""

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""

    def connection_lost(self) -> None:
        """The transport is closed."""

    def pause_writing(self) -> None:
        """The transport's buffer holds something."""

    def resume_writing(self) -> None:
        """The transport's buffer is empty."""

    def shutdown(self) -> None:
        """Finish what runs, then close."""

    def cancel(self) -> None:
        """Close at once."""


class Connection(asyncio.Protocol):
    """An asyncio protocol that becomes HTTP/1.1 or HTTP/2 by ALPN or by the first bytes."""

    def __init__(
        self,
        app: App,
        settings: ListenSettings,
        now: Now,
        on_open: Callable[[Connection], None],
        on_close: Callable[[Connection], None],
        alt_svc: bytes | None = None,
    ) -> None:
        self._app = app
        self._alt_svc = alt_svc
        self._settings = settings
        self._now = now
        self._on_open = on_open
        self._on_close = on_close
        self._transport: asyncio.Transport | None = None
        self._http: HttpConnection | None = None
        self._first = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands; over TLS the handshake is over."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # Whatever does not fit into the kernel's buffer closes the gate: no event waits unseen.
        # Not 0: asyncio's TLS transport pauses at "buffered >= high", also when nothing is.
        transport.set_write_buffer_limits(high=1)
        # Under TLS there is a second buffer below, of 64 KiB, that only this private way leads to;
        # without it (another Python) stamps under back-pressure are early by as much.
        below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
        if isinstance(below, asyncio.Transport):
            below.set_write_buffer_limits(high=0)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._on_open(self)
        secure = transport.get_extra_info("ssl_object")
        chosen = secure.selected_alpn_protocol() if isinstance(secure, ssl.SSLObject) else None
        if chosen is not None or not self._settings.http2:
            self._become(b"", http2=chosen == "h2")
        else:
            limit = self._settings.head_timeout_s
            self._timer = asyncio.get_running_loop().call_later(limit, transport.close)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._http is not None:
            self._http.data_received(data)
            return
        self._first += data
        if self._first.startswith(_PREFACE):
            self._become(self._first, http2=True)
        elif not _PREFACE.startswith(self._first):
            self._become(self._first, http2=not self._settings.http1)

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is closed, by either side."""
        self._cancel_timer()
        if self._http is not None:
            self._http.connection_lost()
        self._on_close(self)

    def pause_writing(self) -> None:
        """The transport's buffer holds something."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """The transport's buffer is empty."""
        if self._http is not None:
            self._http.resume_writing()

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return self._http is not None and self._http.busy

    def shutdown(self) -> None:
        """Finish what runs, then close."""
        if self._http is not None:
            self._http.shutdown()
        elif self._transport is not None:
            self._transport.close()

    def cancel(self) -> None:
        """Close at once."""
        if self._http is not None:
            self._http.cancel()
        elif self._transport is not None:
            self._transport.abort()

    def _become(self, first: bytes, http2: bool) -> None:
        assert self._transport is not None
        self._cancel_timer()
        name: Callable[[str], Any] = self._transport.get_extra_info
        scheme = "https" if name("ssl_object") is not None else "http"
        peer, own = address(name("peername")), address(name("sockname"))
        ends = Endpoints(peer, own, scheme, self._alt_svc)
        kind = Http2Connection if http2 else Http1Connection
        self._http = kind(self._transport, self._app, self._settings, ends, self._now)
        if first:
            self._http.data_received(first)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
