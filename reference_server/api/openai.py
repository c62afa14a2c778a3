"""OpenAI chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

import time
from typing import Any

from reference_server.api import fields as read
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields
from reference_server.api.logprobs import chat_form
from reference_server.api.sampling import chat_logprobs, sampling
from reference_server.api.surface import FAILURES, ChatRequest, Context, Writer
from reference_server.engine.generation import FailureCode, Step
from reference_server.gateway.headers import LimitStyle

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_UNSUPPORTED = (
    *("tools", "functions", "audio", "modalities", "logit_bias"),
    *("presence_penalty", "frequency_penalty"),
    *("response_format", "prediction", "web_search_options"),
)
DONE = b"data: [DONE]\n\n"
"""The end marker of OpenAI's two older formats."""


class OpenAISurface:
    """An `api.surface.Surface`."""

    request_id_header = b"x-request-id"
    limit_style: LimitStyle = "openai"

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""
        model = read.string(fields, "model")
        read.check_absent(fields, *_UNSUPPORTED)
        if read.positive(fields, "n") not in (None, 1):
            raise read.wrong("n", "1")
        limit = read.positive(fields, "max_completion_tokens")
        return ChatRequest(
            model=model,
            messages=read.messages(fields, _ROLES),
            max_tokens=limit if limit is not None else read.positive(fields, "max_tokens"),
            stream=read.flag(fields, "stream"),
            include_usage=stream_usage(fields),
            sampling=sampling(fields, hottest=2, stop="stop", top_logprobs=chat_logprobs(fields)),
        )

    def error_body(self, status: int, code: str, message: str, param: str | None) -> Any:
        """`{"error": {"message", "type", "param", "code"}}`."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": param, "code": code}}

    def writer(self, context: Context, events: EventStream) -> Writer:
        """Chunks of `chat.completion.chunk`, then `[DONE]`."""
        return _ChunkWriter(context, events)

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """A `chat.completion`."""
        text = "".join(step.text for step in steps)
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": chat_form([each for step in steps for each in step.logprobs]),
            "finish_reason": context.generation.finish_reason,
        }
        return {
            **envelope(context, "chat.completion", "chatcmpl-"),
            "choices": [choice],
            "usage": usage(context),
        }


class _ChunkWriter:
    def __init__(self, context: Context, events: EventStream) -> None:
        self._context = context
        self._events = events
        self._envelope = envelope(context, "chat.completion.chunk", "chatcmpl-")

    async def begin(self) -> None:
        await self._chunk({"role": "assistant", "content": ""}, None, "role")

    async def keepalive(self) -> None:
        await self._events.raw(b": ping\n\n", "comment")

    async def step(self, step: Step) -> None:
        if not step.text and not step.logprobs:
            return
        await self._chunk({"content": step.text}, None, "text", step=step)

    async def finish(self, timings: dict[str, Any] | None) -> None:
        include_usage = self._context.request.include_usage
        reason = self._context.generation.finish_reason
        extra = {} if timings is None else {"timings": timings}
        await self._chunk({}, reason, "finish", extra={} if include_usage else extra)
        if include_usage:
            last = {**self._envelope, "choices": [], "usage": usage(self._context), **extra}
            await self._events.event(last, "usage")
        await self._events.raw(DONE, "end")

    async def fail(self, code: FailureCode) -> None:
        error = {"message": FAILURES[code], "type": "server_error", "param": None, "code": code}
        await self._events.event({"error": error}, "error")
        await self._events.raw(DONE, "end")

    async def _chunk(
        self,
        delta: dict[str, str],
        reason: str | None,
        kind: str,
        step: Step | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": reason}
        if step is not None and step.logprobs:
            choice["logprobs"] = chat_form(step.logprobs)
        payload = {**self._envelope, "choices": [choice], **(extra or {})}
        if self._context.request.include_usage:
            payload["usage"] = None
        await self._events.event(payload, kind, step=step)


def stream_usage(fields: Fields) -> bool:
    """`stream_options.include_usage`; raises ApiError 400."""
    options = fields.get("stream_options")
    if options is not None and not isinstance(options, dict):
        raise read.wrong("stream_options", "an object")
    return read.flag(options or {}, "include_usage", "stream_options.")


def envelope(context: Context, kind: str, prefix: str) -> dict[str, Any]:
    """What every document and chunk of OpenAI's two older formats begins with."""
    return {
        "id": prefix + context.request_id.removeprefix("req_"),
        "object": kind,
        "created": int(time.time()),
        "model": context.request.model,
    }


def usage(context: Context) -> dict[str, Any]:
    """The tokens that were used, in the older formats' names."""
    stages = context.generation.stages
    return {
        "prompt_tokens": stages.prompt_tokens,
        "completion_tokens": stages.output_tokens,
        "total_tokens": stages.prompt_tokens + stages.output_tokens,
        "prompt_tokens_details": {"cached_tokens": stages.cached_tokens},
    }
