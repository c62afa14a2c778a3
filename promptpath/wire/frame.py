"""A frame of a stream body: one SSE event, NDJSON line, comment, or bytes that belong to no
frame."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol

from promptpath.model.stamp import Stamp


class FrameKind(StrEnum):
    """What the framer saw."""

    EVENT = "event"
    """A dispatched SSE event (WHATWG HTML, 9.2.6)."""
    LINE = "line"
    """A line of NDJSON, or one item of a JSON array."""
    COMMENT = "comment"
    """An SSE comment line; surfaced at once, without waiting for a blank line."""
    UNKNOWN_FIELD = "unknown-field"
    """An SSE field the standard tells parsers to ignore: `type` is its name, `data` its value. Some
    servers hide errors there (llama-box's `error:`)."""
    FOREIGN = "foreign-bytes"
    """Bytes that are no SSE: a raw JSON document in the middle of the stream, HTML ..."""
    UNFINISHED = "unfinished"
    """What was pending when the body ended."""


class Frame(NamedTuple):
    """One frame; a NamedTuple because a stream makes hundreds a second and this is the cheapest
    immutable record (measured: 353 ns against 863 for a frozen dataclass)."""

    kind: FrameKind
    type: str
    """SSE event type ("message" when none was sent); name of an unknown field; else ""."""
    data: bytes
    """Payload; SSE data lines joined by LF. Not decoded: whoever reads it decides on the
    encoding."""
    stamp: Stamp
    """Of its last byte."""
    first: Stamp
    """Of its first byte."""
    size: int
    """Bytes on the wire, framing included."""
    id: str | None = None
    """SSE last event id in force (None: never set)."""


class Framer(Protocol):
    """Bytes in, frames out, each with the stamps of its first and last byte."""

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not finished yet."""

    def feed(self, data: bytes, stamp: Stamp) -> list[Frame]:
        """The frames that these bytes completed."""

    def end(self, stamp: Stamp) -> list[Frame]:
        """The body ended: what was pending comes out as UNFINISHED (NDJSON: as a LINE when it is
        whole JSON)."""
