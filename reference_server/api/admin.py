"""Health, clock, models, metrics, and the answers for paths and methods that do not exist."""

from __future__ import annotations

from reference_server.api.service import Service, respond_json
from reference_server.asgi import Exchange
from reference_server.clock import realtime_ns


async def health(service: Service, exchange: Exchange) -> None:
    """`GET /healthz`: the server answers and could take a request."""
    available = service.engine.available
    status = "ok" if available else "the engine is being started"
    await respond_json(exchange, 200 if available else 503, {"status": status})


async def clock(service: Service, exchange: Exchange) -> None:
    """`GET /promptpath/clock`: when the request came and when the answer goes.

    With the client's own two stamps these are the four of RFC 5905 section 8: offset and the
    error, half the round trip without the server's share, follow.
    """
    document = {
        "clock": "CLOCK_MONOTONIC",
        "received_ns": exchange.received_ns,
        "realtime_ns": realtime_ns(),
        "sent_ns": exchange.now(),
    }
    await respond_json(exchange, 200, document)


async def models(service: Service, exchange: Exchange) -> None:
    """`GET /v1/models`: OpenAI's list, with the fields of Anthropic's list beside them."""
    name = service.settings.model
    model = {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": service.started_unix_s,
        "owned_by": "promptpath",
        "tokenizer": service.text.description,
    }
    page = {"has_more": False, "first_id": name, "last_id": name}
    await respond_json(exchange, 200, {"object": "list", "data": [model], **page})


async def metrics(service: Service, exchange: Exchange) -> None:
    """`GET /metrics`: Prometheus text format 0.0.4."""
    body = service.metrics.render(service.engine).encode()
    head = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
    await exchange.respond(200, head, body)


async def not_found(service: Service, exchange: Exchange) -> None:
    """404 for a path that this server does not have."""
    message = "This server has no such path."
    error = {"message": message, "type": "invalid_request_error", "param": None}
    await respond_json(exchange, 404, {"error": {**error, "code": "not_found"}})


async def no_embeddings(service: Service, exchange: Exchange) -> None:
    """404: the path is OpenAI's, a model that only writes has no embeddings."""
    message = "This server has no embeddings; its models only write."
    error = {"message": message, "type": "invalid_request_error", "param": None}
    await respond_json(exchange, 404, {"error": {**error, "code": "no_embeddings"}})


async def wrong_method(exchange: Exchange, allowed: str) -> None:
    """405 with the method that the path has (RFC 9110 section 15.5.6)."""
    message = f"This path answers {allowed} only."
    error = {"message": message, "type": "invalid_request_error", "param": None}
    allow = (b"allow", allowed.encode())
    await respond_json(exchange, 405, {"error": {**error, "code": "wrong_method"}}, (allow,))
