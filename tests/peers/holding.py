"""A box that holds streams back in one exact way: what a verdict must find, with the truth known.

It takes each chunk of the server's response apart and sends what it lets go as a chunk of its own,
as buffering proxies do; heads pass at once.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.peers.threaded import Connection, PeerClosedError, ThreadedServer

_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[ \t]*chunked")


@dataclass(frozen=True)
class Hold:
    """What is held; nothing unless one is set."""

    initial_bytes: int = 0
    """The body's beginning, until so many bytes have come."""
    size_bytes: int = 0
    """Let go in pieces of exactly so many bytes."""
    timer_ms: float = 0.0
    """Let go so long after the first byte that waits."""
    next_event: bool = False
    """Let go when the server sends again."""
    whole: bool = False
    """Let go when the server has ended."""
    cut_after_ms: float = 0.0
    """Close the connection so long after the request, whatever comes: a timer for the whole
    response."""
    stop_after_ms: float = 0.0
    """Pass nothing on from then, and close nothing."""


class HoldingBox(ThreadedServer):
    """An HTTP/1.1 reverse proxy on loopback, one request a connection, before a clear-text URL."""

    def __init__(self, upstream: str, hold: Hold) -> None:
        super().__init__(self._serve, host="127.0.0.1")
        url = urlsplit(upstream)
        self._upstream = (url.hostname or "", url.port or 80)
        self._hold = hold

    @property
    def url(self) -> str:
        """Its URL, without a path."""
        return f"http://{self.authority}"

    def _serve(self, client: Connection) -> None:
        request = client.read_request()
        began = time.monotonic()
        with socket.create_connection(self._upstream, timeout=30) as upstream:
            upstream.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
            source = Connection(upstream, 0)
            head = source.read_until(b"\r\n\r\n")
            client.send(head)
            if _CHUNKED.search(head):
                self._pass_on(client, source, began)
            else:
                self._copy(client, source)

    def _copy(self, client: Connection, source: Connection) -> None:
        while True:
            try:
                client.send(source.recv())
            except PeerClosedError:
                return

    def _pass_on(self, client: Connection, source: Connection, began: float) -> None:
        hold, buffer = self._hold, _Buffer(self._hold)
        last_s = (hold.cut_after_ms or hold.stop_after_ms) / 1000
        while True:
            left_s = began + last_s - time.monotonic() if last_s else None
            waits = [wait for wait in (buffer.due_s(), left_s) if wait is not None]
            wait_s = max(0.0, min(waits)) if waits else None
            if left_s is not None and left_s <= 0:
                if hold.stop_after_ms:
                    _wait_until_gone(client)
                return
            if not source.pending and not _readable(source.sock, wait_s):
                if buffer.due_s() == 0.0:
                    _chunk(client, buffer.expire())
                continue
            piece = _read_chunk(source)
            if not piece:
                _chunk(client, buffer.end())
                client.send(b"0\r\n\r\n")
                return
            for released in buffer.take(piece):
                _chunk(client, released)


class _Buffer:
    """The bytes that wait."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._until_later = bool(hold.timer_ms or hold.next_event or hold.whole)
        self._waiting = b""
        self._since = 0.0
        self._total = 0

    def due_s(self) -> float | None:
        """Seconds until the timer fires; None without one."""
        if not self._hold.timer_ms or not self._waiting:
            return None
        return max(0.0, self._since + self._hold.timer_ms / 1000 - time.monotonic())

    def expire(self) -> bytes:
        """The timer has fired."""
        return self.end()

    def end(self) -> bytes:
        """Let everything go."""
        waiting, self._waiting = self._waiting, b""
        return waiting

    def take(self, piece: bytes) -> Iterator[bytes]:
        """More came: what is let go because of it."""
        hold = self._hold
        if not self._waiting:
            self._since = time.monotonic()
        elif hold.next_event:
            yield self.end()
        self._waiting += piece
        self._total += len(piece)
        if hold.size_bytes:
            while len(self._waiting) >= hold.size_bytes:
                front, self._waiting = (
                    self._waiting[: hold.size_bytes],
                    self._waiting[hold.size_bytes :],
                )
                yield front
        elif not self._until_later and self._total >= hold.initial_bytes:
            yield self.end()


def _readable(sock: socket.socket, timeout_s: float | None) -> bool:
    return bool(select.select([sock], [], [], timeout_s)[0])


def _wait_until_gone(client: Connection) -> None:
    while True:
        client.recv()


def _read_chunk(source: Connection) -> bytes:
    size = int(source.read_until(b"\r\n").split(b";")[0], 16)
    return source.read_exactly(size + 2)[:-2]


def _chunk(client: Connection, data: bytes) -> None:
    if data:
        client.send(b"%x\r\n%b\r\n" % (len(data), data))
