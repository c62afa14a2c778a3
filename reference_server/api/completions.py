"""OpenAI completions: `POST /v1/completions`, a text that is continued as it is."""

from __future__ import annotations

from typing import Any

from reference_server.api import fields as read
from reference_server.api.events import EventStream
from reference_server.api.fields import Fields
from reference_server.api.logprobs import completions_form
from reference_server.api.openai import DONE, OpenAISurface, envelope, stream_usage, usage
from reference_server.api.sampling import sampling
from reference_server.api.surface import FAILURES, ChatRequest, Context, Writer
from reference_server.engine.generation import FailureCode, Step

_UNSUPPORTED = ("suffix", "echo", "logit_bias", "presence_penalty", "frequency_penalty")
_TOP_LOGPROBS = 5
"""OpenAI's limit of `logprobs` in this format."""


class CompletionsSurface(OpenAISurface):
    """An `api.surface.Surface`; errors are OpenAI's."""

    def parse(self, fields: Fields) -> ChatRequest:
        """Read the request; raises ApiError 400."""
        model = read.string(fields, "model")
        read.check_absent(fields, *_UNSUPPORTED)
        for name in ("n", "best_of"):
            if read.positive(fields, name) not in (None, 1):
                raise read.wrong(name, "1")
        logprobs = read.integer(fields, "logprobs", 0, _TOP_LOGPROBS)
        return ChatRequest(
            model=model,
            messages=[],
            plain=_prompt(fields),
            prompt_param="prompt",
            max_tokens=read.positive(fields, "max_tokens"),
            stream=read.flag(fields, "stream"),
            include_usage=stream_usage(fields),
            sampling=sampling(fields, hottest=2, stop="stop", top_logprobs=logprobs),
        )

    def writer(self, context: Context, events: EventStream) -> Writer:
        """Chunks of `text_completion`, then `[DONE]`."""
        return _TextWriter(context, events)

    def document(self, context: Context, steps: list[Step]) -> dict[str, Any]:
        """A `text_completion`."""
        text = "".join(step.text for step in steps)
        logprobs = completions_form([each for step in steps for each in step.logprobs], 0)
        choice = _choice(text, context.generation.finish_reason, logprobs)
        return {**_envelope(context), "choices": [choice], "usage": usage(context)}


class _TextWriter:
    def __init__(self, context: Context, events: EventStream) -> None:
        self._context = context
        self._events = events
        self._envelope = _envelope(context)
        self._characters = 0

    async def begin(self) -> None:
        """The format has nothing to say before the first token."""

    async def keepalive(self) -> None:
        await self._events.raw(b": ping\n\n", "comment")

    async def step(self, step: Step) -> None:
        if not step.text and not step.logprobs:
            return
        logprobs = completions_form(step.logprobs, self._characters)
        self._characters += len(step.text)
        await self._chunk([_choice(step.text, None, logprobs)], "text", {}, step)

    async def finish(self, timings: dict[str, Any] | None) -> None:
        include_usage = self._context.request.include_usage
        extra = {} if timings is None else {"timings": timings}
        last = _choice("", self._context.generation.finish_reason, None)
        await self._chunk([last], "finish", {} if include_usage else extra)
        if include_usage:
            await self._chunk([], "usage", {"usage": usage(self._context), **extra})
        await self._events.raw(DONE, "end")

    async def fail(self, code: FailureCode) -> None:
        error = {"message": FAILURES[code], "type": "server_error", "param": None, "code": code}
        await self._events.event({"error": error}, "error")
        await self._events.raw(DONE, "end")

    async def _chunk(
        self, choices: list[Any], kind: str, extra: dict[str, Any], step: Step | None = None
    ) -> None:
        null = {"usage": None} if self._context.request.include_usage else {}
        payload = {**self._envelope, "choices": choices, **null, **extra}
        await self._events.event(payload, kind, step=step)


def _prompt(fields: Fields) -> str:
    """A string, or a list with one; token ids and several prompts are refused."""
    value = fields.get("prompt")
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, str):
        raise read.wrong("prompt", "one string")
    return value


def _envelope(context: Context) -> dict[str, Any]:
    return envelope(context, "text_completion", "cmpl-")


def _choice(text: str, reason: str | None, logprobs: dict[str, Any] | None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
