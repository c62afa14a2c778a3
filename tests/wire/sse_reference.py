"""The WHATWG event-stream algorithm (HTML 9.2.6) as it is written there: slow, whole, obvious."""

from __future__ import annotations

import re

Event = tuple[str, bytes, str | None]
"""Type, data, last event id in force."""


def parse(body: bytes) -> list[Event]:
    """The events the standard dispatches for this whole body."""
    if body.startswith(b"\xef\xbb\xbf"):
        body = body[3:]
    *lines, _unterminated = re.split(rb"\r\n|\n|\r", body)
    events: list[Event] = []
    data, kind, last_id = b"", b"", None
    for line in lines:
        if line == b"":
            if data:
                name = kind.decode("utf-8", "replace") or "message"
                events.append((name, data.removesuffix(b"\n"), last_id))
            data, kind = b"", b""
            continue
        if line.startswith(b":"):
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data += value + b"\n"
        elif field == b"event":
            kind = value
        elif field == b"id" and b"\0" not in value:
            last_id = value.decode("utf-8", "replace")
    return events
