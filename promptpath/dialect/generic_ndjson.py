"""Newline-delimited JSON of an API we do not know."""

from __future__ import annotations

from typing import Final

from promptpath.dialect.base import Meaning, Reader
from promptpath.dialect.generic_sse import GenericSse
from promptpath.dialect.guess import guess
from promptpath.wire.frame import Frame


class GenericNdjson(GenericSse):
    """Any NDJSON stream: as generic SSE, but a line that is no JSON is an error, not text."""

    name = "generic-ndjson"
    title = "newline-delimited JSON"

    def reader(self) -> Reader:
        """The state of one stream (there is none)."""
        return GenericNdjsonReader()


class GenericNdjsonReader:
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame probably means."""
        return guess(frame, plain_text=False)


GENERIC_NDJSON: Final = GenericNdjson()
