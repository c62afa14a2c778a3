"""The page at `/`: plain files of this package, no build step, no foreign script."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from reference_server.api.errors import ApiError
from reference_server.api.service import Service
from reference_server.asgi import Exchange, Header

PREFIX = "/page/"
_TYPES = {
    "index.html": b"text/html; charset=utf-8",
    "page.css": b"text/css; charset=utf-8",
    "page.js": b"text/javascript; charset=utf-8",
    "stream.js": b"text/javascript; charset=utf-8",
    "trip.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
"""All that is served; a name that is not here does not exist."""
_HEADERS: tuple[Header, ...] = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
)


async def index(service: Service, exchange: Exchange) -> None:
    """`GET /`."""
    await _send(exchange, "index.html")


async def asset(service: Service, exchange: Exchange) -> None:
    """`GET /page/{name}`. Raises ApiError 404."""
    name = exchange.path.removeprefix(PREFIX)
    if name not in _TYPES or name == "index.html":
        raise ApiError(404, "not_found", "The page has no such file.")
    await _send(exchange, name)


async def _send(exchange: Exchange, name: str) -> None:
    head = [(b"content-type", _TYPES[name]), *_HEADERS]
    await exchange.respond(200, head, _content(name))


@cache
def _content(name: str) -> bytes:
    return (files("reference_server") / "page" / name).read_bytes()
