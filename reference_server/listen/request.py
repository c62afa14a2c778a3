"""An ASGI scope from what a protocol parsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from reference_server.asgi import EXTENSION, Header, Scope


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Both ends of a connection, as far as the transport knows them."""

    client: tuple[str, int] | None
    server: tuple[str, int] | None
    scheme: str
    alt_svc: bytes | None = None
    """What the Alt-Svc header says (RFC 7838): that HTTP/3 is to be had too."""


def address(name: Any) -> tuple[str, int] | None:
    """Host and port of a socket name (an IPv6 name has four parts)."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None


def build_scope(
    version: str,
    method: bytes,
    target: bytes,
    headers: list[Header],
    ends: Endpoints,
    received_ns: int,
) -> Scope:
    """The scope of one request (ASGI HTTP 2.3), with our extension in it."""
    if target.startswith((b"http://", b"https://")):
        # The absolute form (RFC 9112 section 3.2.2), as sent to a proxy.
        _, _, rest = target.partition(b"://")
        slash = rest.find(b"/")
        target = rest[slash:] if slash >= 0 else b"/"
    raw_path, _, query = target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": version,
        "method": method.decode("ascii", "replace"),
        "scheme": ends.scheme,
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "client": ends.client,
        "server": ends.server,
        "extensions": {EXTENSION: {"received_ns": received_ns}},
    }
