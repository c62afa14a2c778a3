"""`GET /promptpath/silence`: a stream that goes quiet for a while, to find who cuts idle streams.

`at` says where the silence lies: `stream` between two events, `body` after the head, `head` before
it. `keepalive` says what breaks it: comments, events, or none (before the head there is none).
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_server.api.errors import ApiError
from reference_server.api.events import EventStream
from reference_server.api.knobs import Knobs
from reference_server.api.service import Service, new_id, stream_headers
from reference_server.asgi import Exchange
from reference_server.clock import sleep_until

_TICK_MS = 100


@dataclass(frozen=True, slots=True)
class SilencePlan:
    """What is asked for."""

    silence_ms: float
    keepalive: str
    interval_ms: float
    at: str
    events: int
    """Events before the silence (with `at=stream`) and after it, 100 ms apart."""


def read_plan(exchange: Exchange) -> SilencePlan:
    """The plan in the query. Raises ApiError 400."""
    knobs = Knobs(exchange)
    plan = SilencePlan(
        silence_ms=knobs.number("silence_ms", 65_000, 0, 3_600_000),
        keepalive=knobs.word("keepalive", "none", ("none", "comment", "event")),
        interval_ms=knobs.number("interval_ms", 15_000, 10, 3_600_000),
        at=knobs.word("at", "stream", ("head", "body", "stream")),
        events=knobs.count("events", 2, 1, 1000),
    )
    knobs.finish()
    if plan.at == "head" and plan.keepalive != "none":
        raise ApiError(400, "invalid_value", "Before the head nothing can be sent.", param="at")
    return plan


async def silence(service: Service, exchange: Exchange) -> None:
    """Send the stream with the silence in it. Raises ApiError 400 and 429, ClientGone."""
    plan = read_plan(exchange)
    duration_ms = plan.silence_ms + 2 * plan.events * _TICK_MS
    service.streams.check(size_bytes=0, duration_ms=duration_ms)
    await exchange.read_body(service.settings.max_body_bytes)
    try:
        with service.streams.stream():
            await exchange.while_connected(_send(plan, service, exchange))
    finally:
        if service.send_log is not None:
            service.send_log.flush()


async def _send(plan: SilencePlan, service: Service, exchange: Exchange) -> None:
    events = EventStream(exchange, new_id("sil_"), True, service.send_log)
    if plan.at == "head":
        await _be_quiet(plan, exchange, events)
    await exchange.start(200, stream_headers())
    if plan.at == "stream":
        await _ticks(plan, exchange, events)
    if plan.at != "head":
        await _be_quiet(plan, exchange, events)
    await _ticks(plan, exchange, events)
    await events.event({"kind": "end"}, "end", name="end")
    await events.end()


async def _ticks(plan: SilencePlan, exchange: Exchange, events: EventStream) -> None:
    for _ in range(plan.events):
        await events.event({"kind": "tick"}, "tick", name="tick")
        await sleep_until(exchange.now() + _TICK_MS * 1_000_000, exchange.now)


async def _be_quiet(plan: SilencePlan, exchange: Exchange, events: EventStream) -> None:
    end_ns = exchange.now() + round(plan.silence_ms * 1e6)
    due_ns = exchange.now() + round(plan.interval_ms * 1e6)
    while plan.keepalive != "none" and due_ns < end_ns:
        await sleep_until(due_ns, exchange.now)
        if plan.keepalive == "comment":
            await events.raw(b": keepalive\n\n", "comment")
        else:
            await events.event({"kind": "keepalive"}, "keepalive", name="keepalive")
        due_ns += round(plan.interval_ms * 1e6)
    await sleep_until(end_ns, exchange.now)
