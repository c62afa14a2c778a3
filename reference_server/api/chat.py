"""From the request's head to its last byte, the same for every surface.

The stages before the engine are disjoint and in this order: auth, read, validate, limits, session
(putting the prompt together), tokenize; then queue, prefill and decode in the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from reference_server.api.errors import ApiError
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields, parse_object
from reference_server.api.sampling import Sampling
from reference_server.api.service import Service, new_id, respond_json, stream_headers
from reference_server.asgi import BodyTooLarge, Exchange, Header
from reference_server.engine.generation import (
    FailureCode,
    Generation,
    GenerationFailed,
    GenerationRequest,
    Step,
)
from reference_server.engine.slots import QueueFull
from reference_server.gateway.auth import key_allowed, key_of
from reference_server.text.prompt import Message, Prompt, PromptTooLong
from reference_server.timing import HEADER, Timeline, final_timings


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


class Surface(Protocol):
    """One vendor's way to say the same."""

    request_id_header: bytes

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""

    def error_body(self, status: int, code: str, message: str, param: str | None) -> Any:
        """An error in the vendor's shape."""

    def writer(self, context: Context, events: EventStream) -> Writer:
        """What writes this request's stream."""

    def document(self, context: Context, text: str) -> dict[str, Any]:
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

    def timings(self) -> dict[str, Any]:
        """The contract's `timings`, as far as known now."""
        return final_timings(self.timeline, self.generation)


async def serve(surface: Surface, service: Service, exchange: Exchange) -> None:
    """Answer one chat request. Raises ClientGone when the client left."""
    request_id = new_id("req_")
    id_header = (surface.request_id_header, request_id.encode())
    timeline = Timeline(exchange.received_ns, exchange.now)
    try:
        context = await _admit(surface, service, exchange, request_id, timeline)
    except ApiError as error:
        body = surface.error_body(error.status, error.code, error.message, error.param)
        await respond_json(exchange, error.status, body, (*error.headers, id_header))
        return
    stamped = exchange.header(HEADER) == "1"
    answer = _stream if context.request.stream else _complete
    try:
        await exchange.while_connected(answer(surface, context, exchange, stamped, id_header))
    finally:
        context.generation.cancel()
        reason = context.generation.finish_reason or "abort"
        service.metrics.ended(reason, timeline.received_ns, context.generation.stages)
        if service.send_log is not None:
            service.send_log.flush()


async def _admit(
    surface: Surface, service: Service, exchange: Exchange, request_id: str, timeline: Timeline
) -> Context:
    settings = service.settings
    key = key_of(exchange.header("authorization"), exchange.header("x-api-key"))
    if not key_allowed(key, settings.api_key_sha256):
        raise ApiError(401, "invalid_api_key", "The API key is missing or not valid.")
    timeline.end("auth")
    try:
        body = await exchange.read_body(settings.max_body_bytes)
    except BodyTooLarge:
        message = f"The request body is larger than {settings.max_body_bytes} bytes."
        raise ApiError(413, "request_too_large", message) from None
    timeline.end("read")
    request = surface.parse(parse_object(body))
    timeline.end("validate")
    max_tokens = _check_limits(request, service)
    timeline.end("limits")
    timeline.end("session")
    prompt = _tokenize(request, service)
    admitted_ns = timeline.end("tokenize")
    try:
        generation = service.engine.submit(
            _generation_request(request_id, request, prompt, max_tokens, service), admitted_ns
        )
    except QueueFull:
        raise ApiError(
            429,
            "rate_limit_exceeded",
            "The queue is full.",
            headers=((b"retry-after", str(settings.retry_after_s).encode()),),
        ) from None
    return Context(service, request, request_id, timeline, generation)


def _tokenize(request: ChatRequest, service: Service) -> Prompt:
    """The prompt's tokens. Raises ApiError when they leave no room for an answer."""
    limit = service.settings.context_tokens
    try:
        if request.plain is not None:
            return service.text.plain(request.plain, limit)
        return service.text.chat(request.messages, limit)
    except PromptTooLong:
        message = f"The prompt has more than {limit} tokens."
        param = "messages" if request.plain is None else "prompt"
        raise ApiError(400, "context_length_exceeded", message, param=param) from None


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


async def _stream(
    surface: Surface, context: Context, exchange: Exchange, stamped: bool, id_header: Header
) -> None:
    timing = (b"server-timing", context.timeline.server_timing())
    await exchange.start(200, [*stream_headers(), timing, id_header])
    events = EventStream(exchange, context.request_id, stamped, context.service.send_log)
    writer = surface.writer(context, events)
    await writer.begin()
    try:
        await _pump(context, writer)
    except GenerationFailed as failure:
        await writer.fail(failure.code)
    else:
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
        await writer.step(step)


async def _complete(
    surface: Surface, context: Context, exchange: Exchange, stamped: bool, id_header: Header
) -> None:
    texts: list[str] = []
    collector = _Collector(texts.append)
    try:
        await _pump(context, collector)
    except GenerationFailed as failure:
        body = surface.error_body(503, failure.code, FAILURES[failure.code], None)
        await respond_json(exchange, 503, body, (id_header,))
        return
    document = surface.document(context, "".join(texts))
    if stamped:
        document["timings"] = context.timings()
    timing = (b"server-timing", context.timeline.server_timing())
    await respond_json(exchange, 200, document, (timing, id_header))


class _Collector:
    """A Writer that keeps the text; nothing is sent before the end."""

    def __init__(self, keep: Callable[[str], None]) -> None:
        self._keep = keep

    async def begin(self) -> None: ...

    async def keepalive(self) -> None: ...

    async def step(self, step: Step) -> None:
        self._keep(step.text)

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
