"""Reading payloads of an API we do not know: the few places where text usually stands.

A guess is marked (`Meaning.detail["guessed"]`). A payload with a `type` is believed only when the
type says that it is a delta, because such APIs repeat the whole text in a closing event.
"""

from __future__ import annotations

from typing import Final

from promptpath.dialect.base import Meaning
from promptpath.dialect.payload import as_dict, as_list, as_str, at, parse, word
from promptpath.dialect.reading import error_meaning, extras, plain, unreadable, usage_of
from promptpath.model.enums import EventKind
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame

_TEXT_PATHS: Final = (
    ("message", "content"),
    ("delta", "message", "content", "text"),
    ("delta", "text"),
    ("delta", "content"),
    ("delta",),
    ("token", "text"),
    ("response",),
    ("completion",),
    ("content",),
    ("text",),
)
_REASONING_PATHS: Final = (("message", "thinking"), ("thinking",), ("reasoning",))
_FINISH_NAMES: Final = ("finish_reason", "done_reason", "stop_reason", "finishReason")


def guess(frame: Frame, *, plain_text: bool) -> Meaning:
    """What the frame probably means; `plain_text`: data that is no JSON is text of the answer."""
    if (meaning := plain(frame)) is not None:
        return meaning
    if frame.data == b"[DONE]":
        return Meaning(kind=EventKind.END, is_end=True)
    payload = parse(frame.data)
    if isinstance(payload, dict):
        return _object(frame, payload)
    if payload is None or isinstance(payload, list):
        return Meaning(kind=EventKind.OTHER)
    if isinstance(payload, str):
        return _text(frame, payload)
    if plain_text:
        return _text(frame, frame.data.decode("utf-8", "replace"))
    return unreadable(frame)


def _text(frame: Frame, text: str) -> Meaning:
    """An event whose data is text and nothing else; its name may say that it is no answer."""
    if frame.type in ("ping", "heartbeat", "keepalive", "keep-alive"):
        return Meaning(kind=EventKind.PING)
    if frame.type in ("error", "done", "end", "logs"):
        return unreadable(frame)
    kind = EventKind.TEXT if text else EventKind.OTHER
    return Meaning(kind=kind, text=text, detail={"guessed": True} if text else {})


def _object(frame: Frame, payload: dict[str, Json]) -> Meaning:
    if (meaning := error_meaning(frame, payload)) is not None:
        return meaning
    if as_str(payload.get("type")) == "ping" or frame.type == "ping":
        return Meaning(kind=EventKind.PING)
    kind, text = _content(frame, payload)
    finish = _finish(payload)
    usage = (
        usage_of(payload.get("usage"))
        or usage_of(at(payload, "response", "usage"))
        or usage_of(at(payload, "delta", "usage", "tokens"))
        or usage_of(payload)
    )
    if not text:
        kind = EventKind.FINISH if finish else EventKind.USAGE if usage else EventKind.OTHER
    response = as_dict(payload.get("response"))
    return Meaning(
        kind=kind,
        text=text,
        finish=finish,
        usage=usage,
        model=word(payload.get("model")) or word(response.get("model")),
        response_id=word(payload.get("id")) or word(response.get("id")),
        detail={"guessed": True} if text else {},
        **extras(payload, final=finish is not None),
    )


def _content(frame: Frame, payload: dict[str, Json]) -> tuple[EventKind, str]:
    kind = (as_str(payload.get("type")) or (frame.type if frame.type != "message" else "")).lower()
    if kind and not kind.endswith(("delta", "chunk", "token", "output")):
        return EventKind.OTHER, ""
    for path in _REASONING_PATHS:
        if text := as_str(at(payload, *path)):
            return EventKind.REASONING, text
    text = next((found for path in _TEXT_PATHS if (found := as_str(at(payload, *path)))), "")
    if "reasoning" in kind or "thinking" in kind:
        return EventKind.REASONING, text
    if "argument" in kind or "tool" in kind:
        return EventKind.TOOL, text
    return (EventKind.REFUSAL if "refusal" in kind else EventKind.TEXT), text


def _finish(payload: dict[str, Json]) -> str | None:
    holders = [payload, as_dict(payload.get("delta")), as_dict(payload.get("response"))]
    holders += [as_dict(c) for c in as_list(payload.get("candidates"))[:1]]
    for holder in holders:
        for name in _FINISH_NAMES:
            if found := as_str(holder.get(name)):
                return found
    return None
