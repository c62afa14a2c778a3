"""The UDP socket of HTTP/3: which connection a datagram belongs to, and what answers one that
belongs to none: Version Negotiation, Retry, a stateless reset, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Any

from aioquic._buffer import Buffer, BufferReadError
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE
from aioquic.quic.packet import (
    QuicErrorCode,
    QuicHeader,
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
    pull_quic_header,
)

from reference_server.asgi import App
from reference_server.clock import Now
from reference_server.listen.http3 import Http3Connection
from reference_server.listen.quic_hello_retry import ask_again
from reference_server.listen.quic_setup import QuicSetup
from reference_server.listen.quic_state import RESET_TOKEN_BYTES, ServerQuic, reset_token
from reference_server.listen.request import Endpoints, address
from reference_server.settings import ListenSettings

_DATAGRAM_BYTES = 65_535
"""The largest UDP payload there is (RFC 768: a 16-bit length)."""
_READS_AT_ONCE = 64
"""Datagrams read in one turn of the loop; then timers and answers have theirs. A choice."""
_BUFFER_BYTES = 4 * 1024 * 1024
"""Asked of the kernel for each direction, which caps it at net.core.rmem_max and wmem_max."""
_OUTBOX = 4096
"""Datagrams that may wait for the socket; more are lost, as the kernel would do. A choice."""
_STRANGERS = 256
"""Handshakes that may be under way before each further client must prove its address by a Retry
(RFC 9000 section 8.1.2 leaves the number open). A choice."""
_REMEMBERED = 1000
"""Connections of which the fault "lost initial" keeps count. A choice."""
_LONG_HEADER = 0x80
_SHORTEST_RESET = 5 + RESET_TOKEN_BYTES
"""RFC 9000 section 10.3: five bytes at least that look random, then the token."""
_RESETS_PER_S = 100
"""Stateless resets that are sent in one second (RFC 9000 10.3.3 wants a limit). A choice."""


class QuicEndpoint:
    """One bound UDP socket and all its connections."""

    def __init__(
        self,
        sock: socket.socket,
        app: App,
        settings: ListenSettings,
        setup: QuicSetup,
        now: Now,
        on_open: Callable[[Http3Connection], None],
        on_close: Callable[[Http3Connection], None],
    ) -> None:
        """Take over a bound non-blocking socket."""
        self._sock = sock
        self._app = app
        self._settings = settings
        self._setup = setup
        self._now = now
        self._on_open = on_open
        self._on_close = on_close
        self._loop = asyncio.get_running_loop()
        self._by_id: dict[bytes, Http3Connection] = {}
        self._ids: dict[Http3Connection, set[bytes]] = {}
        self._strangers: set[Http3Connection] = set()
        self._outbox: deque[tuple[bytes, Any]] = deque()
        self._lost: dict[bytes, int] = {}
        self._resets: tuple[int, int] = (0, 0)
        self._closed = False
        self._refusing = False
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER_BYTES)
        self._loop.add_reader(sock, self._readable)

    def close(self) -> None:
        """Close the socket; connections that are left are forgotten."""
        if self._closed:
            return
        for connection in list(self._ids):
            connection.abandon()
        self._closed = True
        self._loop.remove_reader(self._sock)
        self._loop.remove_writer(self._sock)
        self._sock.close()

    def refuse(self) -> None:
        """Begin no further connection: each gets CONNECTION_REFUSED (RFC 9000 section 20.1)."""
        self._refusing = True

    def send(self, data: bytes, to: Any) -> None:
        """Send one datagram, or keep it until the socket takes it."""
        if self._closed:
            return
        if not self._outbox:
            try:
                self._sock.sendto(data, to)
                return
            except BlockingIOError:
                self._loop.add_writer(self._sock, self._write_on)
            except OSError:
                return  # Unreachable, or too large for the path: as good as lost.
        if len(self._outbox) < _OUTBOX:
            self._outbox.append((data, to))

    def add_id(self, connection_id: bytes, connection: Http3Connection) -> None:
        """Datagrams for this ID are the connection's."""
        self._by_id[connection_id] = connection
        self._ids[connection].add(connection_id)

    def drop_id(self, connection_id: bytes) -> None:
        """The ID is not in use any more."""
        connection = self._by_id.pop(connection_id, None)
        if connection is not None:
            self._ids[connection].discard(connection_id)

    def established(self, connection: Http3Connection) -> None:
        """The handshake is complete: the client's address is known to be its own."""
        self._strangers.discard(connection)

    def answered(self, connection: Http3Connection) -> None:
        """The connection is closed for HTTP, though its IDs may linger."""
        self._strangers.discard(connection)
        self._on_close(connection)

    def gone(self, connection: Http3Connection) -> None:
        """Nothing of it is left."""
        for each in self._ids.pop(connection, ()):
            self._by_id.pop(each, None)

    def _readable(self) -> None:
        touched: dict[Http3Connection, None] = {}
        for _ in range(_READS_AT_ONCE):
            try:
                data, sender = self._sock.recvfrom(_DATAGRAM_BYTES)
            except BlockingIOError:
                break
            except OSError:
                continue  # An ICMP error for something sent before.
            connection = self._connection(data, sender)
            if connection is not None:
                connection.receive(data, sender)
                touched[connection] = None
        for connection in touched:
            if connection in self._ids:
                connection.flush()

    def _write_on(self) -> None:
        while self._outbox:
            data, to = self._outbox[0]
            try:
                self._sock.sendto(data, to)
            except BlockingIOError:
                return
            except OSError:
                pass
            self._outbox.popleft()
        self._loop.remove_writer(self._sock)

    def _connection(self, data: bytes, sender: Any) -> Http3Connection | None:
        """Whose datagram that is; one of nobody is answered here, or begins a connection."""
        length = self._setup.configuration.connection_id_length
        try:
            header = pull_quic_header(Buffer(data=data), host_cid_length=length)
        except (ValueError, BufferReadError):
            return None
        if header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
            return None  # Two servers must not answer each other for ever.
        known = self._setup.configuration.supported_versions
        if header.version is not None and header.version not in known:
            # Only to what could be an Initial (RFC 9000 section 6.1).
            if len(data) >= SMALLEST_MAX_DATAGRAM_SIZE:
                self._negotiate(header, sender)
            return None
        connection = self._by_id.get(header.destination_cid)
        if connection is not None:
            return connection
        if not data[0] & _LONG_HEADER:
            self._reset(header.destination_cid, len(data), sender)
        elif (
            header.packet_type == QuicPacketType.INITIAL and len(data) >= SMALLEST_MAX_DATAGRAM_SIZE
        ):
            self._begin(header, data, sender)
        return None

    def _negotiate(self, header: QuicHeader, sender: Any) -> None:
        answer = encode_quic_version_negotiation(
            source_cid=header.destination_cid,
            destination_cid=header.source_cid,
            supported_versions=self._setup.configuration.supported_versions,
        )
        self.send(answer, sender)

    def _begin(self, header: QuicHeader, data: bytes, sender: Any) -> None:
        if self._faulty_begin(header, sender):
            return
        original, retry = header.destination_cid, None
        if (token_for := self._token_for(header, sender)) is not None:
            original, retry = token_for, header.destination_cid
        elif self._settings.quic_retry or len(self._strangers) >= _STRANGERS:
            self._retry(header, sender)
            return
        tickets = self._setup.tickets
        faults = self._settings.quic_faults
        again = faults is not None and faults.hello_retry
        quic = ServerQuic(
            self._setup.configuration,
            original,
            retry,
            streams=self._settings.quic_streams,
            reset_key=self._setup.reset_key,
            tickets=None if again else (tickets.take, tickets.add),
            prepare_tls=ask_again if again else None,
        )
        ends = Endpoints(address(sender), address(self._sock.getsockname()), "https")
        connection = Http3Connection(quic, self, self._app, self._settings, ends, self._now)
        self._ids[connection] = set()
        self.add_id(header.destination_cid, connection)
        self.add_id(quic.host_cid, connection)
        self._strangers.add(connection)
        self._on_open(connection)
        connection.receive(data, sender)
        if not quic.begun:
            connection.abandon()
            return
        if self._refusing:
            quic.close(QuicErrorCode.CONNECTION_REFUSED, 0, "the server stops")
        connection.flush()

    def _faulty_begin(self, header: QuicHeader, sender: Any) -> bool:
        """Whether a fault keeps a connection from beginning."""
        faults = self._settings.quic_faults
        if faults is None:
            return False
        if faults.retry_loop:
            self._retry(header, sender)
            return True
        lost = self._lost.get(header.destination_cid, 0)
        if lost >= faults.lost_initial or header.token:
            return False
        if len(self._lost) >= _REMEMBERED:
            self._lost.clear()
        self._lost[header.destination_cid] = lost + 1
        return True

    def _token_for(self, header: QuicHeader, sender: Any) -> bytes | None:
        """The connection ID for which the client got a Retry; None without a good token."""
        if not header.token:
            return None
        with contextlib.suppress(ValueError, BufferReadError):
            return self._setup.retry_tokens.validate_token(
                address=sender,
                destination_cid=header.destination_cid,
                token=header.token,
                now=self._loop.time(),
            )
        return None

    def _retry(self, header: QuicHeader, sender: Any) -> None:
        """Have the client prove its address (RFC 9000 section 8.1.2)."""
        assert header.version is not None
        source = os.urandom(self._setup.configuration.connection_id_length)
        token = self._setup.retry_tokens.create_token(
            address=sender,
            original_destination_connection_id=header.destination_cid,
            retry_source_connection_id=source,
            now=self._loop.time(),
        )
        answer = encode_quic_retry(
            version=header.version,
            source_cid=source,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=token,
        )
        self.send(answer, sender)

    def _reset(self, connection_id: bytes, received: int, sender: Any) -> None:
        """Tell that the connection is not known here (RFC 9000 section 10.3): shorter than what it
        answers, so that two servers do not answer each other for ever."""
        if received <= _SHORTEST_RESET:
            return
        second = int(self._loop.time())
        sent = self._resets[1] if self._resets[0] == second else 0
        if sent >= _RESETS_PER_S:
            return
        self._resets = (second, sent + 1)
        random = bytearray(os.urandom(min(received - 1, 42) - RESET_TOKEN_BYTES))
        random[0] = random[0] & 0x3F | 0x40
        self.send(bytes(random) + reset_token(self._setup.reset_key, connection_id), sender)
