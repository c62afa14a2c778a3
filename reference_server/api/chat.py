"""From admission to the last byte, the same for every surface."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from reference_server.api.admission import admit
from reference_server.api.conversation import (
    NOT_SAVED,
    NOT_SAVED_HEADER,
)
from reference_server.api.errors import ApiError
from reference_server.api.events import EventStream
from reference_server.api.service import Service, new_id, respond_json, stream_headers
from reference_server.api.surface import FAILURES, Context, Surface, Writer
from reference_server.asgi import ClientGone, Exchange
from reference_server.engine.generation import (
    FailureCode,
    GenerationFailed,
    Step,
)
from reference_server.timing import HEADER, Timeline
from reference_server.trips import Trip


async def serve(surface: Surface, service: Service, exchange: Exchange) -> None:
    """Answer one chat request. Raises ClientGone when the client left."""
    request_id = new_id("req_")
    trip = service.trips.begin(request_id, Timeline(exchange.received_ns, exchange.now))
    exchange.about["request"] = request_id
    outcome = "internal_error"
    try:
        async with AsyncExitStack() as stack:
            outcome = await _serve(surface, service, exchange, trip, stack)
    except ClientGone:
        outcome = "client_gone"
        raise
    except asyncio.CancelledError:
        outcome = "server_stopped"
        raise
    finally:
        trip.end(outcome, exchange.now())
        exchange.about["outcome"] = trip.outcome


async def _serve(
    surface: Surface, service: Service, exchange: Exchange, trip: Trip, stack: AsyncExitStack
) -> str:
    """Answer; returns how it ended. What is to be undone at the end goes onto `stack`."""
    id_header = (surface.request_id_header, trip.request_id.encode())
    try:
        context = await admit(surface, service, exchange, trip, stack)
    except ApiError as error:
        body = surface.error_body(error.status, error.code, error.message, error.param)
        await respond_json(exchange, error.status, body, (*error.headers, id_header))
        return error.code
    stamped = exchange.header(HEADER) == "1"
    answer = _stream if context.request.stream else _complete
    try:
        await exchange.while_connected(answer(surface, context, exchange, stamped))
    finally:
        _account(context, exchange)
    return context.generation.finish_reason or context.generation.failure or "abort"


def _account(context: Context, exchange: Exchange) -> None:
    """Whatever happened: free the slot, count, log."""
    service, generation = context.service, context.generation
    generation.cancel()
    stages = generation.stages
    context.trip.end(generation.finish_reason or generation.failure or "abort", exchange.now())
    context.reservation.used_tokens = stages.prompt_tokens + stages.output_tokens
    exchange.about["prompt_tokens"] = stages.prompt_tokens
    exchange.about["output_tokens"] = stages.output_tokens
    reason = generation.finish_reason or "abort"
    most = generation.request.max_tokens
    service.metrics.ended(reason, context.timeline.received_ns, stages, most)
    if service.send_log is not None:
        service.send_log.flush()


async def _stream(surface: Surface, context: Context, exchange: Exchange, stamped: bool) -> None:
    timing = (b"server-timing", context.timeline.server_timing())
    await exchange.start(200, [*stream_headers(), timing, *context.headers])
    log = context.service.send_log
    events = EventStream(exchange, context.request_id, stamped, log, context.trip)
    writer = surface.writer(context, events)
    await writer.begin()
    try:
        await _pump(context, writer)
    except GenerationFailed as failure:
        await writer.fail(failure.code)
    else:
        if not await _remember(context):
            await events.raw(NOT_SAVED, "comment")
        await writer.finish(context.timings() if stamped else None)
    await events.end()


async def _pump(context: Context, writer: Writer) -> None:
    """Every step to the writer, keepalives in between. Raises GenerationFailed."""
    last_ns: int | None = None
    while True:
        try:
            async with asyncio.timeout(context.service.settings.keepalive_s):
                step = await context.generation.next_step()
        except TimeoutError:
            await writer.keepalive()
            continue
        if step is None:
            return
        if last_ns is not None:
            context.service.metrics.step(step.sampled_ns - last_ns, step.tokens)
        last_ns = step.sampled_ns
        context.trip.sample(step)
        if context.conversation is not None:
            context.conversation.answer.append(step.text)
        await writer.step(step)


async def _remember(context: Context) -> bool:
    """Keep the turn when it belongs to a conversation; False when that failed."""
    if context.conversation is None:
        return True
    saved = await context.conversation.save()
    context.trip.saved_ns = context.timeline.now()
    if context.trip.conversation is not None:
        context.trip.conversation["saved"] = saved
    return saved


async def _complete(surface: Surface, context: Context, exchange: Exchange, stamped: bool) -> None:
    steps: list[Step] = []
    collector = _Collector(steps.append)
    try:
        await _pump(context, collector)
    except GenerationFailed as failure:
        body = surface.error_body(503, failure.code, FAILURES[failure.code], None)
        await respond_json(exchange, 503, body, context.headers)
        return
    document = surface.document(context, steps)
    if stamped:
        document["timings"] = context.timings()
    headers = [(b"server-timing", context.timeline.server_timing()), *context.headers]
    if not await _remember(context):
        headers.append(NOT_SAVED_HEADER)
    await respond_json(exchange, 200, document, tuple(headers))


class _Collector:
    """A Writer that keeps the steps; nothing is sent before the end."""

    def __init__(self, keep: Callable[[Step], None]) -> None:
        self._keep = keep

    async def begin(self) -> None: ...

    async def keepalive(self) -> None: ...

    async def step(self, step: Step) -> None:
        self._keep(step)

    async def finish(self, timings: dict[str, Any] | None) -> None: ...

    async def fail(self, code: FailureCode) -> None: ...
