"""When a frame was sent by its sender's own clock: the shapes in which the far side says it.

| who | where | resolution |
|---|---|---|
| the reference server | `promptpath.sent_ns` (docs/contract/timing.md) | 1 ns |
| Novita | `sla_metrics.ts_us`, unix time | 1 us |
| Ollama, watsonx | `created_at`, RFC 3339 | up to 1 ns; 1 ms |
| sse-starlette | a comment `ping - <UTC>` | 1 us, or 1 s |

The clocks of two shapes are not one clock. A payload with several gives the first of this order;
a comment's stamp stays with the comment, which is no content, so no verdict mixes the two.
Whether stamps are fine enough for a verdict is asked later, of all of them together
(analysis/sender_clock.py): one stamp does not show its clock's resolution.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from promptpath.dialect.payload import as_str, at, count
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S

_TIMESTAMP: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|z|[+-]\d\d:\d\d)?", re.ASCII
)
"""RFC 3339, 5.6, whose notes allow the space and lower case. Digits below 1 ns are cut. No
offset (Python's `utcnow()`) counts as UTC: a constant error falls out of every comparison of
gaps."""
_MAX_CHARS: Final = 64
"""A time with offset and nanoseconds has 35 characters; longer text is not searched."""
_PING: Final = b"ping - "
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_ns(text: str) -> int | None:
    """An RFC 3339 time as unix ns, exactly; None for anything else, a leap second (:60), or a time
    outside 0 .. 2^63-1 ns (1970 .. 2262)."""
    match = _TIMESTAMP.fullmatch(text) if len(text) <= _MAX_CHARS else None
    if match is None:
        return None
    date, time, fraction, offset = match.groups()
    zone = offset if offset and offset not in "Zz" else "+00:00"
    try:
        seconds = (datetime.fromisoformat(f"{date}T{time}{zone}") - _EPOCH) // timedelta(seconds=1)
    except (ValueError, OverflowError):
        return None
    return count(seconds * NS_PER_S + int((fraction or "0").ljust(9, "0")))


def payload_stamp(payload: dict[str, Json]) -> int | None:
    """When this payload was sent, in ns of the sender's clock, or None. A number under
    `created_at` or `created` is none: those are whole seconds and the same in every chunk."""
    if (sent_ns := count(at(payload, "promptpath", "sent_ns"))) is not None:
        return sent_ns
    if (ts_us := count(at(payload, "sla_metrics", "ts_us"))) is not None:
        return count(ts_us * 1000)
    return timestamp_ns(as_str(payload.get("created_at")))


def comment_stamp(comment: bytes) -> int | None:
    """When a keepalive comment `ping - <UTC>` was sent, as unix ns, or None."""
    if len(comment) > len(_PING) + _MAX_CHARS or not comment.startswith(_PING):
        return None
    return timestamp_ns(comment[len(_PING) :].decode("ascii", "replace").strip())
