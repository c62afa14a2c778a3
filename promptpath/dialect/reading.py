"""What all readers of SSE and NDJSON streams share: frames that mean the same in every dialect."""

from __future__ import annotations

from promptpath.dialect.base import Meaning, Usage
from promptpath.dialect.failures import (
    DATA_ERROR,
    ERROR_FIELD,
    EVENT_ERROR,
    error_object,
)
from promptpath.dialect.payload import NotJson, as_dict, at, count, parse
from promptpath.dialect.sender_clock import comment_stamp, payload_stamp
from promptpath.dialect.server_timings import body_timings
from promptpath.model.enums import EventKind
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame, FrameKind

CONTENT_ORDER = (EventKind.TEXT, EventKind.REFUSAL, EventKind.TOOL, EventKind.REASONING)
"""Which kind names a frame that carries several: what a reader of the answer sees comes first."""


def plain(frame: Frame) -> Meaning | None:
    """The meaning of a frame that is no payload (comment, unknown field, foreign bytes), else
    None."""
    match frame.kind:
        case FrameKind.COMMENT:
            return Meaning(kind=EventKind.COMMENT, server_ns=comment_stamp(frame.data))
        case FrameKind.FOREIGN | FrameKind.UNFINISHED:
            return Meaning(kind=EventKind.FOREIGN_BYTES)
        case FrameKind.UNKNOWN_FIELD if frame.type.lower() == "error":
            payload = parse(frame.data)
            text = frame.data.decode("utf-8", "replace")
            error = error_object(text if isinstance(payload, NotJson) else payload, ERROR_FIELD)
            return Meaning(kind=EventKind.ERROR, error=error)
        case FrameKind.UNKNOWN_FIELD:
            return Meaning(kind=EventKind.UNKNOWN_FIELD)
        case _:
            return None


def unreadable(frame: Frame) -> Meaning:
    """A payload that is not JSON where the dialect wants JSON."""
    if frame.type == "error":
        text = frame.data.decode("utf-8", "replace")
        return Meaning(kind=EventKind.ERROR, error=error_object(text, EVENT_ERROR))
    return Meaning(kind=EventKind.OTHER, detail={"malformed": True} if frame.data else {})


def error_meaning(frame: Frame, payload: dict[str, Json]) -> Meaning | None:
    """The error this payload is (`event: error`, an `error` member, `type` or `object` "error"),
    else None."""
    inner, shape = payload.get("error"), DATA_ERROR
    if frame.type == "error" or payload.get("type") == "error":
        inner, shape = inner or payload, EVENT_ERROR if frame.type == "error" else DATA_ERROR
    elif payload.get("object") == "error":
        inner = inner or payload
    if not inner:
        return None
    error = error_object(inner, shape)
    return Meaning(kind=EventKind.ERROR, error=error, **extras(payload, final=True))


def usage_of(usage: Json) -> Usage | None:
    """A usage object under the names of OpenAI and its likes, or None when it holds no count."""
    if not isinstance(usage, dict):
        return None
    result = Usage(
        input_tokens=_first(usage, "prompt_tokens", "input_tokens", "prompt_eval_count"),
        output_tokens=_first(usage, "completion_tokens", "output_tokens", "eval_count"),
        reasoning_tokens=count(
            at(usage, "completion_tokens_details", "reasoning_tokens")
            if "completion_tokens_details" in usage
            else at(usage, "output_tokens_details", "reasoning_tokens")
        ),
        cached_tokens=_cached(usage),
    )
    return result if result != Usage() else None


def _cached(usage: dict[str, Json]) -> int | None:
    for value in (
        at(usage, "prompt_tokens_details", "cached_tokens"),
        at(usage, "input_tokens_details", "cached_tokens"),
        usage.get("prompt_cache_hit_tokens"),
    ):
        if (found := count(value)) is not None:
            return found
    return None


def _first(usage: dict[str, Json], *names: str) -> int | None:
    for name in names:
        if (found := count(usage.get(name))) is not None:
            return found
    return None


class Parts:
    """Collects what one frame carries, then says which kind of event it is."""

    def __init__(self) -> None:
        self._texts: dict[EventKind, list[str]] = {}

    def add(self, kind: EventKind, text: str) -> None:
        """Content of a kind; "" still makes the frame one of that kind."""
        self._texts.setdefault(kind, []).append(text)

    def split(
        self, otherwise: EventKind
    ) -> tuple[EventKind, str, tuple[tuple[EventKind, str], ...]]:
        """The kind that names the frame, its text, and the content of other kinds."""
        found = [
            (kind, "".join(self._texts[kind])) for kind in CONTENT_ORDER if kind in self._texts
        ]
        if not found:
            return otherwise, "", ()
        return found[0][0], found[0][1], tuple(found[1:])


def extras(payload: dict[str, Json], *, final: bool) -> dict[str, Json]:
    """The fields of `Meaning` that come from what the far side says about its own time."""
    own = as_dict(payload.get("promptpath"))
    reported = body_timings(payload, final=final)
    return {
        "seq": count(own.get("seq")),
        "server_ns": payload_stamp(payload),
        "timings": reported.timings,
        "counts": reported.counts,
    }
