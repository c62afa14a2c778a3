"""HTTP/1.1 on one connection, with h11 as the parser: one request at a time, keep-alive."""

from __future__ import annotations

import asyncio
import logging
from email.utils import formatdate

import h11

from reference_server.asgi import RENDER, App, ClientGone, Message
from reference_server.clock import Now
from reference_server.listen.body import InboundBody
from reference_server.listen.gate import WriteGate
from reference_server.listen.request import Endpoints, build_scope
from reference_server.listen.reset import reset_connection
from reference_server.settings import ListenSettings

_LOG = logging.getLogger("reference_server")


class Http1Connection:
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
        self._h11 = h11.Connection(h11.SERVER, max_incomplete_event_size=settings.max_head_bytes)
        self._body: InboundBody | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = False
        self._lingering = False
        self._reading = True
        self._pipelined = False
        self._head_only = False
        self._expect(settings.head_timeout_s)

    @property
    def busy(self) -> bool:
        """A request is being answered."""
        return self._task is not None

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self._lingering:
            return
        if self._task is None and self._h11.trailing_data[0] == b"":
            # The first byte of a further request: from here on its head has its own time limit.
            self._expect(self._settings.head_timeout_s)
        try:
            self._h11.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint)

    def connection_lost(self) -> None:
        """The client is gone, or we closed."""
        self._cancel_timer()
        self._gate.lose()
        if self._body is not None:
            self._body.disconnect()

    def pause_writing(self) -> None:
        """The transport's buffer holds something."""
        self._gate.pause()

    def resume_writing(self) -> None:
        """The transport's buffer is empty."""
        self._gate.resume()

    def shutdown(self) -> None:
        """Close now when idle, else after the running answer."""
        self._stopping = True
        if self._task is None:
            self._transport.close()

    def cancel(self) -> None:
        """Stop the running answer and close."""
        if self._task is not None:
            self._task.cancel()
        self._transport.abort()

    def _advance(self) -> None:
        """Everything h11 can tell now."""
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                return
            if event is h11.PAUSED:
                # A pipelined request: it stays in the socket until this one is answered.
                self._pipelined = True
                self._update_reading()
                return
            if isinstance(event, h11.Request):
                self._start(event)
            elif isinstance(event, h11.Data) and self._body is not None:
                self._body.feed(bytes(event.data))
                self._update_reading()
            elif isinstance(event, h11.EndOfMessage) and self._body is not None:
                self._body.end()

    def _start(self, request: h11.Request) -> None:
        self._cancel_timer()
        # h11 limits only a head that comes in pieces; one that came in a single read is whole here.
        # Counted as HTTP/2 counts, 32 bytes a field more (RFC 9113 section 6.5.2).
        fields = sum(len(name) + len(value) + 32 for name, value in request.headers)
        size = len(request.target) + fields
        if size > self._settings.max_head_bytes:
            self._refuse(431)
            return
        self._head_only = request.method == b"HEAD"
        self._body = InboundBody(self._settings.body_timeout_s, lambda size: self._update_reading())
        scope = build_scope(
            request.http_version.decode("ascii"),
            request.method,
            request.target,
            list(request.headers),
            self._ends,
            self._now(),
        )
        answer = self._answer(scope, self._body)
        self._task = asyncio.get_running_loop().create_task(answer)

    async def _answer(self, scope: Message, body: InboundBody) -> None:
        async def receive() -> Message:
            if self._h11.they_are_waiting_for_100_continue:
                info = h11.InformationalResponse(status_code=100, headers=[])
                self._transport.write(self._h11.send(info) or b"")
            return await body.receive()

        try:
            await self._app(scope, receive, self._send)
            if self._h11.our_state is h11.SEND_RESPONSE:
                self._refuse(408 if body.timed_out else 500)
            # Only what the client took may be followed by a close; else its end could be lost.
            await self._gate.wait()
        except ClientGone:
            self._transport.abort()
        except Exception:
            _LOG.exception("the application failed")
            self._refuse(500)
        finally:
            self._task = None
        self._after_answer()

    async def _send(self, message: Message) -> None:
        """ASGI's `send`: each call is one write, once the client took the ones before."""
        await self._gate.wait()
        if self._h11.our_state not in (h11.SEND_RESPONSE, h11.SEND_BODY):
            raise ClientGone("the response is over")
        if message["type"] == "http.response.start":
            headers = [(b"date", formatdate(usegmt=True).encode()), *message["headers"]]
            if self._ends.alt_svc is not None:
                headers.append((b"alt-svc", self._ends.alt_svc))
            if self._stopping or self._body is None or not self._body.complete:
                headers.append((b"connection", b"close"))
            head = h11.Response(status_code=message["status"], headers=headers)
            self._transport.write(self._h11.send(head) or b"")
        elif message["type"] == "http.response.body":
            self._send_body(message)
        elif message["type"] == "promptpath.abort":
            reset_connection(self._transport, message["how"])

    def _send_body(self, message: Message) -> None:
        data: bytes = message[RENDER](self._now()) if RENDER in message else message["body"]
        out = b""
        if data and not self._head_only:
            out = self._h11.send(h11.Data(data=data)) or b""
        if not message.get("more_body", False):
            out += self._h11.send(h11.EndOfMessage()) or b""
            if self._body is not None:
                self._body.disconnect()
        if out:
            self._transport.write(out)

    def _after_answer(self) -> None:
        if self._transport.is_closing():
            return
        if self._h11.our_state is h11.DONE and self._h11.their_state is h11.DONE:
            if self._stopping:
                self._transport.close()
                return
            self._h11.start_next_cycle()
            self._body = None
            self._pipelined = False
            self._expect(self._settings.keepalive_timeout_s)
            self._update_reading()
            try:
                self._advance()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint)
        else:
            self._linger()

    def _linger(self) -> None:
        """Close, but first let the client read the answer while it still sends (RFC 9112 9.6)."""
        if self._h11.our_state not in (h11.DONE, h11.MUST_CLOSE, h11.CLOSED):
            self._transport.abort()
            return
        if self._body is None or self._body.complete:
            self._transport.close()
            return
        self._lingering = True
        self._update_reading()
        self._cancel_timer()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._settings.lingering_timeout_s, self._transport.close)

    def _refuse(self, status: int) -> None:
        """Answer what cannot be understood, when an answer still can be sent, and close."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers = [("content-length", "0"), ("connection", "close")]
            response = h11.Response(status_code=status, headers=headers)
            out = self._h11.send(response) or b""
            self._transport.write(out + (self._h11.send(h11.EndOfMessage()) or b""))
        if self._body is not None:
            self._body.disconnect()
        self._transport.close()

    def _update_reading(self) -> None:
        """Read on unless a second request waits or the application is behind with the body."""
        waiting = self._body.waiting_bytes if self._body is not None else 0
        behind = self._pipelined or waiting > self._settings.body_window_bytes
        wanted = self._lingering or not behind
        if wanted == self._reading or self._transport.is_closing():
            return
        self._reading = wanted
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _expect(self, timeout_s: float) -> None:
        """The next request's head must be complete within `timeout_s`."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(timeout_s, self._head_timed_out)

    def _head_timed_out(self) -> None:
        if self._h11.trailing_data[0]:
            self._refuse(408)
        else:
            self._transport.close()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
