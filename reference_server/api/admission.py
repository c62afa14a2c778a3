"""From the request's head to its place in the engine's queue, the same for every surface.

The stages are disjoint and in this order: auth, read, validate, limits, session (putting the prompt
together), tokenize.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from reference_server.api.conversation import (
    Conversation,
    conversation_header,
    conversation_id,
    open_conversation,
)
from reference_server.api.errors import ApiError
from reference_server.api.fields import parse_object
from reference_server.api.service import Service
from reference_server.api.surface import ChatRequest, Context, Surface
from reference_server.asgi import BodyTooLarge, Exchange, Header
from reference_server.clock import realtime_ns, sleep_until
from reference_server.engine.generation import (
    EngineUnavailable,
    GenerationRequest,
)
from reference_server.engine.slots import QueueFull
from reference_server.gateway.auth import key_of
from reference_server.gateway.gateway import Caller, Reservation
from reference_server.gateway.headers import limit_headers
from reference_server.gateway.limits import LimitsUnavailable
from reference_server.sessions.assemble import Assembled, assemble
from reference_server.text.prompt import Prompt, PromptRefused, PromptTooLong
from reference_server.trips import Trip

_INLINE_CHARACTERS = 16_000
"""So many characters are tokenized in the event loop: 3 to 7 ms, and 165 to 500 ms for 650,000
(measured with SmolLM2's vocabulary on English text, one letter, and spaces)."""


async def admit(
    surface: Surface, service: Service, exchange: Exchange, trip: Trip, stack: AsyncExitStack
) -> Context:
    """Check, read, limit and queue one request; what is to be undone at its end goes onto `stack`.

    Raises ApiError.
    """
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
    prompt, said = await _tokenized(request, service, conversation, max_tokens)
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


async def _tokenized(
    request: ChatRequest, service: Service, conversation: Conversation | None, max_tokens: int
) -> tuple[Prompt, Assembled | None]:
    """`_tokenize`, in a thread where it would hold up the streams of others."""
    messages = [*request.messages, *(conversation.history if conversation is not None else ())]
    size = sum(len(part) for message in messages for part in message.parts)
    if size + len(request.plain or "") <= _INLINE_CHARACTERS:
        return _tokenize(request, service, conversation, max_tokens)
    return await asyncio.to_thread(_tokenize, request, service, conversation, max_tokens)


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
        # Half of the context at most is kept free: a large `max_tokens` is a bound, not a wish.
        room = limit - min(max_tokens, limit // 2)
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
