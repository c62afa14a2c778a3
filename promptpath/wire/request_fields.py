"""A request's pseudo-header and header fields, which HTTP/2 and HTTP/3 write alike (RFC 9113, 8.2
and 8.3; RFC 9114, 4.2 and 4.3)."""

from __future__ import annotations

import re
from typing import Final

from promptpath.wire.http import HttpRequest

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BREAKS: Final = re.compile(r"[\0\r\n]")


def request_fields(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """The fields in order, names in lower case. Raises ValueError for what neither can carry: the
    libraries check what they receive, and send what they are given."""
    if request.method == "CONNECT":  # RFC 9113, 8.5: no scheme, no path
        pairs = [(":method", "CONNECT"), (":authority", request.target)]
    else:
        pairs = [
            (":method", request.method),
            (":authority", request.authority),
            (":scheme", request.scheme),
            (":path", request.target),
        ]
    if any(_BREAKS.search(value) for _, value in pairs) or " " in request.target:
        raise ValueError("the target is no request target")
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name) or _BREAKS.search(value):
            raise ValueError("a header is not HTTP (RFC 9113, 8.2.1)")
        pairs.append((name.lower(), value))
    if request.body or request.method in ("POST", "PUT", "PATCH"):
        pairs.append(("content-length", str(len(request.body))))
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]
