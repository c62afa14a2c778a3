"""A SOCKS5 server (RFC 1928) with user/password login (RFC 1929), remote resolution and faults."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tests.peers.proxies import relay
from tests.peers.threaded import Connection, ThreadedServer

NO_LOGIN, USER_PASSWORD, NONE_ACCEPTABLE = 0, 2, 0xFF
"""Methods, RFC 1928 section 3."""
SUCCEEDED, NOT_ALLOWED, HOST_UNREACHABLE, REFUSED = 0, 2, 4, 5
"""Replies, RFC 1928 section 6."""
_IPV4, _NAME, _IPV6 = 1, 3, 4


@dataclass(frozen=True, slots=True)
class SocksRequest:
    """One CONNECT as the server got it."""

    host: str
    """Name or address literal."""
    port: int
    by_name: bool
    """The client left resolution to the server (socks5h)."""
    user: str | None
    """Who logged in, if anybody."""


class Socks5Server(ThreadedServer):
    """`reply` other than 0 refuses every request with that code; `hosts` resolves names that exist
    nowhere else; `close_after_greeting` drops the connection after the method was read."""

    def __init__(
        self,
        *,
        credentials: tuple[str, str] | None = None,
        reply: int = SUCCEEDED,
        hosts: Mapping[str, str] | None = None,
        close_after_greeting: bool = False,
    ) -> None:
        super().__init__(self._serve_client)
        self._credentials = credentials
        self._reply = reply
        self._hosts = dict(hosts or {})
        self._close_after_greeting = close_after_greeting
        self.requests: list[SocksRequest] = []

    def url(self, user: str | None = None, password: str = "", *, remote: bool = True) -> str:
        """What `--proxy` takes: socks5h (the server resolves) or socks5."""
        login = "" if user is None else f"{user}:{password}@"
        return f"socks5{'h' if remote else ''}://{login}{self.authority}"

    def _serve_client(self, client: Connection) -> None:
        _, count = client.read_exactly(2)
        offered = client.read_exactly(count)
        if self._close_after_greeting:
            return
        wanted = NO_LOGIN if self._credentials is None else USER_PASSWORD
        if wanted not in offered:
            client.send(bytes([5, NONE_ACCEPTABLE]))
            client.wait_closed()
            return
        client.send(bytes([5, wanted]))
        user = None
        if self._credentials is not None:
            user = self._login(client)
            if user is None:
                client.wait_closed()
                return
        self._connect(client, user)

    def _login(self, client: Connection) -> str | None:
        """RFC 1929 section 2; the name of who may go on, else None."""
        client.read_exactly(1)
        user = client.read_exactly(client.read_exactly(1)[0]).decode()
        password = client.read_exactly(client.read_exactly(1)[0]).decode()
        good = (user, password) == self._credentials
        client.send(bytes([1, 0 if good else 1]))
        return user if good else None

    def _connect(self, client: Connection, user: str | None) -> None:
        kind = client.read_exactly(4)[3]
        if kind == _NAME:
            host = client.read_exactly(client.read_exactly(1)[0]).decode()
        else:
            host = str(ipaddress.ip_address(client.read_exactly(4 if kind == _IPV4 else 16)))
        port = int.from_bytes(client.read_exactly(2), "big")
        self.requests.append(SocksRequest(host, port, kind == _NAME, user))
        if self._reply != SUCCEEDED:
            _answer(client, self._reply)
            client.wait_closed()
            return
        try:
            upstream = socket.create_connection((self._hosts.get(host, host), port), timeout=5)
        except socket.gaierror:
            _answer(client, HOST_UNREACHABLE)
            return
        except OSError:
            _answer(client, REFUSED)
            return
        upstream.settimeout(None)
        upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.closing(upstream):
            _answer(client, SUCCEEDED)
            relay(client, Connection(upstream, client.index))


def _answer(client: Connection, reply: int) -> None:
    client.send(bytes([5, reply, 0, _IPV4]) + bytes(6))
