"""An HTTP/3 client for tests: aioquic over asyncio's own datagram transport, told what to ask."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aioquic.h3.connection import H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted, QuicEvent, StreamReset
from aioquic.tls import SessionTicket

GET = (b"GET", b"/healthz")


@dataclass
class H3Answer:
    """What came on one stream."""

    status: int | None = None
    headers: dict[bytes, bytes] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    ended: bool = False
    reset: int | None = None
    """Error code of the server's RESET_STREAM."""

    @property
    def body(self) -> bytes:
        """All DATA so far."""
        return b"".join(self.pieces)


class H3Client(asyncio.DatagramProtocol):
    """One connection. `changed` is set whenever something came."""

    def __init__(self, configuration: QuicConfiguration, address: tuple[str, int]) -> None:
        self.tickets: list[SessionTicket] = []
        self.quic = QuicConnection(
            configuration=configuration, session_ticket_handler=self.tickets.append
        )
        self.h3 = H3Connection(self.quic)
        self.address = address
        self.answers: dict[int, H3Answer] = {}
        self.seen: list[QuicEvent] = []
        self.datagrams: list[bytes] = []
        """Every datagram of the server."""
        self.handshake: HandshakeCompleted | None = None
        self.closed: ConnectionTerminated | None = None
        self.changed = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.reading = True
        """False leaves every datagram of the server unheard."""

    def connection_made(self, transport: Any) -> None:
        """The socket stands."""
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """A datagram came."""
        self.datagrams.append(data)
        self.changed.set()
        if self.reading:
            self.quic.receive_datagram(data, self.address, self._loop.time())
            self.flush()

    def connect(self) -> None:
        """Queue the ClientHello; requests made before `flush` go as early data if there is a
        ticket."""
        self.quic.connect(self.address, self._loop.time())

    def ask(
        self,
        method: bytes,
        path: bytes,
        body: bytes | None = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
    ) -> int:
        """Send a request; `body` None leaves it open. Returns the stream's id."""
        stream_id = self.quic.get_next_available_stream_id()
        head = [(b":method", method), (b":scheme", b"https"), (b":authority", b"localhost")]
        head += [(b":path", path), *(headers or [])]
        self.h3.send_headers(stream_id, head, end_stream=body == b"")
        if body:
            self.h3.send_data(stream_id, body, end_stream=True)
        self.answers[stream_id] = H3Answer()
        return stream_id

    def flush(self) -> None:
        """Take in what happened and send what waits."""
        while (event := self.quic.next_event()) is not None:
            self._handle(event)
        for data, _ in self.quic.datagrams_to_send(self._loop.time()):
            if self._transport is not None and not self._transport.is_closing():
                self._transport.sendto(data)
        if self._timer is not None:
            self._timer.cancel()
        at = self.quic.get_timer()
        self._timer = None if at is None else self._loop.call_at(at, self._timer_fired)
        self.changed.set()

    async def until_ended(self, stream_id: int) -> H3Answer:
        """Wait for the end of an answer, its reset or the connection's end."""
        self.flush()
        answer = self.answers[stream_id]
        await self.until(lambda: answer.ended or answer.reset is not None or bool(self.closed))
        return answer

    async def until(self, done: Any) -> None:
        """Wait until `done()`; it is asked after each thing that comes."""
        while not done():
            self.changed.clear()
            await self.changed.wait()

    def leave(self) -> None:
        """Stop timers."""
        if self._timer is not None:
            self._timer.cancel()

    def _timer_fired(self) -> None:
        self._timer = None
        self.quic.handle_timer(self._loop.time())
        self.flush()

    def _handle(self, event: QuicEvent) -> None:
        self.seen.append(event)
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        elif isinstance(event, ConnectionTerminated):
            self.closed = event
        elif isinstance(event, StreamReset) and event.stream_id in self.answers:
            self.answers[event.stream_id].reset = event.error_code
        for each in self.h3.handle_event(event):
            self._handle_http(each)

    def _handle_http(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            answer = self.answers[event.stream_id]
            answer.headers = dict(event.headers)
            answer.status = int(answer.headers[b":status"])
            answer.ended = event.stream_ended
        elif isinstance(event, DataReceived):
            answer = self.answers[event.stream_id]
            answer.pieces.append(event.data)
            answer.ended = event.stream_ended


def client_configuration(ca: Path, **more: Any) -> QuicConfiguration:
    """Trust `ca`, speak h3."""
    configuration = QuicConfiguration(
        is_client=True, alpn_protocols=["h3"], server_name="localhost", **more
    )
    configuration.load_verify_locations(str(ca))
    return configuration


@contextlib.asynccontextmanager
async def h3_client(
    port: int, ca: Path, wait: bool = True, host: str = "127.0.0.1", **more: Any
) -> AsyncIterator[H3Client]:
    """A client of an address; `more` are fields of QuicConfiguration, `wait` ends the handshake."""
    loop = asyncio.get_running_loop()
    configuration = client_configuration(ca, **more)
    address = (host, port)
    transport, client = await loop.create_datagram_endpoint(
        lambda: H3Client(configuration, address), remote_addr=address
    )
    try:
        client.connect()
        if wait:
            client.flush()
            await client.until(lambda: client.handshake or client.closed)
        yield client
        if client.closed is None and not transport.is_closing():
            client.quic.close()
            client.flush()
    finally:
        client.leave()
        transport.close()
