"""OpenAI chat completions, and the many servers that speak it with their own additions.

What is known of them comes from recorded streams: an empty `choices` first (Azure) or last (usage),
`content` as null, "" or a list of parts (Mistral), reasoning under three names, errors in five
shapes, usage on every chunk (the last wins), a cumulative `message` beside the delta (Perplexity:
ignored), no `[DONE]` (llama-box, Perplexity), `transcript.text.delta` events of audio
transcriptions.
"""

from __future__ import annotations

import re
from typing import Any, Final

from promptpath.dialect.base import Ask, Meaning, StreamError
from promptpath.dialect.failures import ERROR_BESIDE_CHOICES, error_object
from promptpath.dialect.payload import as_dict, as_list, as_str, encode, parse, word
from promptpath.dialect.reading import Parts, error_meaning, extras, plain, unreadable, usage_of
from promptpath.model.enums import EventKind
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame
from promptpath.wire.http import Headers

DONE: Final = b"[DONE]"
"""The terminal event's data. Compared whole: a text may begin with it (openai-node #2422)."""

_COMPLETION_TOKENS_MODELS: Final = re.compile(r"(?:^|/)(?:o\d|gpt-[5-9]|codex-)", re.I)
"""Model names that reject `max_tokens` and want `max_completion_tokens` (OpenAI API reference,
create chat completion: `max_tokens` is deprecated and "not compatible with o-series models"; GPT-5
answers "Unsupported parameter" likewise). Compatible servers know `max_tokens`, older ones nothing
else."""


class OpenAIChat:
    """The dialect of `POST .../chat/completions`."""

    name = "openai-chat"
    title = "OpenAI chat completions"
    key_variables: tuple[str, ...] = ("OPENAI_API_KEY",)
    path_suffixes: tuple[str, ...] = ("/chat/completions",)
    vocabulary: str | None = "o200k_base"
    has_end_marker = True

    def ask(self, plan: Plan) -> Ask:
        """A streaming request for the plan's prompt that asks for usage."""
        limit = "max_tokens"
        if plan.model and _COMPLETION_TOKENS_MODELS.search(plan.model):
            limit = "max_completion_tokens"
        body: dict[str, Any] = {"model": plan.model} if plan.model else {}
        body |= {
            "messages": [{"role": "user", "content": plan.prompt}],
            "stream": True,
            "stream_options": {"include_usage": True},
            limit: plan.max_tokens,
        }
        headers = (
            ("content-type", "application/json"),
            ("accept", "text/event-stream, application/json"),
        )
        return Ask(method="POST", headers=headers, body=encode(body))

    def key_headers(self, key: str) -> Headers:
        """`Authorization: Bearer`."""
        return (("authorization", f"Bearer {key}"),)

    def claims(self, content_type: str, first: Json) -> float:
        """Sure of `chat.completion.chunk`, nearly sure of a `choices` list; an error object alone
        could be anybody's."""
        payload = as_dict(first)
        if as_str(payload.get("object")).startswith("chat.completion"):
            return 1.0
        if isinstance(payload.get("choices"), list):
            return 0.9
        if as_str(payload.get("type")).startswith("transcript.text."):
            return 0.9
        return 0.2 if payload.get("error") and "type" not in payload else 0.0

    def reader(self) -> OpenAIChatReader:
        """The state of one stream (there is none)."""
        return OpenAIChatReader()


class AzureOpenAI(OpenAIChat):
    """The same on Azure: another key header (Azure OpenAI reference: `api-key`); its streams begin
    with an empty `choices` and may end with `latency_checkpoint`. Known by host, not by payload."""

    name = "azure-openai"
    title = "Azure OpenAI chat completions"
    key_variables: tuple[str, ...] = ("AZURE_OPENAI_API_KEY",)
    path_suffixes: tuple[str, ...] = ()

    def key_headers(self, key: str) -> Headers:
        """`api-key`."""
        return (("api-key", key),)

    def claims(self, content_type: str, first: Json) -> float:
        """Nothing: the payload alone is that of OpenAI."""
        return 0.0


class OpenAIChatReader:
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame means."""
        if (meaning := plain(frame)) is not None:
            return meaning
        if frame.data == DONE:
            return Meaning(kind=EventKind.END, is_end=True)
        payload = parse(frame.data)
        if not isinstance(payload, dict):
            return unreadable(frame)
        if "choices" not in payload:
            if (meaning := error_meaning(frame, payload)) is not None:
                return meaning
            if as_str(payload.get("type")).startswith("transcript.text."):
                return _transcript(payload)
        return _chunk(payload)


def _chunk(payload: dict[str, Json]) -> Meaning:
    parts, finish, role = Parts(), None, False
    choices = [choice for choice in as_list(payload.get("choices")) if isinstance(choice, dict)]
    for choice in choices:
        delta = as_dict(choice.get("delta"))
        _delta(delta, parts)
        if text := as_str(choice.get("text")):
            parts.add(EventKind.TEXT, text)
        finish = word(choice.get("finish_reason")) or finish
        role = role or "role" in delta
    usage = usage_of(payload.get("usage")) or usage_of(as_dict(payload.get("x_groq")).get("usage"))
    error = _error_beside(payload, choices)
    if error is not None:
        otherwise = EventKind.ERROR
    elif finish is not None:
        otherwise = EventKind.FINISH
    elif usage is not None and not choices:
        otherwise = EventKind.USAGE
    else:
        otherwise = EventKind.ROLE if role else EventKind.OTHER
    kind, text, also = parts.split(otherwise)
    return Meaning(
        kind=kind,
        text=text,
        also=also,
        model=word(payload.get("model")),
        response_id=word(payload.get("id")),
        finish=finish,
        usage=usage,
        error=error,
        no_marker=payload.get("object") == "chat.completion.done",
        **extras(payload, final=finish is not None or not choices),
    )


def _error_beside(payload: dict[str, Json], choices: list[dict[str, Json]]) -> StreamError | None:
    """OpenRouter puts `error` beside (or inside) a choice that ends with a finish reason."""
    for value in (payload.get("error"), *(choice.get("error") for choice in choices)):
        if value:
            return error_object(value, ERROR_BESIDE_CHOICES)
    return None


def _delta(delta: dict[str, Json], parts: Parts) -> None:
    content = delta.get("content")
    if isinstance(content, list):
        _content_parts(content, parts)
    elif text := as_str(content):
        parts.add(EventKind.TEXT, text)
    if text := _reasoning(delta):
        parts.add(EventKind.REASONING, text)
    if text := as_str(delta.get("refusal")):
        parts.add(EventKind.REFUSAL, text)
    if text := as_str(as_dict(delta.get("audio")).get("transcript")):
        parts.add(EventKind.TEXT, text)
    calls = [as_dict(as_dict(call).get("function")) for call in as_list(delta.get("tool_calls"))]
    for function in (*calls, as_dict(delta.get("function_call"))):
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # Ollama and others send the whole object
            arguments = encode(arguments).decode()
        if as_str(function.get("name")) or as_str(arguments):
            parts.add(EventKind.TOOL, as_str(arguments))


def _reasoning(delta: dict[str, Json]) -> str:
    """The reasoning text under the first of its names: servers in transition send it under two."""
    for name in ("reasoning_content", "reasoning"):
        if text := as_str(delta.get(name)):
            return text
    details = (as_dict(detail) for detail in as_list(delta.get("reasoning_details")))
    return "".join(as_str(d.get("text")) or as_str(d.get("summary")) for d in details)


def _content_parts(content: list[Json], parts: Parts) -> None:
    """`content` as a list of parts (Mistral): thinking and text."""
    for part in content:
        if isinstance(part, str):
            parts.add(EventKind.TEXT, part)
            continue
        part = as_dict(part)
        thinking = part.get("thinking")
        if isinstance(thinking, list):
            thinking = "".join(as_str(as_dict(piece).get("text")) for piece in thinking)
        if text := as_str(thinking):
            parts.add(EventKind.REASONING, text)
        elif text := as_str(part.get("text")):
            parts.add(EventKind.TEXT, text)
        elif text := as_str(part.get("refusal")):
            parts.add(EventKind.REFUSAL, text)


def _transcript(payload: dict[str, Json]) -> Meaning:
    """Audio transcriptions: deltas, then the whole text again with the usage. They give no finish
    reason of their own; `stop` stands for "done", as in chat."""
    if payload.get("type") == "transcript.text.delta":
        return Meaning(kind=EventKind.TEXT, text=as_str(payload.get("delta")))
    if payload.get("type") == "transcript.text.done":
        return Meaning(kind=EventKind.FINISH, finish="stop", usage=usage_of(payload.get("usage")))
    return Meaning(kind=EventKind.OTHER)


OPENAI_CHAT: Final = OpenAIChat()
AZURE_OPENAI: Final = AzureOpenAI()
