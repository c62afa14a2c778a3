"""One HTTP exchange in one vocabulary, whatever the version: requests in, events out.

h11, h2 and (later) aioquic sit behind `HttpConnection`; nothing above knows which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp

Headers = tuple[tuple[str, str], ...]
"""Pairs in order; names in lower case; bytes beyond ASCII as latin-1 (RFC 9110, 5.5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What to send. `target` is origin-form, absolute-form (plain http through a proxy) or an
    authority (CONNECT)."""

    method: str
    scheme: str
    authority: str
    target: str = field(repr=False)
    headers: Headers = field(default=(), repr=False)
    """Without host, content-length and pseudo headers: the connection adds these."""
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Informational:
    """A 1xx response."""

    stream: int
    status: int
    headers: Headers
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The final response head was complete at `stamp`."""

    stream: int
    status: int
    reason: str
    version: str
    """"1.0" | "1.1" | "2" | "3"."""
    headers: Headers
    framing: str
    """chunked | content-length | until-close | none | h2-data | h3-data."""
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """Body bytes as framed: (part of) one chunk or one DATA frame, transfer coding removed."""

    stream: int
    data: bytes
    stamp: Stamp
    frame_start: bool
    """These are the first bytes of a chunk or DATA frame."""
    frame_end: bool
    """These are its last bytes."""
    frame_size: int | None
    """Whole size of the chunk or DATA frame; None where there is none (until-close)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailers:
    """Trailer fields."""

    stream: int
    headers: Headers
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """HTTP framing says the response is whole."""

    stream: int
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """RST_STREAM of our stream; `code` as in RFC 9113, section 7."""

    stream: int
    code: int
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Goaway:
    """GOAWAY for the connection."""

    code: int
    last_stream: int
    stamp: Stamp
    debug: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Anything of the connection worth a mark: `name` is a `model.names.MARK_*`."""

    name: str
    stamp: Stamp
    detail: dict[str, Json]
    stream: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The peer broke HTTP (or ended the transport within a message): nothing more will come.
    `what` says what came and what was expected, in printable text."""

    stream: int | None
    what: str
    code: str
    """eof | malformed | too-large | protocol-error: machine-readable."""
    stamp: Stamp


HttpEvent = Informational | Head | Data | Trailers | End | Reset | Goaway | Control | Broken


class HttpConnection(Protocol):
    """A client's side of one HTTP connection, sans-IO. After every call, send `data_to_send()`."""

    version: str

    def request(self, request: HttpRequest) -> int:
        """Queue a request; its stream number. Raises MeasureError when the connection can take
        none."""

    def receive(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """The events that these bytes completed."""

    def receive_eof(self, stamp: Stamp) -> list[HttpEvent]:
        """The peer will send no more: End for an until-close body, Broken within a message, nothing
        between messages."""

    def data_to_send(self) -> bytes:
        """Bytes for the peer; flow control permitting."""

    def request_sent(self, stream: int) -> bool:
        """All bytes of that request were handed out by `data_to_send`."""

    def stalled(self, stream: int) -> str | None:
        """What the upload waits for since the last `data_to_send`: the peer's flow-control window
        of the "stream" or of the "connection"; None when it waits for nothing. Whoever has the
        clock marks the beginning; `receive` tells the end as a `Control`."""

    def reusable(self) -> bool:
        """Another request may be sent (after End)."""
