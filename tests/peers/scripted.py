"""A scripted TCP or TLS origin: it plays what it is told, byte for byte, and closes how it is told.

with ScriptedOrigin([ReadRequest(), head(200), chunk(b"data: a\\n\\n"), RST]) as origin:
    ... trace origin.url("/v1/chat/completions") ...
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from tests.peers.threaded import Connection, PeerClosedError, ThreadedServer


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for a while."""

    ms: float


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Wait for one whole HTTP/1.1 request and keep it in `origin.requests`."""


@dataclass(frozen=True, slots=True)
class ReadBytes:
    """Wait for this many bytes of any kind."""

    size: int


@dataclass(frozen=True, slots=True)
class StartTls:
    """Do the server's side of a TLS handshake now."""

    context: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Endless:
    """Send `data` again and again until the client goes away."""

    data: bytes
    gap_ms: float = 0.0


class Close(Enum):
    """How the connection ends. A script that names none ends with FIN."""

    FIN = "fin"
    """FIN; under TLS after close_notify."""
    CUT = "cut"
    """FIN without close_notify: a truncation, under TLS (RFC 8446 section 6.1)."""
    RST = "rst"
    """RST."""
    HOLD = "hold"
    """Keep it open, silent, until the client closes."""


FIN, CUT, RST, HOLD = Close.FIN, Close.CUT, Close.RST, Close.HOLD

Step: TypeAlias = bytes | Wait | ReadRequest | ReadBytes | StartTls | Endless | Close
"""One thing a script does."""
Script: TypeAlias = Sequence[Step] | Callable[[Connection], None]
"""What one connection does: steps, or a function for what steps cannot say."""


def head(
    status: int = 200,
    content_type: str = "text/event-stream",
    *headers: tuple[str, str],
    chunked: bool = True,
    reason: str = "Scripted",
) -> bytes:
    """A response head, chunked unless told; further headers as pairs."""
    lines = [f"HTTP/1.1 {status} {reason}", f"content-type: {content_type}"]
    if chunked:
        lines.append("transfer-encoding: chunked")
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
"""The end of a chunked body, without trailers."""


def response(status: int, body: bytes, content_type: str, *headers: tuple[str, str]) -> bytes:
    """A whole response with a Content-Length."""
    length = ("content-length", str(len(body)))
    return head(status, content_type, length, *headers, chunked=False) + body


def sse_stream(events: Iterable[bytes], *, gap_ms: float = 0.0) -> list[Step]:
    """A good chunked SSE response, one chunk an event, `gap_ms` between two."""
    steps: list[Step] = [ReadRequest(), head()]
    for index, event in enumerate(events):
        if index and gap_ms:
            steps.append(Wait(gap_ms))
        steps.append(chunk(event))
    return [*steps, LAST_CHUNK]


class ScriptedOrigin(ThreadedServer):
    """Plays one script a connection; the last one serves all connections after it.

    With `tls` each connection begins with a handshake (a client that speaks clear text gets
    OpenSSL's alert, as from a real server).
    """

    def __init__(
        self,
        *scripts: Script,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        super().__init__(self._play, host=host, port=port)
        self._scripts = scripts
        self._tls = tls
        self.requests: list[bytes] = []
        """What ReadRequest read, in order."""
        self.sent_at_ns: list[int] = []
        """CLOCK_MONOTONIC just before each step of bytes was written."""

    def url(self, path: str = "/", *, host: str | None = None) -> str:
        """A URL on this origin; `host` is the name to put there (localhost, for a certificate)."""
        scheme = "http" if self._tls is None else "https"
        authority = self.authority if host is None else f"{host}:{self.port}"
        return f"{scheme}://{authority}{path}"

    def _play(self, connection: Connection) -> None:
        script = self._scripts[min(connection.index, len(self._scripts) - 1)]
        if self._tls is not None:
            connection.start_tls(self._tls)
        if callable(script):
            script(connection)
            return
        for step in script:
            if isinstance(step, Close):
                _close(connection, step)
                return
            self._do(connection, step)
        _close(connection, Close.FIN)

    def _do(
        self,
        connection: Connection,
        step: bytes | Wait | ReadRequest | ReadBytes | StartTls | Endless,
    ) -> None:
        match step:
            case bytes():
                self.sent_at_ns.append(time.monotonic_ns())
                connection.send(step)
            case Wait():
                time.sleep(step.ms / 1000)
            case ReadRequest():
                self.requests.append(connection.read_request())
            case ReadBytes():
                connection.read_exactly(step.size)
            case StartTls():
                connection.start_tls(step.context)
            case Endless():
                _repeat(connection, step)
            case _:
                assert_never(step)


def _repeat(connection: Connection, step: Endless) -> None:
    try:
        while True:
            connection.send(step.data)
            if step.gap_ms:
                time.sleep(step.gap_ms / 1000)
    except PeerClosedError:
        return


def _close(connection: Connection, how: Close) -> None:
    match how:
        case Close.FIN:
            connection.finish()
            connection.wait_closed()
        case Close.CUT:
            connection.finish(close_notify=False)
            connection.wait_closed()
        case Close.RST:
            connection.reset()
        case Close.HOLD:
            connection.wait_closed()
        case _:
            assert_never(how)
