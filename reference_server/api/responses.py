"""OpenAI Responses, text only: `POST /v1/responses`.

Nothing is stored: `store` may be given and a response cannot be fetched or continued later.
"""

from __future__ import annotations

import time
from typing import Any

from reference_server.api import fields as read
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields
from reference_server.api.openai import OpenAISurface
from reference_server.api.sampling import sampling
from reference_server.api.surface import FAILURES, ChatRequest, Context, Writer
from reference_server.engine.generation import FailureCode, Step
from reference_server.text.prompt import Message

_ROLES = ("system", "developer", "user", "assistant")
_UNSUPPORTED = (
    *("tools", "previous_response_id", "background", "prompt", "include", "reasoning"),
    *("top_logprobs", "max_tool_calls"),
)


class ResponsesSurface(OpenAISurface):
    """An `api.surface.Surface`; errors are OpenAI's."""

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""
        model = read.string(fields, "model")
        read.check_absent(fields, *_UNSUPPORTED)
        _check_format(fields)
        instructions = read.content(fields.get("instructions"), "instructions")
        return ChatRequest(
            model=model,
            messages=[
                *([Message("system", tuple(instructions))] if instructions else []),
                *_input(fields),
            ],
            prompt_param="input",
            max_tokens=read.positive(fields, "max_output_tokens"),
            stream=read.flag(fields, "stream"),
            sampling=sampling(fields, hottest=2, stop="stop", top_logprobs=None),
        )

    def writer(self, context: Context, events: EventStream) -> Writer:
        """`response.created` to `response.completed`."""
        return _ResponseWriter(context, events)

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """A `response`."""
        return _ended(context, "".join(step.text for step in steps), int(time.time()))


class _ResponseWriter:
    """Events are numbered by `sequence_number`; each has its type as its name, too."""

    def __init__(self, context: Context, events: EventStream) -> None:
        self._context = context
        self._events = events
        self._created = int(time.time())
        self._number = 0
        self._texts: list[str] = []
        self._place = {"item_id": _item_id(context), "output_index": 0, "content_index": 0}

    async def begin(self) -> None:
        document = _response(self._context, "in_progress", [], self._created)
        await self._send("response.created", {"response": document}, "role")
        await self._send("response.in_progress", {"response": document})
        item = _item(self._context, "in_progress", [])
        await self._send("response.output_item.added", {"output_index": 0, "item": item})
        part = {**self._place, "part": _part("")}
        await self._send("response.content_part.added", part)

    async def keepalive(self) -> None:
        await self._events.raw(b": ping\n\n", "comment")

    async def step(self, step: Step) -> None:
        if not step.text:
            return
        self._texts.append(step.text)
        delta = {**self._place, "delta": step.text, "logprobs": []}
        await self._send("response.output_text.delta", delta, "text", step)

    async def finish(self, timings: dict[str, Any] | None) -> None:
        text = "".join(self._texts)
        done = {**self._place, "text": text, "logprobs": []}
        await self._send("response.output_text.done", done)
        await self._send("response.content_part.done", {**self._place, "part": _part(text)})
        document = _ended(self._context, text, self._created)
        item = {"output_index": 0, "item": document["output"][0]}
        await self._send("response.output_item.done", item)
        extra = {} if timings is None else {"timings": timings}
        kind = f"response.{document['status']}"
        await self._send(kind, {"response": document, **extra}, "finish")

    async def fail(self, code: FailureCode) -> None:
        document = _response(self._context, "failed", [], self._created)
        document["error"] = {"code": "server_error", "message": f"{FAILURES[code]} ({code})"}
        await self._send("response.failed", {"response": document}, "error")

    async def _send(
        self, name: str, payload: dict[str, Any], kind: str = "other", step: Step | None = None
    ) -> None:
        numbered = {"type": name, "sequence_number": self._number, **payload}
        self._number += 1
        await self._events.event(numbered, kind, name=name, step=step)


def _input(fields: Fields) -> list[Message]:
    """`input`: a text, or a list of messages."""
    value = fields.get("input")
    if isinstance(value, str):
        return [Message("user", (value,))]
    return read.messages(fields, _ROLES, "input", ("input_text", "output_text"))


def _check_format(fields: Fields) -> None:
    """`text.format` may ask for text, which is all there is."""
    text = fields.get("text")
    if text is None:
        return
    wanted = text.get("format") if isinstance(text, dict) else text
    if wanted is not None and not (isinstance(wanted, dict) and wanted.get("type") == "text"):
        raise read.wrong("text.format", 'left out, or {"type": "text"}')


def _ended(context: Context, text: str, created: int) -> dict[str, Any]:
    """The response when all is said; `incomplete` when the limit cut it off."""
    cut = context.generation.finish_reason == "length"
    status = "incomplete" if cut else "completed"
    item = _item(context, status, [_part(text)])
    document = _response(context, status, [item], created)
    document["incomplete_details"] = {"reason": "max_output_tokens"} if cut else None
    document["usage"] = _usage(context)
    return document


def _response(context: Context, status: str, output: list[Any], created: int) -> dict[str, Any]:
    params = context.request.sampling.params
    return {
        "id": "resp_" + context.request_id.removeprefix("req_"),
        "object": "response",
        "created_at": created,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "max_output_tokens": context.request.max_tokens,
        "model": context.request.model,
        "output": output,
        "parallel_tool_calls": False,
        "previous_response_id": None,
        "store": False,
        "temperature": params.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": params.top_p,
        "truncation": "disabled",
        "usage": None,
        "metadata": {},
    }


def _item(context: Context, status: str, content: list[Any]) -> dict[str, Any]:
    return {
        "id": _item_id(context),
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": content,
    }


def _item_id(context: Context) -> str:
    return "msg_" + context.request_id.removeprefix("req_")


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(context: Context) -> dict[str, Any]:
    stages = context.generation.stages
    return {
        "input_tokens": stages.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stages.cached_tokens},
        "output_tokens": stages.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stages.prompt_tokens + stages.output_tokens,
    }
