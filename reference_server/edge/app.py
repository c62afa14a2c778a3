"""The edge as an ASGI application for our listener: one request in, one request out.

The body of an answer is written piece by piece as it comes from the backend. A backend that cannot
be reached is passed over; a request that a backend has begun to read is never sent to a second one
(RFC 9110 section 9.2.2).
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress

import h11

from reference_server.asgi import ClientGone, Exchange, Header, Message, Receive, Scope, Send
from reference_server.clock import Now, monotonic_ns, sleep_until
from reference_server.edge.affinity import prefix_blocks
from reference_server.edge.balance import Backend, Balancer
from reference_server.edge.headers import request_headers, response_headers
from reference_server.edge.health import check
from reference_server.edge.merge import merge
from reference_server.edge.replicas import Replicas
from reference_server.edge.upstream import Pool, UpstreamBroken, UpstreamConnection

_LOG = logging.getLogger("reference_server")
_CHECK_S = 1.0
"""Between two health checks of a backend. A choice."""
_STATUS = "/promptpath/edge"
_METRICS = "/metrics"
_TIMELINE = "/promptpath/requests/"


class EdgeApp:
    """Spreads requests over backends; with `replicas` it starts and stops them too."""

    def __init__(
        self,
        backends: list[Backend],
        delay_ns: int = 0,
        replicas: Replicas | None = None,
        now: Now = monotonic_ns,
    ) -> None:
        """`delay_ns` is added before each request is passed on."""
        self.balancer = Balancer(backends)
        self._pools = {backend: Pool(backend) for backend in backends}
        self._delay_ns = delay_ns
        self._replicas = replicas
        self._now = now
        self._checking: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """What the replicas call their model."""
        return self._replicas.model if self._replicas is not None else "unknown"

    async def start(self) -> str:
        """Start the replicas and the health checks; says what is behind. Raises ReplicaError."""
        if self._replicas is not None:
            await self._replicas.start(self.balancer.backends)
        self._checking = asyncio.get_running_loop().create_task(self._check_for_ever())
        return f"{len(self.balancer.backends)} behind the edge"

    async def end_answers(self) -> None:
        """Stop the replicas, which end their streams with an error event that says so."""
        if self._replicas is not None:
            await self._replicas.stop()

    async def close(self) -> None:
        """Stop checking, close connections, stop the replicas."""
        if self._checking is not None:
            self._checking.cancel()
            with suppress(asyncio.CancelledError):
                await self._checking
        for pool in self._pools.values():
            pool.close()
        if self._replicas is not None:
            await self._replicas.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        exchange = Exchange(scope, receive, send, self._now)
        try:
            if exchange.path == _STATUS:
                await self._status(exchange)
            elif exchange.path == _METRICS:
                await self._metrics(scope, exchange)
            elif exchange.path.startswith(_TIMELINE):
                await self._ask_all(scope, exchange)
            else:
                await self._forward(scope, exchange, receive)
        except ClientGone:
            _LOG.debug("client left: %s", exchange.path)

    async def _forward(self, scope: Scope, exchange: Exchange, receive: Receive) -> None:
        if self._delay_ns:
            await sleep_until(self._now() + self._delay_ns, self._now)
        first = await receive()
        if first["type"] == "http.disconnect":
            raise ClientGone
        blocks = prefix_blocks(first["body"])
        tried: list[Backend] = []
        while (backend := self.balancer.pick(tried, blocks)) is not None:
            tried.append(backend)
            backend.outstanding += 1
            backend.served += 1
            try:
                connection = await self._pools[backend].take()
            except OSError:
                self.balancer.refused(backend)
                continue
            else:
                backend.memory.remember(blocks)
                request = _Request(scope, first, receive, connection, self._now)
                await self._relay(request, exchange, backend, connection)
                return
            finally:
                backend.outstanding -= 1
        await _refuse(exchange, 503, "no_backend", "No backend takes requests now.")

    async def _relay(
        self,
        request: _Request,
        exchange: Exchange,
        backend: Backend,
        connection: UpstreamConnection,
    ) -> None:
        sender = asyncio.ensure_future(request.send())
        answer = asyncio.ensure_future(self._answer(exchange, request, backend, connection))
        whole = False
        try:
            # The sender goes on until the client leaves; then nobody wants the answer.
            await asyncio.wait({sender, answer}, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                await sender
                raise ClientGone("the client left")
            await answer
            whole = request.complete
        except _CannotPass:
            await _refuse(exchange, 400, "invalid_request", "The request cannot be passed on.")
        except UpstreamBroken as error:
            if not exchange.started:
                await _refuse(exchange, 502, "backend_failed", "The backend broke off.")
                return
            _LOG.warning("backend %s broke off a stream: %s", backend.name, error)
            # Never a clean end: the client must see that the answer is not whole.
            await exchange.abort("reset" if request.http2 else "close")
            raise ClientGone("the backend broke off") from None
        finally:
            for task in (sender, answer):
                task.cancel()
            await asyncio.gather(sender, answer, return_exceptions=True)
            if whole:
                self._pools[backend].give_back(connection)
            else:
                connection.close()

    async def _answer(
        self,
        exchange: Exchange,
        request: _Request,
        backend: Backend,
        connection: UpstreamConnection,
    ) -> None:
        while True:
            event = await connection.receive()
            if isinstance(event, h11.Response):
                edge_ns = (request.passed_on_ns or self._now()) - exchange.received_ns
                head = response_headers(list(event.headers), edge_ns, backend.name)
                await exchange.start(event.status_code, head)
            elif isinstance(event, h11.Data):
                data = bytes(event.data)
                await exchange.write(lambda sent_ns, data=data: data)  # type: ignore[misc]
            elif isinstance(event, h11.EndOfMessage):
                await exchange.end()
                return

    async def _ask_all(self, scope: Scope, exchange: Exchange) -> None:
        """A request's timeline is on one replica only: the first that knows it answers."""
        status, headers, body = 404, list[Header](), b'{"error": {"code": "not_found"}}'
        name = "none"
        for backend in self.balancer.backends:
            pool = self._pools[backend]
            with suppress(OSError, UpstreamBroken):
                connection = await pool.take()
                status, headers, body = await _fetch(connection, scope)
                pool.give_back(connection)
                name = backend.name
                if status != 404:
                    break
        kept = [each for each in headers if each[0] != b"content-length"]
        await exchange.respond(status, response_headers(kept, 0, name), body)

    async def _metrics(self, scope: Scope, exchange: Exchange) -> None:
        texts: dict[str, str] = {}
        for backend in self.balancer.backends:
            with suppress(OSError, UpstreamBroken):
                connection = await self._pools[backend].take()
                _, _, body = await _fetch(connection, scope)
                self._pools[backend].give_back(connection)
                texts[backend.name] = body.decode("utf-8", "replace")
        head = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await exchange.respond(200, head, merge(texts).encode())

    async def _status(self, exchange: Exchange) -> None:
        rows = [
            {
                "name": backend.name,
                "port": backend.port,
                "healthy": backend.healthy,
                "outstanding": backend.outstanding,
                "served": backend.served,
                "connections_opened": self._pools[backend].opened,
            }
            for backend in self.balancer.backends
        ]
        head = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await exchange.respond(200, head, json.dumps({"backends": rows}).encode())

    async def _check_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            backends = self.balancer.backends
            results = await asyncio.gather(*(check(each.host, each.port) for each in backends))
            for backend, good in zip(backends, results, strict=True):
                was = backend.healthy
                self.balancer.checked(backend, good)
                if was != backend.healthy:
                    _LOG.warning("%s is %s", backend.name, "back" if good else "out")


class _CannotPass(Exception):
    """What HTTP/2 let through cannot be said in HTTP/1.1 (a target with spaces, for example)."""


class _Request:
    """The client's request on its way to the backend."""

    def __init__(
        self,
        scope: Scope,
        first: Message,
        receive: Receive,
        connection: UpstreamConnection,
        now: Now,
    ) -> None:
        """`first` is what `receive` gave already: the body's first piece."""
        self._scope = scope
        self._first = first
        self._receive = receive
        self._connection = connection
        self._now = now
        self.passed_on_ns: int | None = None
        """When the head was written to the backend."""
        self.complete = False

    @property
    def http2(self) -> bool:
        """Whether the client speaks HTTP/2."""
        return bool(self._scope["http_version"] == "2")

    async def send(self) -> None:
        """Pass on head and body, then return when the client leaves. A backend that stops reading
        has mostly answered already (a 413): that is for the answer to tell."""
        with suppress(UpstreamBroken):
            await self._send()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _send(self) -> None:
        names = {name.lower() for name, _ in self._scope["headers"]}
        first = self._first
        more = bool(first.get("more_body", False))
        framing: Header | None = None
        if b"content-length" not in names and (more or first["body"]):
            framing = (b"transfer-encoding", b"chunked")
        target = self._scope["raw_path"]
        if self._scope["query_string"]:
            target += b"?" + self._scope["query_string"]
        try:
            head = h11.Request(
                method=self._scope["method"].encode("ascii", "replace"),
                target=target,
                headers=request_headers(self._scope, framing),
            )
        except h11.LocalProtocolError:
            raise _CannotPass from None
        await self._connection.send(head)
        self.passed_on_ns = self._now()
        message = first
        while True:
            if message["body"]:
                await self._connection.send(h11.Data(data=message["body"]))
            if not message.get("more_body", False):
                break
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return
        await self._connection.send(h11.EndOfMessage())
        self.complete = True


async def _fetch(connection: UpstreamConnection, scope: Scope) -> tuple[int, list[Header], bytes]:
    """A whole small answer to a GET without a body. Raises UpstreamBroken."""
    headers = request_headers(scope, None)
    await connection.send(h11.Request(method=b"GET", target=scope["raw_path"], headers=headers))
    await connection.send(h11.EndOfMessage())
    status, found, body = 502, list[Header](), b""
    while not isinstance(event := await connection.receive(), h11.EndOfMessage):
        if isinstance(event, h11.Response):
            status, found = event.status_code, list(event.headers)
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
    return status, found, body


async def _refuse(exchange: Exchange, status: int, code: str, message: str) -> None:
    error = {"message": message, "type": "server_error", "param": None, "code": code}
    head = [(b"content-type", b"application/json"), (b"retry-after", b"1")]
    await exchange.respond(status, head, json.dumps({"error": error}).encode())
