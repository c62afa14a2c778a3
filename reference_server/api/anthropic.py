"""Anthropic Messages: `POST /v1/messages`."""

from __future__ import annotations

from typing import Any

from reference_server.api import fields as read
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields
from reference_server.api.sampling import sampling
from reference_server.api.surface import FAILURES, ChatRequest, Context, Writer
from reference_server.engine.generation import FailureCode, Step
from reference_server.gateway.headers import LimitStyle
from reference_server.text.prompt import Message

_ROLES = ("user", "assistant")
_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_REASONS = {"stop": "end_turn", "length": "max_tokens"}


class AnthropicSurface:
    """An `api.surface.Surface`."""

    request_id_header = b"request-id"
    limit_style: LimitStyle = "anthropic"

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""
        model = read.string(fields, "model")
        read.check_absent(fields, "tools", "mcp_servers")
        if fields.get("thinking") != {"type": "disabled"}:
            read.check_absent(fields, "thinking")
        max_tokens = read.positive(fields, "max_tokens")
        if max_tokens is None:
            raise read.wrong("max_tokens", "an integer of at least 1")
        system = read.content(fields.get("system"), "system")
        return ChatRequest(
            model=model,
            messages=[
                *([Message("system", tuple(system))] if system else []),
                *read.messages(fields, _ROLES),
            ],
            max_tokens=max_tokens,
            stream=read.flag(fields, "stream"),
            sampling=sampling(fields, hottest=1, stop="stop_sequences", top_logprobs=None),
        )

    def error_body(self, status: int, code: str, message: str, param: str | None) -> Any:
        """`{"type": "error", "error": {"type", "message"}}`."""
        kind = _KINDS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def writer(self, context: Context, events: EventStream) -> Writer:
        """`message_start` to `message_stop`."""
        return _MessageWriter(context, events)

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """A `message`."""
        text = "".join(step.text for step in steps)
        return {
            **_message(context, context.generation.stages.output_tokens),
            "content": [{"type": "text", "text": text}],
            **_end(context),
        }


class _MessageWriter:
    def __init__(self, context: Context, events: EventStream) -> None:
        self._context = context
        self._events = events

    async def begin(self) -> None:
        start = {"type": "message_start", "message": _message(self._context, 0)}
        await self._send(start, "role")
        block = {"type": "text", "text": ""}
        await self._send({"type": "content_block_start", "index": 0, "content_block": block})
        await self.keepalive()

    async def keepalive(self) -> None:
        await self._send({"type": "ping"}, "ping")

    async def step(self, step: Step) -> None:
        if not step.text:
            return
        delta = {"type": "text_delta", "text": step.text}
        payload = {"type": "content_block_delta", "index": 0, "delta": delta}
        await self._send(payload, "text", step)

    async def finish(self, timings: dict[str, Any] | None) -> None:
        await self._send({"type": "content_block_stop", "index": 0})
        usage = {"output_tokens": self._context.generation.stages.output_tokens}
        end = {"type": "message_delta", "delta": _end(self._context), "usage": usage}
        await self._send(end, "finish")
        if timings is not None:
            await self._send({"type": "promptpath.timings", "timings": timings}, "timings")
        await self._send({"type": "message_stop"}, "end")

    async def fail(self, code: FailureCode) -> None:
        error = {"type": "api_error", "message": FAILURES[code]}
        await self._send({"type": "error", "error": error}, "error")

    async def _send(
        self, payload: dict[str, Any], kind: str = "other", step: Step | None = None
    ) -> None:
        await self._events.event(payload, kind, name=payload["type"], step=step)


def _message(context: Context, output_tokens: int) -> dict[str, Any]:
    stages = context.generation.stages
    return {
        "id": "msg_" + context.request_id.removeprefix("req_"),
        "type": "message",
        "role": "assistant",
        "model": context.request.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": stages.prompt_tokens - stages.cached_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": stages.cached_tokens,
            "output_tokens": output_tokens,
        },
    }


def _end(context: Context) -> dict[str, str | None]:
    """Why the answer ended."""
    generation = context.generation
    if generation.stop_text is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": generation.stop_text}
    reason = _REASONS.get(generation.finish_reason or "")
    return {"stop_reason": reason, "stop_sequence": None}
