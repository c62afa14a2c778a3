"""One HTTP/3 request, and what its connection needs of the socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from aioquic.h3.connection import ErrorCode

from reference_server.asgi import Header
from reference_server.listen.body import InboundBody

if TYPE_CHECKING:
    from reference_server.listen.http3 import Http3Connection


class Link(Protocol):
    """What a connection needs of the socket it shares with others."""

    def send(self, data: bytes, to: Any) -> None:
        """Send one datagram."""

    def add_id(self, connection_id: bytes, connection: Http3Connection) -> None:
        """Datagrams for this ID are the connection's."""

    def drop_id(self, connection_id: bytes) -> None:
        """The ID is not in use any more."""

    def established(self, connection: Http3Connection) -> None:
        """The handshake is complete."""

    def answered(self, connection: Http3Connection) -> None:
        """The connection is closed for HTTP, though its IDs may linger."""

    def gone(self, connection: Http3Connection) -> None:
        """Nothing of it is left."""


class Stream:
    """One request and where its answer stands."""

    def __init__(self, stream_id: int, body: InboundBody) -> None:
        self.id = stream_id
        self.body = body
        self.room = asyncio.Event()
        self.code = ErrorCode.H3_INTERNAL_ERROR
        """What a reset says when the answer does not end well."""
        self.head_only = False
        self.ended = False
        self.gone = False
        self.task: asyncio.Task[None] | None = None

    def leave(self) -> None:
        """The client reset the stream, or the connection is lost."""
        self.gone = True
        self.body.disconnect()
        self.room.set()


def split_head(fields: list[Header]) -> tuple[dict[bytes, bytes], list[Header]]:
    """Pseudo-header fields, and the others as ASGI wants them: `host` first."""
    pseudo = {name: value for name, value in fields if name.startswith(b":")}
    headers = [(name, value) for name, value in fields if not name.startswith(b":")]
    if b":authority" in pseudo:
        headers.insert(0, (b"host", pseudo[b":authority"]))
    return pseudo, headers


def head_size(fields: list[Header]) -> int:
    """Of a head, as RFC 9114 section 4.2.2 counts it."""
    return sum(len(name) + len(value) + 32 for name, value in fields)
