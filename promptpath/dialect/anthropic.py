"""Anthropic Messages: named events, `message_stop` at the end, usage always.

`message_start` carries the input tokens, `message_delta` the output tokens, cumulative. Anthropic
counts cached input apart from `input_tokens`; here it is one number, as everywhere else.
"""

from __future__ import annotations

from typing import Any, Final

from promptpath.dialect.base import Ask, Meaning, Usage
from promptpath.dialect.payload import as_dict, as_str, count, encode, parse, word
from promptpath.dialect.reading import error_meaning, extras, plain, unreadable
from promptpath.model.enums import EventKind
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame
from promptpath.wire.http import Headers

VERSION: Final = "2023-06-01"
"""`anthropic-version`: required, and still the only one with the present stream format."""

_TYPES: Final = frozenset(
    {
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    }
)


class Anthropic:
    """The dialect of `POST /v1/messages`."""

    name = "anthropic"
    title = "Anthropic Messages"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    path_suffixes: tuple[str, ...] = ("/v1/messages",)
    vocabulary: str | None = None
    """Not published: its tokens are estimates until `usage` comes."""
    has_end_marker = True

    def ask(self, plan: Plan) -> Ask:
        """A streaming request for the plan's prompt (`max_tokens` is required)."""
        body: dict[str, Any] = {"model": plan.model} if plan.model else {}
        body |= {
            "max_tokens": plan.max_tokens,
            "messages": [{"role": "user", "content": plan.prompt}],
            "stream": True,
        }
        headers = (
            ("content-type", "application/json"),
            ("accept", "text/event-stream, application/json"),
            ("anthropic-version", VERSION),
        )
        return Ask(method="POST", headers=headers, body=encode(body))

    def key_headers(self, key: str) -> Headers:
        """`x-api-key`."""
        return (("x-api-key", key),)

    def claims(self, content_type: str, first: Json) -> float:
        """Sure of its event types; `ping` and `error` could be somebody else's."""
        payload = as_dict(first)
        kind = as_str(payload.get("type"))
        if kind in _TYPES:
            return 1.0
        if kind == "ping" and len(payload) == 1:
            return 0.6
        if kind == "error" and isinstance(payload.get("error"), dict):
            return 0.6
        return 0.0

    def reader(self) -> AnthropicReader:
        """The state of one stream (there is none)."""
        return AnthropicReader()


class AnthropicReader:
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame means."""
        if (meaning := plain(frame)) is not None:
            return meaning
        payload = parse(frame.data)
        if not isinstance(payload, dict):
            return unreadable(frame)
        match as_str(payload.get("type")) or frame.type:
            case "content_block_delta":
                return _delta(payload)
            case "ping":
                return Meaning(kind=EventKind.PING, **extras(payload, final=False))
            case "message_start":
                return _start(payload)
            case "content_block_start":
                return _block(payload)
            case "message_delta":
                return _message_delta(payload)
            case "message_stop":
                return Meaning(kind=EventKind.END, is_end=True, **extras(payload, final=True))
            case _:
                return error_meaning(frame, payload) or Meaning(
                    kind=EventKind.OTHER, **extras(payload, final="timings" in payload)
                )


def _start(payload: dict[str, Json]) -> Meaning:
    message = as_dict(payload.get("message"))
    return Meaning(
        kind=EventKind.ROLE,
        model=word(message.get("model")),
        response_id=word(message.get("id")),
        usage=_usage(message.get("usage")),
        **extras(payload, final=False),
    )


_DELTAS: Final[dict[str, tuple[EventKind, str]]] = {
    "text_delta": (EventKind.TEXT, "text"),
    "thinking_delta": (EventKind.REASONING, "thinking"),
    "input_json_delta": (EventKind.TOOL, "partial_json"),
}


def _delta(payload: dict[str, Json]) -> Meaning:
    """A piece of a content block; an empty one, a signature or a citation is no content."""
    delta = as_dict(payload.get("delta"))
    kind, name = _DELTAS.get(as_str(delta.get("type")), (EventKind.OTHER, ""))
    text = as_str(delta.get(name))
    return Meaning(
        kind=kind if text else EventKind.OTHER, text=text, **extras(payload, final=False)
    )


def _block(payload: dict[str, Json]) -> Meaning:
    """A content block begins: a tool call with its name, and redacted thinking (whole, unreadable),
    are content already; text and thinking usually begin empty."""
    block = as_dict(payload.get("content_block"))
    kind, text = EventKind.OTHER, ""
    match as_str(block.get("type")):
        case "text" if as_str(block.get("text")):
            kind, text = EventKind.TEXT, as_str(block.get("text"))
        case "thinking" if as_str(block.get("thinking")):
            kind, text = EventKind.REASONING, as_str(block.get("thinking"))
        case "redacted_thinking":
            kind = EventKind.REASONING
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            kind = EventKind.TOOL
    return Meaning(kind=kind, text=text, **extras(payload, final=False))


def _message_delta(payload: dict[str, Json]) -> Meaning:
    finish = word(as_dict(payload.get("delta")).get("stop_reason"))
    usage = _usage(payload.get("usage"))
    kind = EventKind.FINISH if finish else EventKind.USAGE if usage else EventKind.OTHER
    return Meaning(kind=kind, finish=finish, usage=usage, **extras(payload, final=True))


def _usage(value: Json) -> Usage | None:
    usage = as_dict(value)
    fresh = count(usage.get("input_tokens"))
    cached = count(usage.get("cache_read_input_tokens"))
    written = count(usage.get("cache_creation_input_tokens"))
    total = None if fresh is None else fresh + (cached or 0) + (written or 0)
    result = Usage(
        input_tokens=total,
        output_tokens=count(usage.get("output_tokens")),
        cached_tokens=cached,
    )
    return result if result != Usage() else None


ANTHROPIC: Final = Anthropic()
