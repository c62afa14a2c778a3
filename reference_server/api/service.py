"""What every endpoint needs, in one place: settings, engine, metrics, log, clock."""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from reference_server.api.guard import StreamGuard
from reference_server.asgi import Exchange, Header
from reference_server.clock import Now
from reference_server.engine.generation import Engine
from reference_server.gateway.accesslog import AccessLog
from reference_server.gateway.gateway import Gateway
from reference_server.metrics import Metrics
from reference_server.sendlog import SendLog
from reference_server.sessions.store import ConversationStore
from reference_server.settings import DelaySettings, ServiceSettings
from reference_server.text.prompt import PacedText, PromptText
from reference_server.trips import TripStore


@dataclass(frozen=True, slots=True)
class Service:
    """The server's parts, built once by `app.create_app`."""

    settings: ServiceSettings
    engine: Engine
    metrics: Metrics
    gateway: Gateway
    now: Now
    delays: DelaySettings = field(default_factory=DelaySettings)
    trips: TripStore = field(default_factory=TripStore)
    conversations: ConversationStore | None = None
    access_log: AccessLog | None = None
    send_log: SendLog | None = None
    streams: StreamGuard = field(default_factory=StreamGuard)
    text: PromptText = field(default_factory=PacedText)
    started_unix_s: int = field(default_factory=lambda: int(time.time()))


def new_id(prefix: str) -> str:
    """A fresh id; random, so it tells nothing about other requests."""
    return f"{prefix}{secrets.token_hex(12)}"


def stream_headers(content_type: bytes = b"text/event-stream; charset=utf-8") -> list[Header]:
    """What asks every proxy to pass each event on at once (DESIGN section 6)."""
    return [
        (b"content-type", content_type),
        (b"cache-control", b"no-cache, no-transform"),
        (b"x-accel-buffering", b"no"),
    ]


async def respond_json(
    exchange: Exchange, status: int, value: Any, headers: tuple[Header, ...] = ()
) -> None:
    """Send `value` as a JSON document."""

    body = json.dumps(value).encode()
    head = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *headers]
    await exchange.respond(status, head, body)
