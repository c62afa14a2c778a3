"""A small blocking server: one thread a connection, so that a peer's script reads top to bottom and
runs beside a client of any kind (asyncio in the test's thread, or another process)."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

JOIN_S = 10.0
"""How long a connection's thread may take to end once its socket is shut."""
_READ_BYTES = 65536
_CONTENT_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d+)")
_CHUNKED = re.compile(rb"(?im)^transfer-encoding:[ \t]*chunked")


class PeerClosedError(Exception):
    """The client closed or reset the connection: the script cannot go on, which is no failure."""


class Connection:
    """One accepted connection, as a script sees it."""

    def __init__(self, sock: socket.socket, index: int) -> None:
        self.sock = sock
        self.index = index
        self.pending = b""
        """Bytes read and not used yet."""

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Do the server's side of a TLS handshake."""
        self.sock = context.wrap_socket(self.sock, server_side=True)

    def recv(self) -> bytes:
        """Some bytes; raises PeerClosedError at the end."""
        if self.pending:
            data, self.pending = self.pending, b""
            return data
        try:
            data = self.sock.recv(_READ_BYTES)
        except (OSError, ValueError) as error:
            raise PeerClosedError from error
        if not data:
            raise PeerClosedError
        return data

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to and with `mark`."""
        data = self.recv()
        while mark not in data:
            data += self.recv()
        head, _, rest = data.partition(mark)
        self.pending = rest + self.pending
        return head + mark

    def read_exactly(self, size: int) -> bytes:
        """`size` bytes."""
        data = b""
        while len(data) < size:
            data += self.recv()
        self.pending = data[size:] + self.pending
        return data[:size]

    def read_request(self) -> bytes:
        """One HTTP/1.1 request, head and body, as it came."""
        head = self.read_until(b"\r\n\r\n")
        length = _CONTENT_LENGTH.search(head)
        if length:
            return head + self.read_exactly(int(length[1]))
        if _CHUNKED.search(head):
            return head + self.read_until(b"0\r\n\r\n")
        return head

    def send(self, data: bytes) -> None:
        """Send everything at once; raises PeerClosedError when the client is gone."""
        try:
            self.sock.sendall(data)
        except (OSError, ValueError) as error:
            raise PeerClosedError from error

    def wait_closed(self) -> None:
        """Read and forget until the client closes."""
        with contextlib.suppress(PeerClosedError):
            while True:
                self.recv()

    def reset(self) -> None:
        """Close with RST: SO_LINGER of zero seconds (socket(7)) throws the send queue away."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def finish(self, *, close_notify: bool = True) -> None:
        """Close with FIN; under TLS after a close_notify, unless told to cut it short."""
        with contextlib.suppress(OSError, ValueError):
            if close_notify and isinstance(self.sock, ssl.SSLSocket):
                self.sock.settimeout(1.0)
                self.sock.unwrap()
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def stop(self) -> None:
        """Wake a thread that waits on this socket."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class ThreadedServer:
    """Listens on a free loopback port and runs `serve(connection)` in a thread for each client.

    An exception of `serve` other than PeerClosedError is a bug of the peer: it is raised when the
    block ends.
    """

    def __init__(
        self,
        serve: Callable[[Connection], None],
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=64)
        self._serve = serve
        self._threads: list[threading.Thread] = []
        self.connections: list[Connection] = []
        self.errors: list[BaseException] = []
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    @property
    def authority(self) -> str:
        """host:port as a URL has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(JOIN_S)
        self._listener.close()
        for connection in self.connections:
            connection.stop()
        for thread in self._threads:
            thread.join(JOIN_S)
        for connection in self.connections:
            connection.sock.close()
        if error is None and self.errors:
            raise self.errors[0]

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, len(self.connections))
            self.connections.append(connection)
            thread = threading.Thread(target=self._run, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, connection: Connection) -> None:
        try:
            self._serve(connection)
        except (PeerClosedError, ssl.SSLError, ConnectionError):
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            connection.sock.close()
