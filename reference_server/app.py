"""The ASGI 3 application: routes, errors, lifespan. Any ASGI server can host `app`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from reference_server.api import admin, calibrate, fault, page, requests, silence
from reference_server.api.anthropic import AnthropicSurface
from reference_server.api.chat import serve
from reference_server.api.completions import CompletionsSurface
from reference_server.api.errors import ApiError
from reference_server.api.guard import StreamGuard
from reference_server.api.openai import OpenAISurface
from reference_server.api.responses import ResponsesSurface
from reference_server.api.service import Service, respond_json
from reference_server.asgi import App, ClientGone, Exchange, Receive, Scope, Send
from reference_server.clock import Now, monotonic_ns
from reference_server.engine.delayed import DelayedEngine
from reference_server.engine.generation import Engine, EngineStartError
from reference_server.engines import build_engine
from reference_server.gateway.accesslog import AccessLog
from reference_server.gateway.build import build_gateway
from reference_server.gateway.redis_client import RedisDown
from reference_server.metrics import Metrics
from reference_server.sendlog import SendLog
from reference_server.sessions.build import build_store
from reference_server.settings import Settings

_LOG = logging.getLogger("reference_server")

Endpoint = Callable[[Service, Exchange], Awaitable[None]]


async def _chat_completions(service: Service, exchange: Exchange) -> None:
    await serve(OpenAISurface(), service, exchange)


async def _completions(service: Service, exchange: Exchange) -> None:
    await serve(CompletionsSurface(), service, exchange)


async def _responses(service: Service, exchange: Exchange) -> None:
    await serve(ResponsesSurface(), service, exchange)


async def _messages(service: Service, exchange: Exchange) -> None:
    await serve(AnthropicSurface(), service, exchange)


_ROUTES: dict[str, tuple[str, Endpoint]] = {
    "/v1/chat/completions": ("POST", _chat_completions),
    "/v1/completions": ("POST", _completions),
    "/v1/responses": ("POST", _responses),
    "/v1/embeddings": ("POST", admin.no_embeddings),
    "/v1/messages": ("POST", _messages),
    "/v1/models": ("GET", admin.models),
    "/": ("GET", page.index),
    "/healthz": ("GET", admin.health),
    "/metrics": ("GET", admin.metrics),
    "/promptpath/clock": ("GET", admin.clock),
    "/promptpath/requests": ("GET", requests.latest),
    "/promptpath/calibrate": ("GET", calibrate.calibrate),
    "/promptpath/silence": ("GET", silence.silence),
    "/promptpath/fault/status": ("GET", fault.status),
    "/promptpath/fault/break": ("GET", fault.break_off),
}


_WITHOUT_API = frozenset(
    {"/healthz", "/promptpath/clock", "/promptpath/calibrate", "/promptpath/silence"}
)
"""What a server without an engine answers."""
_FAMILIES: dict[str, tuple[str, Endpoint]] = {
    "/promptpath/requests/": ("GET", requests.one),
    page.PREFIX: ("GET", page.asset),
}
"""Paths that end in an id or a name."""


class ReferenceApp:
    """An ASGI 3 application around a `Service`."""

    def __init__(self, service: Service, *, api: bool = True) -> None:
        self._service = service
        self._api = api

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self._service.now)
            await self._handle(exchange)
        else:
            raise ValueError(f"this application does not speak {scope['type']}")

    @property
    def model(self) -> str:
        """What the API calls the model."""
        return self._service.settings.model

    async def start(self) -> str:
        """Reach what must be reachable, load the model; says what computes, for a person.

        Raises RedisDown, EngineStartError.
        """
        await self._service.gateway.start()
        about = await self._service.engine.start()
        return about if self._api else "no engine, test streams only"

    async def end_answers(self) -> None:
        """Stop every generation: each stream ends with an error event that says so."""
        await self._service.engine.close()

    async def close(self) -> None:
        """Stop every generation, let go of files and connections."""
        await self._service.engine.close()
        await self._service.gateway.close()
        if self._service.conversations is not None:
            await self._service.conversations.close()
        if self._service.access_log is not None:
            self._service.access_log.close()
        if self._service.send_log is not None:
            self._service.send_log.flush()

    async def _handle(self, exchange: Exchange) -> None:
        known = self._api or exchange.path in _WITHOUT_API
        method, endpoint = _route(exchange.path) if known else ("", admin.not_found)
        try:
            asked = "GET" if exchange.method == "HEAD" else exchange.method
            if method and asked != method:
                await admin.wrong_method(exchange, method)
            else:
                await endpoint(self._service, exchange)
        except ClientGone:
            _LOG.debug("client left: %s", exchange.path)
        except ApiError as error:
            body = {"error": {"message": error.message, "code": error.code, "param": error.param}}
            await respond_json(exchange, error.status, body, error.headers)
        except Exception:
            if exchange.started:
                raise
            _LOG.exception("internal error")
            await respond_json(exchange, 500, {"error": {"message": "Internal error."}})
        finally:
            if self._service.access_log is not None:
                self._service.access_log.note(exchange)

    async def _start_up(self, send: Send) -> None:
        try:
            await self.start()
        except RedisDown as error:
            await send({"type": "lifespan.startup.failed", "message": f"Redis: {error}"})
        except EngineStartError as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
        else:
            await send({"type": "lifespan.startup.complete"})

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await self._start_up(send)
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def _route(path: str) -> tuple[str, Endpoint]:
    if path in _ROUTES:
        return _ROUTES[path]
    for start, route in _FAMILIES.items():
        if path.startswith(start):
            return route
    return "", admin.not_found


def create_app(settings: Settings | None = None, now: Now = monotonic_ns) -> ReferenceApp:
    """The application with the engine of `settings`, the paced one by default.

    Opens the log files for appending and reads the key file: raises OSError, KeyFileError and, for
    a Redis URL that cannot be used, RedisDown; for a model file, ModelFileError.
    """
    settings = settings or Settings()
    built = build_engine(settings, now)
    log = open(settings.send_log, "a", encoding="utf-8") if settings.send_log else None  # noqa: SIM115
    service = Service(
        settings=built.service,
        engine=_delayed(built.engine, settings, now),
        text=built.text,
        metrics=Metrics(built.service.model),
        gateway=build_gateway(settings.gateway, settings.service.api_key_sha256, now, _LOG.warning),
        now=now,
        delays=settings.delays,
        conversations=build_store(settings.sessions, settings.gateway.redis),
        access_log=AccessLog(settings.access_log) if settings.access_log else None,
        send_log=SendLog(log) if log else None,
        streams=StreamGuard(settings.streams),
    )
    return ReferenceApp(service, api=settings.api)


def _delayed(engine: Engine, settings: Settings, now: Now) -> Engine:
    """The engine with the delays of its stages, if there are any."""
    queue_ns = round(settings.delays.queue_ms * 1e6)
    prefill_ns = round(settings.delays.prefill_ms * 1e6)
    if not queue_ns and not prefill_ns:
        return engine
    return DelayedEngine(engine, queue_ns, prefill_ns, settings.engine.backlog_steps, now)


app: App = create_app()
"""The application with default settings, for `uvicorn reference_server.app:app` and the like."""
