"""From the request's head to its last byte, the same for every surface.

The stages before the engine are disjoint and in this order: auth, read, validate, limits, session
(putting the prompt together), tokenize; then queue, prefill and decode in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_server.api.conversation import (
    NOT_SAVED,
    NOT_SAVED_HEADER,
    Conversation,
    conversation_header,
    conversation_id,
    open_conversation,
)
from reference_server.api.errors import ApiError
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields, parse_object
from reference_server.api.sampling import Sampling
from reference_server.api.service import Service, new_id, respond_json, stream_headers
from reference_server.asgi import BodyTooLarge, ClientGone, Exchange, Header
from reference_server.clock import realtime_ns, sleep_until
from reference_server.engine.generation import (
    EngineUnavailable,
    FailureCode,
    Generation,
    GenerationFailed,
    GenerationRequest,
    Step,
)
from reference_server.engine.slots import QueueFull
from reference_server.gateway.auth import key_of
from reference_server.gateway.gateway import Caller, Reservation
from reference_server.gateway.headers import LimitStyle, limit_headers
from reference_server.gateway.limits import LimitsUnavailable
from reference_server.sessions.assemble import Assembled, assemble
from reference_server.text.prompt import Message, Prompt, PromptRefused, PromptTooLong
from reference_server.timing import HEADER, Timeline, final_timings
from reference_server.trips import Trip


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What a surface understood of a request."""

    model: str
    messages: list[Message]
    """The conversation, in order; empty when `plain` is given."""
    max_tokens: int | None
    stream: bool
    include_usage: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    plain: str | None = None
    """A text to be continued as it is, instead of a conversation."""
    prompt_param: str = "messages"
    """The field that the prompt stands in."""


class Surface(Protocol):
    """One vendor's way to say the same."""

    request_id_header: bytes
    limit_style: LimitStyle

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""

    def error_body(self, status: int, code: str, message: str, param: str | None) -> Any:
        """An error in the vendor's shape."""

    def writer(self, context: Context, events: EventStream) -> Writer:
        """What writes this request's stream."""

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """The whole answer for `stream: false`."""


class Writer(Protocol):
    """One streamed answer in a vendor's events."""

    async def begin(self) -> None:
        """Right after admission, before any token."""

    async def keepalive(self) -> None:
        """Nothing was sent for a while."""

    async def step(self, step: Step) -> None:
        """A step's text."""

    async def finish(self, timings: dict[str, Any] | None) -> None:
        """All that follows the last token, the end marker included."""

    async def fail(self, code: FailureCode) -> None:
        """An error after the head was sent (in-band, under status 200)."""


@dataclass(frozen=True, slots=True)
class Context:
    """One admitted request."""

    service: Service
    request: ChatRequest
    request_id: str
    timeline: Timeline
    generation: Generation
    trip: Trip
    reservation: Reservation
    headers: tuple[Header, ...]
    """Request id, limits and conversation, for the response."""
    conversation: Conversation | None = None

    def timings(self) -> dict[str, Any]:
        """The contract's `timings`, as far as known now."""
        return final_timings(self.timeline, self.generation)


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
        context = await _admit(surface, service, exchange, trip, stack)
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


async def _admit(
    surface: Surface, service: Service, exchange: Exchange, trip: Trip, stack: AsyncExitStack
) -> Context:
    timeline, delays = trip.timeline, service.delays
    caller = authenticate(service, exchange)
    trip.caller_id = caller.id
    timeline.end("auth")
    body = await _read(service, exchange)
    timeline.end("read")
    fields = parse_object(body)
    request, conversation_name = surface.parse(fields), conversation_id(fields)
    timeline.end("validate")
    max_tokens = _check_limits(request, service)
    trip.model = exchange.about["model"] = request.model
    reservation = await _reserve(service, caller, len(body), max_tokens)
    stack.push_async_callback(reservation.settle)
    headers = limit_headers(surface.limit_style, reservation.decision, realtime_ns())
    _check_decision(reservation, headers)
    await _delay(delays.gateway_ms, exchange)
    timeline.end("limits")
    messages = request.messages
    conversation = await open_conversation(service, caller, conversation_name, messages)
    await _delay(delays.session_ms, exchange)
    timeline.end("session")
    prompt, said = _tokenize(request, service, conversation, max_tokens)
    trip.conversation = {"history": said.history, "dropped": said.dropped} if said else None
    await _delay(delays.tokenize_ms, exchange)
    admitted_ns = timeline.end("tokenize")
    try:
        generation = service.engine.submit(
            _generation_request(trip.request_id, request, prompt, max_tokens, service), admitted_ns
        )
    except EngineUnavailable:
        retry = (b"retry-after", str(service.settings.retry_after_s).encode())
        message = "The engine is being started."
        raise ApiError(503, "engine_unavailable", message, headers=(*headers, retry)) from None
    except QueueFull:
        retry = (b"retry-after", str(service.settings.retry_after_s).encode())
        raise ApiError(
            429, "rate_limit_exceeded", "The queue is full.", headers=(*headers, retry)
        ) from None
    trip.generation = generation
    if said is not None:
        headers += (conversation_header(said),)
    id_header = (surface.request_id_header, trip.request_id.encode())
    return Context(
        service=service,
        request=request,
        request_id=trip.request_id,
        timeline=timeline,
        generation=generation,
        trip=trip,
        reservation=reservation,
        headers=(id_header, *headers),
        conversation=conversation,
    )


def authenticate(service: Service, exchange: Exchange) -> Caller:
    """Who calls. Raises ApiError 401."""
    key = key_of(exchange.header("authorization"), exchange.header("x-api-key"))
    caller = service.gateway.authenticate(key)
    if caller is None:
        raise ApiError(401, "invalid_api_key", "The API key is missing or not valid.")
    exchange.about["key"] = caller.name
    return caller


async def _read(service: Service, exchange: Exchange) -> bytes:
    limit = service.settings.max_body_bytes
    try:
        return await exchange.read_body(limit)
    except BodyTooLarge:
        message = f"The request body is larger than {limit} bytes."
        raise ApiError(413, "request_too_large", message) from None


async def _reserve(
    service: Service, caller: Caller, body_bytes: int, max_tokens: int
) -> Reservation:
    try:
        return await service.gateway.reserve(caller, body_bytes, max_tokens)
    except LimitsUnavailable:
        retry = (b"retry-after", str(service.settings.retry_after_s).encode())
        message = "The store of the limits does not answer."
        raise ApiError(503, "limits_unavailable", message, headers=(retry,)) from None


def _check_decision(reservation: Reservation, headers: tuple[Header, ...]) -> None:
    """Raises ApiError 429 when a bucket does not hold enough."""
    decision = reservation.decision
    if decision.refused_by is None:
        return
    what = decision.requests if decision.refused_by == "requests" else decision.tokens
    limit = what.limit if what is not None else 0
    message = f"The limit of {limit} {decision.refused_by} per minute is reached."
    if decision.retry_in_ns is None:
        message = f"This request alone needs more than {limit} {decision.refused_by} per minute."
    raise ApiError(429, "rate_limit_exceeded", message, headers=headers)


async def _delay(ms: float, exchange: Exchange) -> None:
    """Time added on purpose, see `DelaySettings`."""
    if ms:
        await sleep_until(exchange.now() + round(ms * 1e6), exchange.now)


def _tokenize(
    request: ChatRequest, service: Service, conversation: Conversation | None, max_tokens: int
) -> tuple[Prompt, Assembled | None]:
    """The prompt's tokens. Raises ApiError when they leave no room for an answer."""
    limit, param = service.settings.context_tokens, request.prompt_param
    try:
        if request.plain is not None:
            return service.text.plain(request.plain, limit), None
        if conversation is None:
            return service.text.chat(request.messages, limit), None
        room = max(1, limit - max_tokens)
        said = assemble(service.text, conversation.history, request.messages, room)
        return said.prompt, said
    except PromptTooLong:
        message = f"The prompt has more than {limit} tokens."
        raise ApiError(400, "context_length_exceeded", message, param=param) from None
    except PromptRefused as refusal:
        raise ApiError(400, "invalid_prompt", str(refusal), param=param) from None


def _generation_request(
    request_id: str, request: ChatRequest, prompt: Prompt, max_tokens: int, service: Service
) -> GenerationRequest:
    wanted = request.sampling
    return GenerationRequest(
        request_id=request_id,
        prompt_tokens=prompt.count,
        max_tokens=max_tokens,
        prompt_ids=prompt.ids,
        params=wanted.params,
        stop=wanted.stop,
        stop_ids=service.text.stop_ids,
        cache_salt=wanted.cache_salt,
        priority=wanted.priority,
    )


def _check_limits(request: ChatRequest, service: Service) -> int:
    """The number of tokens to generate at most. Raises ApiError."""
    settings = service.settings
    if request.model != settings.model:
        message = f"The model does not exist; this server has '{settings.model}'."
        raise ApiError(404, "model_not_found", message, param="model")
    if sum(max(1, len(message.parts)) for message in request.messages) > settings.max_messages:
        message = f"More than {settings.max_messages} messages or parts."
        raise ApiError(400, "too_many_messages", message, param="messages")
    if request.sampling.params.top_logprobs is not None and not service.engine.gives_logprobs:
        message = "The paced engine has no probabilities."
        raise ApiError(400, "unsupported_parameter", message, param="logprobs")
    if request.max_tokens is None:
        return settings.default_output_tokens
    if request.max_tokens > settings.max_output_tokens:
        message = f"'max_tokens' is at most {settings.max_output_tokens}."
        raise ApiError(400, "invalid_value", message, param="max_tokens")
    return request.max_tokens


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
        if context.conversation is not None:
            context.conversation.answer.append(step.text)
        await writer.step(step)


async def _remember(context: Context) -> bool:
    """Keep the turn when it belongs to a conversation; False when that failed."""
    if context.conversation is None:
        return True
    saved = await context.conversation.save()
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


FAILURES: dict[FailureCode, str] = {
    "queue_timeout": "The request waited too long for a free slot.",
    "slow_reader": "The client reads more slowly than the answer is generated.",
    "engine_stopped": "The server is stopping.",
    "cancelled": "The request was cancelled.",
    "engine_error": "The engine failed.",
}
"""What a person is told for each failure code."""
