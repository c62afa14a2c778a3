"""The ASGI 3 application: routes, errors, lifespan. Any ASGI server can host `app`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from reference_server.api import admin, calibrate, fault, silence
from reference_server.api.anthropic import AnthropicSurface
from reference_server.api.chat import serve
from reference_server.api.errors import ApiError
from reference_server.api.openai import OpenAISurface
from reference_server.api.service import Service, respond_json
from reference_server.asgi import App, ClientGone, Exchange, Receive, Scope, Send
from reference_server.clock import Now, monotonic_ns
from reference_server.compute.paced import PacedEngine
from reference_server.metrics import Metrics
from reference_server.sendlog import SendLog
from reference_server.settings import Settings

_LOG = logging.getLogger("reference_server")

Endpoint = Callable[[Service, Exchange], Awaitable[None]]


async def _chat_completions(service: Service, exchange: Exchange) -> None:
    await serve(OpenAISurface(), service, exchange)


async def _messages(service: Service, exchange: Exchange) -> None:
    await serve(AnthropicSurface(), service, exchange)


_ROUTES: dict[str, tuple[str, Endpoint]] = {
    "/v1/chat/completions": ("POST", _chat_completions),
    "/v1/messages": ("POST", _messages),
    "/v1/models": ("GET", admin.models),
    "/healthz": ("GET", admin.health),
    "/metrics": ("GET", admin.metrics),
    "/promptpath/clock": ("GET", admin.clock),
    "/promptpath/calibrate": ("GET", calibrate.calibrate),
    "/promptpath/silence": ("GET", silence.silence),
    "/promptpath/fault/status": ("GET", fault.status),
    "/promptpath/fault/break": ("GET", fault.break_off),
}


class ReferenceApp:
    """An ASGI 3 application around a `Service`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection scope."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            exchange = Exchange(scope, receive, send, self._service.now)
            await self._handle(exchange)
        else:
            raise ValueError(f"this application does not speak {scope['type']}")

    async def close(self) -> None:
        """Stop every generation."""
        await self._service.engine.close()
        if self._service.send_log is not None:
            self._service.send_log.flush()

    async def _handle(self, exchange: Exchange) -> None:
        method, endpoint = _ROUTES.get(exchange.path, ("", admin.not_found))
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

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await self.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


def create_app(settings: Settings | None = None, now: Now = monotonic_ns) -> ReferenceApp:
    """The application with a paced engine. Opens `settings.send_log` for appending (OSError)."""
    settings = settings or Settings()
    log = open(settings.send_log, "a", encoding="utf-8") if settings.send_log else None  # noqa: SIM115
    service = Service(
        settings=settings.service,
        engine=PacedEngine(settings.pace, settings.engine, now),
        metrics=Metrics(settings.service.model),
        now=now,
        send_log=SendLog(log) if log else None,
    )
    return ReferenceApp(service)


app: App = create_app()
"""The application with default settings, for `uvicorn reference_server.app:app` and the like."""
