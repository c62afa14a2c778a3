"""HTTP/3 on one QUIC connection, with aioquic as the state machine."""

from __future__ import annotations

import asyncio
import logging
from email.utils import formatdate
from typing import Any

from aioquic.h3.connection import ErrorCode
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.events import (
    ConnectionIdIssued,
    ConnectionIdRetired,
    ConnectionTerminated,
    HandshakeCompleted,
    ProtocolNegotiated,
    QuicEvent,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.packet import QuicErrorCode

from reference_server.asgi import RENDER, App, ClientGone, Message, Scope
from reference_server.clock import Now
from reference_server.listen.body import InboundBody
from reference_server.listen.early_data import may_be_early
from reference_server.listen.http3_stream import Link, Stream, head_size, split_head
from reference_server.listen.quic_faults import QuicFaults
from reference_server.listen.quic_state import ServerH3, ServerQuic
from reference_server.listen.request import Endpoints, build_scope
from reference_server.settings import ListenSettings

_LOG = logging.getLogger("reference_server")

_MAX_RESETS = 1000
"""As in HTTP/2, see there."""
_DATAGRAM_DATA = 1100
"""Bytes of answers that fit into one datagram of 1,200 (RFC 9000 section 14) beside its headers and
those of some ten frames: when so many wait, they leave without waiting for the turn's end."""
_PIECE = 16 * 1024
"""Largest part of an answer that is handed to aioquic at once; it keeps a copy until it is
acknowledged. HTTP/2's default frame size. A choice."""


class Http3Connection:
    """Takes datagrams from the endpoint, gives requests to the application, sends its answers.

    What streams write in one turn of the loop leaves together, at the latest when a datagram is
    full: 200 streams at 20 events/s would otherwise cost a datagram for each event.
    """

    def __init__(
        self,
        quic: ServerQuic,
        link: Link,
        app: App,
        settings: ListenSettings,
        ends: Endpoints,
        now: Now,
    ) -> None:
        self._quic = quic
        self._link = link
        self._app = app
        self._settings = settings
        self._ends = ends
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._h3: ServerH3 | None = None
        self._streams: dict[int, Stream] = {}
        self._waiting: set[Stream] = set()
        self._established = False
        self._answered = False
        self._gone = False
        self._stopping = False
        self._next_request = 0
        self._resets = 0
        self._unsent = 0
        self._flushing = False
        self._faults = settings.quic_faults
        self._pieces = 0
        self._deaf = False
        """Nothing is sent or heard any more: the faults "silent" and "half handshake"."""
        self._quic_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expect(settings.head_timeout_s)

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return bool(self._streams)

    @property
    def quic(self) -> ServerQuic:
        """The connection below."""
        return self._quic

    def receive(self, data: bytes, sender: Any) -> None:
        """A datagram from the client; call `flush` after the last of a batch."""
        if self._deaf:
            return
        try:
            self._quic.receive_datagram(data, sender, self._loop.time())
            self._take_events()
        except Exception:
            # What aioquic does not expect of a client must not end the server.
            _LOG.exception("a QUIC connection failed")
            self._quic.close(QuicErrorCode.INTERNAL_ERROR, 0)

    def flush(self) -> None:
        """Send what can be sent, wake the streams that have room again, set the timer."""
        self._unsent = 0
        self._flushing = False
        if self._gone:
            return
        for data, to in self._quic.datagrams_to_send(self._loop.time()):
            if not self._deaf:
                self._link.send(data, to)
        if self._faults is not None and self._faults.half_handshake:
            self._deaf = True
        for stream in list(self._waiting):
            if self._quic.room(stream.id):
                self._waiting.discard(stream)
                stream.room.set()
        if self._quic.over:
            self._leave_all()
        self._set_timer()

    def shutdown(self) -> None:
        """GOAWAY: running streams go on, the connection closes after the last (RFC 9114 5.2)."""
        self._cancel_expectation()
        if self._stopping or self._quic.over:
            return
        self._stopping = True
        if self._h3 is not None:
            self._h3.goaway(self._next_request)
        self._close_when_settled()
        self._touch()

    def cancel(self) -> None:
        """Stop the running answers and close."""
        for stream in self._streams.values():
            if stream.task is not None:
                stream.task.cancel()
        if not self._quic.over:
            self._quic.close(ErrorCode.H3_NO_ERROR, reason_phrase="the server stops")
        self.flush()
        self._cancel_timers()

    def close(self, code: int, reason: str = "") -> None:
        """CONNECTION_CLOSE, at once."""
        if not self._quic.over:
            self._quic.close(code, reason_phrase=reason)
            self.flush()

    def abandon(self) -> None:
        """Forget everything without a word to the client."""
        self._gone = True
        self._leave_all()
        self._cancel_timers()
        self._link.gone(self)

    def _take_events(self) -> None:
        while (event := self._quic.next_event()) is not None:
            self._handle(event)
        if self._stopping:
            self._close_when_settled()

    def _handle(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self._stream_data(event)
        elif isinstance(event, ProtocolNegotiated):
            # Before the handshake ends: early data and the client's SETTINGS come before that.
            self._h3 = ServerH3(self._quic, self._settings.max_head_bytes)
        elif isinstance(event, HandshakeCompleted):
            self._established = True
            self._link.established(self)
        elif isinstance(event, StopSendingReceived | StreamReset):
            if self._h3 is not None:
                self._h3.handle_event(event)
            self._stream_reset(event.stream_id)
        elif isinstance(event, ConnectionIdIssued):
            self._link.add_id(event.connection_id, self)
        elif isinstance(event, ConnectionIdRetired):
            self._link.drop_id(event.connection_id)
        elif isinstance(event, ConnectionTerminated):
            self.abandon()

    def _stream_data(self, event: StreamDataReceived) -> None:
        if self._h3 is None:
            return
        # Frame headers and heads count against the windows too, but nobody reads them.
        overhead = len(event.data)
        for each in self._h3.handle_event(event):
            if isinstance(each, DataReceived):
                overhead -= len(each.data)
            self._handle_http(each)
        self._quic.read(event.stream_id, overhead)
        if self._h3.buffered(event.stream_id) > self._settings.max_head_bytes:
            self._quic.close(ErrorCode.H3_EXCESSIVE_LOAD, reason_phrase="the frame is too large")

    def _handle_http(self, event: H3Event) -> None:
        if isinstance(event, HeadersReceived):
            stream = self._streams.get(event.stream_id)
            if any(name == b":method" for name, _ in event.headers):
                self._start(event)
            elif stream is not None and event.stream_ended:
                stream.body.end()  # Those were trailers.
        elif isinstance(event, DataReceived):
            stream = self._streams.get(event.stream_id)
            if stream is None or stream.ended:
                self._quic.read(event.stream_id, len(event.data))
                return
            if event.data:
                stream.body.feed(event.data)
            if event.stream_ended:
                stream.body.end()

    def _start(self, event: HeadersReceived) -> None:
        stream_id = event.stream_id
        pseudo, headers = split_head(event.headers)
        if self._stopping:
            self._quic.reset_stream(stream_id, ErrorCode.H3_REQUEST_REJECTED)
            return
        method, path = pseudo.get(b":method", b""), pseudo.get(b":path", b"/")
        if not self._established:
            if not may_be_early(method, path):
                self._refuse(event, 425)
                return
            headers.append((b"early-data", b"1"))  # RFC 8470 section 5.1
        if head_size(event.headers) > self._settings.max_head_bytes:
            self._refuse(event, 431)
            return
        self._cancel_expectation()
        self._next_request = max(self._next_request, stream_id + 4)
        body = InboundBody(
            self._settings.body_timeout_s, lambda size: self._consumed(stream_id, size)
        )
        stream = Stream(stream_id, body)
        stream.head_only = method == b"HEAD"
        if event.stream_ended:
            body.end()
        elif self._faults is not None and self._faults.stop_sending is not None:
            self._quic.stop_stream(stream_id, self._faults.stop_sending)
        scope = build_scope("3", method, path, headers, self._ends, self._now())
        self._streams[stream_id] = stream
        stream.task = self._loop.create_task(self._answer(scope, stream))

    def _refuse(self, event: HeadersReceived, status: int) -> None:
        """Answer a request that the application must not see."""
        assert self._h3 is not None
        self._next_request = max(self._next_request, event.stream_id + 4)
        head = [(b":status", str(status).encode()), (b"date", formatdate(usegmt=True).encode())]
        self._h3.send_headers(event.stream_id, [*head, (b"content-length", b"0")], end_stream=True)
        if not event.stream_ended:
            self._quic.stop_stream(event.stream_id, ErrorCode.H3_NO_ERROR)

    def _consumed(self, stream_id: int, size: int) -> None:
        if size:
            self._quic.read(stream_id, size)
            self._touch()

    def _stream_reset(self, stream_id: int) -> None:
        if (stream := self._streams.get(stream_id)) is not None:
            stream.leave()
        self._resets += 1
        if self._resets > _MAX_RESETS:
            self._quic.close(ErrorCode.H3_EXCESSIVE_LOAD, reason_phrase="too many resets")

    async def _answer(self, scope: Scope, stream: Stream) -> None:
        async def send(message: Message) -> None:
            await self._send(stream, message)

        try:
            await self._app(scope, stream.body.receive, send)
        except ClientGone:
            stream.code = ErrorCode.H3_REQUEST_CANCELLED
        except Exception:
            _LOG.exception("the application failed")
        finally:
            self._streams.pop(stream.id, None)
            self._waiting.discard(stream)
            self._quic.forget(stream.id)
        self._close_stream(stream)
        if self._streams:
            return
        if self._stopping:
            self._close_when_settled()
        else:
            self._expect(self._settings.keepalive_timeout_s)

    def _close_stream(self, stream: Stream) -> None:
        """Leave the stream closed on both sides."""
        if self._quic.over:
            return
        if not stream.ended and self._quic.writable(stream.id):
            self._quic.reset_stream(stream.id, stream.code)
            self._touch()
        if not stream.body.complete and not stream.gone:
            # The rest of the request is not wanted (RFC 9114 section 4.1).
            self._quic.stop_stream(stream.id, ErrorCode.H3_NO_ERROR)
            self._touch()

    async def _send(self, stream: Stream, message: Message) -> None:
        """ASGI's `send`: each call is written at once, as far as the client's windows allow."""
        if stream.gone or stream.ended or self._h3 is None:
            raise ClientGone("the stream is closed")
        if message["type"] == "http.response.start":
            headers = [(b":status", str(message["status"]).encode())]
            headers.append((b"date", formatdate(usegmt=True).encode()))
            headers += [(name.lower(), value) for name, value in message["headers"]]
            self._h3.send_headers(stream.id, headers)
            self._touch(len(headers) * 8)
        elif message["type"] == "http.response.body":
            await self._send_body(stream, message)
        elif message["type"] == "promptpath.abort":
            self._abort(stream, message["how"])

    def _abort(self, stream: Stream, how: str) -> None:
        if how == "reset":
            self._quic.reset_stream(stream.id, ErrorCode.H3_INTERNAL_ERROR)
            stream.leave()
            self._touch()
        else:
            self.close(ErrorCode.H3_INTERNAL_ERROR, "broken off on request")

    async def _send_body(self, stream: Stream, message: Message) -> None:
        last = not message.get("more_body", False)
        if RENDER in message:
            await self._room(stream)
            data: bytes = message[RENDER](self._now())
        else:
            data = message["body"]
        if stream.head_only:
            data = b""
        while data:
            size = min(await self._room(stream), _PIECE, len(data))
            self._write(stream, data[:size], last and size == len(data))
            data = data[size:]
        if last and not stream.ended:
            self._write(stream, b"", True)
        if last:
            stream.body.disconnect()

    def _write(self, stream: Stream, data: bytes, end: bool) -> None:
        assert self._h3 is not None
        if self._unsent + len(data) > _DATAGRAM_DATA:
            self.flush()
            if stream.gone:
                raise ClientGone("the connection is lost")
        if data:
            self._h3.send_data(stream.id, data, end)
        else:
            self._quic.send_stream_data(stream.id, b"", end)
        stream.ended = end
        self._touch(len(data))
        if self._faults is not None and self._faults.counts:
            self._pieces += 1
            self._fail(self._faults)

    def _fail(self, faults: QuicFaults) -> None:
        """Do the faults that are due after this piece; what was written before leaves first."""
        if self._pieces == faults.goaway_after:
            self.shutdown()
        elif self._pieces == faults.stateless_reset_after:
            self.flush()
            self.abandon()
        elif self._pieces == faults.silent_after:
            self.flush()
            self._deaf = True
        elif self._pieces == faults.close_after:
            self.flush()
            frame = 0 if faults.close_transport else None
            self._quic.close(faults.close_code, frame, faults.close_reason)
            self.flush()

    async def _room(self, stream: Stream) -> int:
        """How much may be written; waits while it is nothing. Raises ClientGone."""
        while True:
            room = self._quic.room(stream.id)
            if room:
                return room
            if self._flushing:
                # Perhaps only this turn's datagram is in the way.
                self.flush()
                if room := self._quic.room(stream.id):
                    return room
            if stream.gone or self._quic.over:
                raise ClientGone("the stream is closed")
            await self._wait_for_room(stream)

    async def _wait_for_room(self, stream: Stream) -> None:
        stream.room.clear()
        self._waiting.add(stream)
        try:
            async with asyncio.timeout(self._settings.send_timeout_s):
                await stream.room.wait()
        except TimeoutError:
            stream.code = ErrorCode.H3_REQUEST_CANCELLED
            raise ClientGone("the client keeps its window closed") from None
        finally:
            self._waiting.discard(stream)
        if stream.gone:
            raise ClientGone("the stream is closed")

    def _touch(self, size: int = 0) -> None:
        """Something is to be sent before this turn of the loop ends."""
        self._unsent += size
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush_turn)

    def _flush_turn(self) -> None:
        if self._flushing:
            self.flush()

    def _close_when_settled(self) -> None:
        """The end of an orderly stop: the client has everything that was written."""
        if not self._streams and self._quic.settled and not self._quic.over:
            self._quic.close(ErrorCode.H3_NO_ERROR)
            self._touch()

    def _leave_all(self) -> None:
        for stream in self._streams.values():
            stream.leave()
        self._cancel_expectation()
        if not self._answered:
            self._answered = True
            self._link.answered(self)

    def _set_timer(self) -> None:
        """Only a time earlier than the one that is set costs a new timer; a late one looks anew."""
        at = self._quic.get_timer()
        if at is None:
            return
        if self._quic_timer is not None:
            if self._quic_timer.when() <= at:
                return
            self._quic_timer.cancel()
        self._quic_timer = self._loop.call_at(at, self._timer_fired)

    def _timer_fired(self) -> None:
        self._quic_timer = None
        at = self._quic.get_timer()
        now = self._loop.time()
        if at is not None and now >= at:
            self._quic.handle_timer(now)
            self._take_events()
        self.flush()

    def _expect(self, timeout_s: float) -> None:
        """A request must come within `timeout_s`, or the idle connection is closed."""
        self._cancel_expectation()
        if not self._quic.over:
            self._timer = self._loop.call_later(timeout_s, self.shutdown)

    def _cancel_expectation(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_timers(self) -> None:
        self._cancel_expectation()
        if self._quic_timer is not None:
            self._quic_timer.cancel()
            self._quic_timer = None
