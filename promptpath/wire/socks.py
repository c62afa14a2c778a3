"""SOCKS5, the client's side, sans-IO (RFC 1928; user and password RFC 1929)."""

from __future__ import annotations

import ipaddress
from enum import Enum, auto

VERSION = 5
METHOD_NONE = 0
METHOD_PASSWORD = 2
METHOD_REFUSED = 0xFF

REPLIES = {
    1: "general failure",
    2: "connection not allowed by its rules",
    3: "network unreachable",
    4: "host unreachable",
    5: "connection refused",
    6: "TTL expired",
    7: "command not supported",
    8: "address type not supported",
}
"""RFC 1928, section 6."""


class SocksState(Enum):
    """Where the exchange stands."""

    METHOD = auto()
    """Waiting for the method the proxy picks."""
    PASSWORD = auto()
    """Waiting for the verdict on user and password."""
    REPLY = auto()
    """Waiting for the answer to CONNECT."""
    DONE = auto()
    """The tunnel is open; `leftover` are its first bytes."""
    FAILED = auto()


class SocksFailure(Exception):
    """The proxy said no, or did not speak SOCKS5. `code`: credentials | refused | not-socks."""

    def __init__(self, what: str, code: str) -> None:
        super().__init__(what)
        self.code = code


class SocksConnect:
    """One CONNECT to `host:port`. Send `hello`, then feed what comes and send what `feed` returns
    until `state` is DONE."""

    def __init__(
        self, host: str, port: int, username: str | None = None, password: str | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._username = username
        self._password = password
        self._buffer = b""
        self.state = SocksState.METHOD
        self.leftover = b""

    def hello(self) -> bytes:
        """The greeting with the methods we can do."""
        methods = [METHOD_NONE] if self._username is None else [METHOD_NONE, METHOD_PASSWORD]
        return bytes([VERSION, len(methods), *methods])

    def feed(self, data: bytes) -> bytes:
        """What to send next; empty while more bytes are needed. Raises SocksFailure."""
        self._buffer += data
        reply = b""
        try:
            # Bytes may answer several steps at once; each step moves the state or waits for more.
            before = None
            while self.state is not before:
                before = self.state
                reply += self._advance()
        except SocksFailure:
            self.state = SocksState.FAILED
            raise
        return reply

    def _advance(self) -> bytes:
        if self.state is SocksState.METHOD:
            return self._on_method()
        if self.state is SocksState.PASSWORD:
            return self._on_password()
        if self.state is SocksState.REPLY:
            self._on_reply()
        return b""

    def _on_method(self) -> bytes:
        if self._buffer and self._buffer[0] != VERSION:
            raise SocksFailure("the proxy answered with something that is not SOCKS5", "not-socks")
        if len(self._buffer) < 2:
            return b""
        method, self._buffer = self._buffer[1], self._buffer[2:]
        if method == METHOD_NONE:
            return self._connect()
        if method == METHOD_PASSWORD and self._username is not None:
            self.state = SocksState.PASSWORD
            user = self._username.encode()[:255]
            password = (self._password or "").encode()[:255]
            return bytes([1, len(user)]) + user + bytes([len(password)]) + password
        raise SocksFailure(
            "the proxy wants credentials" if self._username is None else "no common method",
            "credentials",
        )

    def _on_password(self) -> bytes:
        if len(self._buffer) < 2:
            return b""
        status, self._buffer = self._buffer[1], self._buffer[2:]
        if status != 0:
            raise SocksFailure("the proxy rejected user and password", "credentials")
        return self._connect()

    def _connect(self) -> bytes:
        self.state = SocksState.REPLY
        return bytes([VERSION, 1, 0]) + self._address() + self._port.to_bytes(2, "big")

    def _address(self) -> bytes:
        try:
            address = ipaddress.ip_address(self._host)
        except ValueError:
            name = self._host.encode("ascii")[:255]
            return bytes([3, len(name)]) + name
        return bytes([1 if address.version == 4 else 4]) + address.packed

    def _on_reply(self) -> None:
        buffer = self._buffer
        if buffer and buffer[0] != VERSION:
            raise SocksFailure("the proxy answered CONNECT with something else", "not-socks")
        if len(buffer) < 2:
            return
        if buffer[1] != 0:
            reason = REPLIES.get(buffer[1], f"reply {buffer[1]}")
            raise SocksFailure(f"the proxy could not connect: {reason}", "refused")
        if len(buffer) < 5:
            return
        sizes = {1: 4, 4: 16, 3: 1 + buffer[4]}
        if buffer[3] not in sizes:
            raise SocksFailure(f"unknown address type {buffer[3]} in the reply", "not-socks")
        end = 4 + sizes[buffer[3]] + 2
        if len(buffer) >= end:
            self.leftover = buffer[end:]
            self.state = SocksState.DONE
