"""Which header fields pass the edge, and which ones it adds. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from reference_server.asgi import Header, Scope

VIA_NAME = b"promptpath-edge"
_HOP_BY_HOP = {
    *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer"),
    *(b"transfer-encoding", b"upgrade", b"proxy-authenticate", b"proxy-authorization"),
}
"""RFC 9110 section 7.6.1, and those that earlier standards named."""


def forwarded(headers: Iterable[Header]) -> list[Header]:
    """The fields that are not for this connection only."""
    fields = [(name.lower(), value) for name, value in headers]
    named = {
        option.strip().lower()
        for name, value in fields
        if name == b"connection"
        for option in value.split(b",")
    }
    return [field for field in fields if field[0] not in _HOP_BY_HOP | named]


def request_headers(scope: Scope, framing: Header | None) -> list[Header]:
    """What the backend gets. `framing` replaces the client's own length when there is one."""
    dropped = {b"expect"} if framing is None else {b"expect", b"content-length"}
    fields = [field for field in forwarded(scope["headers"]) if field[0] not in dropped]
    if framing is not None:
        fields.append(framing)
    client = scope.get("client")
    if client is not None:
        fields.append((b"x-forwarded-for", str(client[0]).encode("ascii", "replace")))
    fields.append((b"x-forwarded-proto", str(scope["scheme"]).encode()))
    fields.append((b"via", via(str(scope["http_version"]))))
    return fields


def response_headers(headers: Iterable[Header], edge_ns: int, backend: str) -> list[Header]:
    """What the client gets; the edge's own time is a Server-Timing field before the others."""
    replica = (b"x-promptpath-replica", backend.encode("ascii", "replace"))
    timing = (b"server-timing", b"edge;dur=%.3f" % (edge_ns / 1e6))
    fields = [field for field in forwarded(headers) if field[0] != b"date"]
    return [timing, *fields, replica, (b"via", via("1.1"))]


def via(version: str) -> bytes:
    """RFC 9110 section 7.6.3: the protocol's version as received, and a pseudonym."""
    return version.encode("ascii", "replace") + b" " + VIA_NAME
