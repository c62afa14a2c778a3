"""HTTP/2 on one connection, with h2 as the state machine: many requests, each with its window."""

from __future__ import annotations

import asyncio
import logging
import struct
from email.utils import formatdate

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from reference_server.asgi import RENDER, App, ClientGone, Message, Scope
from reference_server.clock import Now
from reference_server.listen.body import InboundBody
from reference_server.listen.gate import WriteGate
from reference_server.listen.request import Endpoints, build_scope
from reference_server.listen.reset import reset_connection
from reference_server.settings import ListenSettings

_LOG = logging.getLogger("reference_server")

_MAX_RESETS = 1000
"""Streams that a client may reset on one connection before it is told to calm down (CVE-2023-44487,
"rapid reset"); nginx ends a connection after as many requests (keepalive_requests 1000)."""

_MAX_UNREAD_REPLIES = 256 * 1024
"""Bytes of PING and SETTINGS answers that may wait for a client which does not read. Data never
waits there (it waits for the gate), so this is some 15,000 unread answers. A choice."""


class _Stream:
    """One request and where its answer stands."""

    def __init__(self, stream_id: int, body: InboundBody) -> None:
        self.id = stream_id
        self.body = body
        self.window_opened = asyncio.Event()
        self.head_only = False
        self.head_sent = False
        self.ended = False
        self.gone = False
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """The client reset the stream, or the connection is lost."""
        self.gone = True
        self.body.disconnect()
        self.window_opened.set()


class Http2Connection:
    """Takes bytes from the transport, gives requests to the application, writes its answers."""

    def __init__(
        self,
        transport: asyncio.Transport,
        app: App,
        settings: ListenSettings,
        ends: Endpoints,
        now: Now,
    ) -> None:
        self._transport = transport
        self._app = app
        self._settings = settings
        self._ends = ends
        self._now = now
        self._gate = WriteGate(settings.send_timeout_s)
        self._streams: dict[int, _Stream] = {}
        self._resets = 0
        self._stopping = False
        self._timer: asyncio.TimerHandle | None = None
        self._h2 = _new_connection(settings)
        self._flush()
        self._expect(settings.head_timeout_s)

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return bool(self._streams)

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            # h2 has put a GOAWAY with the right code into its output (RFC 9113 section 5.4.1).
            self._end()
            return
        for event in events:
            self._handle(event)
        self._flush()
        if self._transport.get_write_buffer_size() > _MAX_UNREAD_REPLIES:
            self._transport.abort()

    def connection_lost(self) -> None:
        """The client is gone, or we closed."""
        self._cancel_timer()
        self._gate.lose()
        self._leave_all()

    def pause_writing(self) -> None:
        """The transport's buffer holds something."""
        self._gate.pause()

    def resume_writing(self) -> None:
        """The transport's buffer is empty."""
        self._gate.resume()

    def shutdown(self) -> None:
        """GOAWAY: running streams go on, the connection closes after the last (RFC 9113 6.8)."""
        self._stopping = True
        self._goaway(ErrorCodes.NO_ERROR)
        if not self._streams:
            self._transport.close()

    def cancel(self) -> None:
        """Stop the running answers and close."""
        for stream in self._streams.values():
            if stream.task is not None:
                stream.task.cancel()
        self._transport.abort()

    def _handle(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._start(event)
        elif isinstance(event, h2.events.DataReceived):
            self._data(event)
        elif isinstance(event, h2.events.StreamEnded):
            if (stream := self._streams.get(event.stream_id or 0)) is not None:
                stream.body.end()
        elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            for stream in self._streams.values():
                stream.window_opened.set()
        elif isinstance(event, h2.events.StreamReset):
            self._stream_reset(event.stream_id or 0)
        elif isinstance(event, h2.events.ConnectionTerminated):
            # The client could still read running answers, but h2 writes nothing after a GOAWAY.
            self._end()

    def _start(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id or 0
        if self._stopping:
            self._reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        self._cancel_timer()
        pseudo: dict[bytes, bytes] = {}
        headers: list[tuple[bytes, bytes]] = []
        for name, value in event.headers or []:
            field = (bytes(name), bytes(value))
            if field[0].startswith(b":"):
                pseudo[field[0]] = field[1]
            else:
                headers.append(field)
        if b":authority" in pseudo:
            headers.insert(0, (b"host", pseudo[b":authority"]))
        body = InboundBody(
            self._settings.body_timeout_s, lambda size: self._acknowledge(stream_id, size)
        )
        stream = _Stream(stream_id, body)
        method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"/")
        stream.head_only = method == b"HEAD"
        scope = build_scope("2", method, path, headers, self._ends, self._now())
        self._streams[stream_id] = stream
        stream.task = asyncio.get_running_loop().create_task(self._answer(scope, stream))

    def _end(self) -> None:
        """Write what h2 has left to say and close; every running answer ends."""
        self._flush()
        self._leave_all()
        self._transport.close()

    def _leave_all(self) -> None:
        for stream in self._streams.values():
            stream.leave()

    def _data(self, event: h2.events.DataReceived) -> None:
        stream = self._streams.get(event.stream_id or 0)
        size = event.flow_controlled_length or 0
        if stream is None or stream.ended:
            # Nobody will take it; the connection's window must not shrink for ever.
            self._acknowledge(event.stream_id or 0, size)
        else:
            stream.body.feed(bytes(event.data or b""), size)

    def _stream_reset(self, stream_id: int) -> None:
        if (stream := self._streams.get(stream_id)) is not None:
            stream.leave()
        self._resets += 1
        if self._resets > _MAX_RESETS:
            self._goaway(ErrorCodes.ENHANCE_YOUR_CALM)
            self._transport.close()

    async def _answer(self, scope: Scope, stream: _Stream) -> None:
        async def send(message: Message) -> None:
            await self._send(stream, message)

        code = ErrorCodes.INTERNAL_ERROR
        try:
            await self._app(scope, stream.body.receive, send)
            # Only what the client took may be followed by a close; else its end could be lost.
            await self._gate.wait()
        except ClientGone:
            code = ErrorCodes.CANCEL
        except Exception:
            _LOG.exception("the application failed")
        finally:
            self._streams.pop(stream.id, None)
        self._close_stream(stream, code)
        if not self._streams:
            if self._stopping:
                self._transport.close()
            else:
                self._expect(self._settings.keepalive_timeout_s)

    def _close_stream(self, stream: _Stream, code: ErrorCodes) -> None:
        """Leave the stream closed on both sides."""
        if stream.gone or self._transport.is_closing():
            return
        if not stream.ended:
            self._reset(stream.id, code)
        elif not stream.body.complete:
            # The whole answer is sent, the rest of the request is not wanted (RFC 9113 8.1).
            self._reset(stream.id, ErrorCodes.NO_ERROR)

    async def _send(self, stream: _Stream, message: Message) -> None:
        """ASGI's `send`: each call is written at once, as far as the client's windows allow."""
        await self._gate.wait()
        if stream.gone or stream.ended:
            raise ClientGone("the stream is closed")
        if message["type"] == "http.response.start":
            headers = [(b":status", str(message["status"]).encode())]
            headers.append((b"date", formatdate(usegmt=True).encode()))
            headers += [(name.lower(), value) for name, value in message["headers"]]
            if self._ends.alt_svc is not None:
                headers.append((b"alt-svc", self._ends.alt_svc))
            self._h2.send_headers(stream.id, headers)
            stream.head_sent = True
            self._flush()
        elif message["type"] == "http.response.body":
            await self._send_body(stream, message)
        elif message["type"] == "promptpath.abort":
            if message["how"] == "reset":
                self._reset(stream.id, ErrorCodes.INTERNAL_ERROR)
                stream.leave()
            else:
                reset_connection(self._transport, message["how"])

    async def _send_body(self, stream: _Stream, message: Message) -> None:
        last = not message.get("more_body", False)
        if RENDER in message:
            await self._window(stream)
            data: bytes = message[RENDER](self._now())
        else:
            data = message["body"]
        if stream.head_only:
            data = b""
        while data:
            size = min(await self._window(stream), len(data))
            end = last and size == len(data)
            self._h2.send_data(stream.id, data[:size], end_stream=end)
            self._flush()
            stream.ended = end
            data = data[size:]
        if last and not stream.ended:
            self._h2.end_stream(stream.id)
            stream.ended = True
            self._flush()
        if last:
            stream.body.disconnect()

    async def _window(self, stream: _Stream) -> int:
        """Bytes that may be written to the stream now, at least 1. Raises ClientGone."""
        while True:
            await self._gate.wait()
            if stream.gone:
                raise ClientGone("the stream is closed")
            size = min(
                self._h2.local_flow_control_window(stream.id), self._h2.max_outbound_frame_size
            )
            if size > 0:
                return size
            stream.window_opened.clear()
            try:
                async with asyncio.timeout(self._settings.send_timeout_s):
                    await stream.window_opened.wait()
            except TimeoutError:
                raise ClientGone("the client keeps its window closed") from None

    def _acknowledge(self, stream_id: int, size: int) -> None:
        if size and not self._transport.is_closing():
            self._h2.acknowledge_received_data(size, stream_id)
            self._flush()

    def _reset(self, stream_id: int, code: ErrorCodes) -> None:
        try:
            self._h2.reset_stream(stream_id, code)
        except h2.exceptions.ProtocolError:
            return  # The client closed it first.
        self._flush()

    def _goaway(self, code: ErrorCodes) -> None:
        """Tell that no further stream is taken. h2's own call would end the running ones too."""
        if self._transport.is_closing():
            return
        self._flush()
        last = self._h2.highest_inbound_stream_id
        # RFC 9113 section 6.8: length 8, type 7, no flags, stream 0; last stream id, error code.
        self._transport.write(struct.pack(">HBBBIII", 0, 8, 7, 0, 0, last, int(code)))

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)

    def _expect(self, timeout_s: float) -> None:
        """A request must come within `timeout_s`, or the idle connection is closed."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self.shutdown)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _new_connection(settings: ListenSettings) -> h2.connection.H2Connection:
    """A server connection that has queued its SETTINGS and opened its window."""
    config = h2.config.H2Configuration(client_side=False, header_encoding=None)
    connection = h2.connection.H2Connection(config)
    connection.local_settings = h2.settings.Settings(
        client=False,
        initial_values={
            SettingCodes.MAX_CONCURRENT_STREAMS: settings.max_concurrent_streams,
            SettingCodes.MAX_HEADER_LIST_SIZE: settings.max_head_bytes,
            SettingCodes.INITIAL_WINDOW_SIZE: settings.body_window_bytes,
        },
    )
    # h2 would apply this only when the setting changes later.
    connection.decoder.max_header_list_size = settings.max_head_bytes
    connection.initiate_connection()
    # The connection's window starts at 65,535 whatever SETTINGS say (RFC 9113 section 6.9.2).
    connection.increment_flow_control_window(4 * settings.body_window_bytes)
    return connection
