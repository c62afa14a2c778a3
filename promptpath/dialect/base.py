"""What a dialect is: how an API is asked, and what its frames mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from promptpath.model.enums import EventKind
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame
from promptpath.wire.http import Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A prompt as this API wants it."""

    method: str
    headers: Headers
    """Without keys; content-type and accept included."""
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """A usage snapshot; later ones replace earlier ones."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamError:
    """An error under a 200, or in an error response's body."""

    code: str | None
    type: str | None
    message: str = field(repr=False)
    """Far-side text, raw: redact before it is kept."""
    shape: str
    """See names.STREAM_ERROR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One time the far side reports about itself; see names.SERVER_TIMING."""

    scope: str
    duration_ns: int
    name: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What one frame means. A frame may carry several things (text and a finish reason): `kind` is
    the most content-like of them, the rest stand in their fields."""

    kind: EventKind
    text: str = field(default="", repr=False)
    """Text, reasoning, refusal or tool arguments."""
    model: str | None = None
    response_id: str | None = None
    finish: str | None = None
    usage: Usage | None = None
    error: StreamError | None = None
    seq: int | None = None
    server_ns: int | None = None
    timings: tuple[Timing, ...] = ()
    counts: tuple[tuple[str, int | float], ...] = ()
    """names.SERVER_COUNT: prompt_n, cached_n, predicted_n, batch ..."""
    is_end: bool = False
    """This is the dialect's terminal event."""
    also: tuple[tuple[EventKind, str], ...] = field(default=(), repr=False)
    """Content of other kinds in the same frame, for example reasoning beside text."""
    no_marker: bool = False
    """The frame's shape says that this stream sends no terminal event (Perplexity)."""
    detail: dict[str, Json] = field(default_factory=dict)


class Dialect(Protocol):
    """One family of APIs. Stateless between streams: `reader()` makes the state of one stream."""

    name: str
    """As in --dialect."""
    title: str
    """For people."""
    key_variables: tuple[str, ...]
    """Environment variables that usually hold its key, best first."""
    path_suffixes: tuple[str, ...]
    """URL path endings that mark it: the URL is only a prior."""
    vocabulary: str | None
    """tiktoken vocabulary its tokens can be counted with; None: unknown, estimates only."""
    has_end_marker: bool

    def ask(self, plan: Plan) -> Ask:
        """The request for this plan's prompt."""

    def key_headers(self, key: str) -> Headers:
        """The headers that carry the key."""

    def claims(self, content_type: str, first: Json) -> float:
        """0..1: how surely a stream with this content type whose first JSON payload is `first`
        speaks this dialect."""

    def reader(self) -> Reader:
        """The state of one stream."""


class Reader(Protocol):
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame means. Never raises: what cannot be read is OTHER or FOREIGN_BYTES."""
