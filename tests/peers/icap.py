"""A small ICAP server (RFC 3507, RESPMOD): a scanner that reads everything before it lets anything
go, one that passes on what it reads, and one that looks at a preview."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from tests.peers.threaded import Connection, ThreadedServer

PREVIEW_BYTES = 1024
"""What Scanner.PREVIEW asks for."""
_BODY = re.compile(rb"(?im)^encapsulated:.*?(res|null)-body=(\d+)")
_HEAD = re.compile(rb"(?im)^encapsulated:.*?res-hdr=(\d+)")


class Scanner(Enum):
    """How it treats a body."""

    WHOLE = "whole"
    """Reads all of it first, as antivirus and data-loss scanners do."""
    STREAM = "stream"
    """Passes each piece on as it comes."""
    PREVIEW = "preview"
    """Looks at the first PREVIEW_BYTES and has no objection (204)."""


class IcapServer(ThreadedServer):
    """One scanner on a loopback port."""

    def __init__(self, scanner: Scanner) -> None:
        super().__init__(self._serve_client)
        self._scanner = scanner

    @property
    def url(self) -> str:
        """Its service."""
        return f"icap://{self.authority}/scan"

    def _serve_client(self, client: Connection) -> None:
        while True:
            head = client.read_until(b"\r\n\r\n")
            if head.startswith(b"OPTIONS"):
                client.send(self._options())
            else:
                self._respond(client, head)

    def _options(self) -> bytes:
        fields = b'Methods: RESPMOD\r\nISTag: "1"\r\nAllow: 204\r\n'
        if self._scanner is Scanner.PREVIEW:
            fields += b"Preview: %d\r\nTransfer-Preview: *\r\n" % PREVIEW_BYTES
        return b"ICAP/1.0 200 OK\r\n" + fields + b"Encapsulated: null-body=0\r\n\r\n"

    def _respond(self, client: Connection, head: bytes) -> None:
        body, start = _BODY.search(head), _HEAD.search(head)
        assert body is not None and start is not None, head
        response = client.read_exactly(int(body[2]))[int(start[1]) :]
        kind = body[1]
        answer = b'ICAP/1.0 200 OK\r\nISTag: "1"\r\nEncapsulated: res-hdr=0, %s-body=%d\r\n\r\n'
        answer = answer % (kind, len(response)) + response
        if kind == b"null":
            client.send(answer)
        elif self._scanner is Scanner.PREVIEW:
            list(_chunks(client))
            client.send(b'ICAP/1.0 204 No Content\r\nISTag: "1"\r\n\r\n')
        elif self._scanner is Scanner.STREAM:
            client.send(answer)
            for chunk in _chunks(client):
                client.send(_framed(chunk))
            client.send(b"0\r\n\r\n")
        else:
            whole = b"".join(_chunks(client))
            client.send(answer + (_framed(whole) if whole else b"") + b"0\r\n\r\n")


def _chunks(client: Connection) -> Iterator[bytes]:
    while size := int(client.read_until(b"\r\n").split(b";")[0], 16):
        yield client.read_exactly(size)
        client.read_exactly(2)
    client.read_exactly(2)


def _framed(chunk: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(chunk), chunk)
