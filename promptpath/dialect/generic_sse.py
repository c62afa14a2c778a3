"""Server-sent events of an API we do not know: framing is read by the book, content is guessed."""

from __future__ import annotations

from typing import Final

from promptpath.dialect.base import Ask, Meaning, Reader
from promptpath.dialect.guess import guess
from promptpath.errors import UsageError
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame
from promptpath.wire.http import Headers


class GenericSse:
    """Any event stream."""

    name = "generic-sse"
    title = "server-sent events"
    key_variables: tuple[str, ...] = ()
    path_suffixes: tuple[str, ...] = ()
    vocabulary: str | None = None
    has_end_marker = False

    def ask(self, plan: Plan) -> Ask:
        """Raises UsageError: how to ask an unknown API is for its user to say."""
        raise UsageError(
            f"--dialect {self.name} does not say how a prompt is asked",
            expected="a body of your own",
            hint="give the body with --data @body.json, or paste a curl command with --curl",
        )

    def key_headers(self, key: str) -> Headers:
        """`Authorization: Bearer` (RFC 6750)."""
        return (("authorization", f"Bearer {key}"),)

    def claims(self, content_type: str, first: Json) -> float:
        """The last resort: never claims."""
        return 0.0

    def reader(self) -> Reader:
        """The state of one stream (there is none)."""
        return GenericSseReader()


class GenericSseReader:
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame probably means."""
        return guess(frame, plain_text=True)


GENERIC_SSE: Final = GenericSse()
