"""A forward proxy with faults: CONNECT tunnels and absolute-form requests, credentials, TLS to the
proxy itself, and every way a proxy can fail."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import ssl
from collections.abc import Mapping
from enum import Enum
from urllib.parse import urlsplit

from tests.peers.scripted import response
from tests.peers.threaded import Connection, PeerClosedError, ThreadedServer

_READ_BYTES = 65536


class ProxyFault(Enum):
    """What the proxy does instead of its job."""

    FORBID = "forbid"
    """Answers 403 to every request."""
    BAD_GATEWAY = "bad-gateway"
    """Answers 502, as if the target were down."""
    CLOSE = "close"
    """Reads the request and closes without a word."""
    RESET = "reset"
    """Reads the request and resets."""
    CUT_IN_HEAD = "cut-in-head"
    """Sends half of the 200 head, then closes."""
    GARBAGE = "garbage"
    """Answers something that is not HTTP."""
    HANG = "hang"
    """Never answers."""
    CLOSE_TUNNEL = "close-tunnel"
    """Answers 200, then closes the tunnel."""


def relay(left: Connection, right: Connection) -> None:
    """Copy both ways until either side closes; a half-close is passed on.

    One thread with select(): before Python 3.13 a TLS socket is not safe for a reader and a writer
    at once.
    """
    other = {left: right, right: left}
    open_sides = {left, right}
    for side in (left, right):
        if side.pending:
            other[side].send(side.recv())
    while open_sides:
        ready = [side for side in open_sides if _has_buffered(side)]
        if not ready:
            socks = {side.sock: side for side in open_sides}
            ready = [socks[sock] for sock in select.select(list(socks), [], [])[0]]
        for side in ready:
            try:
                other[side].send(side.recv())
            except PeerClosedError:
                open_sides.discard(side)
                other[side].finish()
                if isinstance(side.sock, ssl.SSLSocket):
                    return


def _has_buffered(side: Connection) -> bool:
    return isinstance(side.sock, ssl.SSLSocket) and side.sock.pending() > 0


def split_authority(authority: str) -> tuple[str, int]:
    """host:port or [host]:port, apart."""
    host, _, port = authority.rpartition(":")
    return host.strip("[]"), int(port)


class ForwardProxy(ThreadedServer):
    """An HTTP proxy on loopback.

    `credentials` are asked for with 407 Basic; `tls` puts the proxy itself behind TLS; `hosts` maps
    names to addresses (a name that only the proxy can resolve).
    """

    def __init__(
        self,
        *,
        credentials: tuple[str, str] | None = None,
        fault: ProxyFault | None = None,
        tls: ssl.SSLContext | None = None,
        hosts: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(self._serve_client, host=host)
        self._credentials = credentials
        self._fault = fault
        self._tls = tls
        self._hosts = dict(hosts or {})
        self.request_lines: list[str] = []
        """The first line of every request, in order."""
        self.authorizations: list[str | None] = []
        """Its Proxy-Authorization, or None."""

    def url(self, user: str | None = None, password: str = "") -> str:
        """What `--proxy` takes; with a user, the credentials inside."""
        scheme = "http" if self._tls is None else "https"
        login = "" if user is None else f"{user}:{password}@"
        name = self.authority if self._tls is None else f"localhost:{self.port}"
        return f"{scheme}://{login}{name}"

    def _serve_client(self, client: Connection) -> None:
        if self._tls is not None:
            client.start_tls(self._tls)
        while True:
            head = client.read_until(b"\r\n\r\n")
            line, fields = _parse(head)
            self.request_lines.append(line)
            self.authorizations.append(fields.get("proxy-authorization"))
            if self._fault is not None and self._fault is not ProxyFault.CLOSE_TUNNEL:
                _fail(client, self._fault)
                return
            if not self._authorized(fields):
                challenge = ("proxy-authenticate", 'Basic realm="promptpath test"')
                client.send(response(407, b"log in", "text/plain", challenge))
                continue
            self._forward(client, line, head)
            return

    def _authorized(self, fields: Mapping[str, str]) -> bool:
        if self._credentials is None:
            return True
        login = base64.b64encode(":".join(self._credentials).encode()).decode()
        return fields.get("proxy-authorization") == f"Basic {login}"

    def _forward(self, client: Connection, line: str, head: bytes) -> None:
        method, target, _ = line.split(" ", 2)
        if method == "CONNECT":
            host, port = split_authority(target)
        else:
            url = urlsplit(target)
            host, port = url.hostname or "", url.port or 80
        try:
            upstream = socket.create_connection((self._hosts.get(host, host), port), timeout=5)
        except OSError:
            client.send(response(502, b"no route to the target", "text/plain"))
            return
        upstream.settimeout(None)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.closing(upstream):
            if method == "CONNECT":
                client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                if self._fault is ProxyFault.CLOSE_TUNNEL:
                    client.finish(close_notify=False)
                    return
            else:
                upstream.sendall(_origin_form(line, head))
            relay(client, Connection(upstream, client.index))


def _parse(head: bytes) -> tuple[str, dict[str, str]]:
    line, *rest = head.decode("latin-1").split("\r\n")
    pairs = (field.partition(":") for field in rest if field)
    return line, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _origin_form(line: str, head: bytes) -> bytes:
    """The request as the origin gets it: a proxy rewrites the target (RFC 9112 section 3.2.2)."""
    method, target, version = line.split(" ", 2)
    url = urlsplit(target)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    fields = [
        field
        for field in head.split(b"\r\n")[1:]
        if not field.lower().startswith((b"proxy-authorization:", b"proxy-connection:"))
    ]
    return b"\r\n".join([f"{method} {path} {version}".encode("latin-1"), *fields])


def _fail(client: Connection, fault: ProxyFault) -> None:
    match fault:
        case ProxyFault.FORBID:
            client.send(response(403, b"not through here", "text/plain"))
        case ProxyFault.BAD_GATEWAY:
            client.send(response(502, b"target is down", "text/plain"))
        case ProxyFault.CUT_IN_HEAD:
            client.send(b"HTTP/1.1 200 Connection estab")
        case ProxyFault.GARBAGE:
            client.send(b"\x00\x01SSH-2.0-not-a-proxy\r\n\r\n")
        case ProxyFault.RESET:
            client.reset()
            return
        case ProxyFault.HANG:
            client.wait_closed()
            return
        case _:
            pass
    client.finish()
    client.wait_closed()
