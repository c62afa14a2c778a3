"""Reading streams in tests: a body whole or in pieces through the real framer and the real
meter."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from promptpath.dialect.base import Dialect, Meaning
from promptpath.dialect.detect import Framing, framer_for, framing_of
from promptpath.dialect.meter import EventRow, StreamMeter
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.wire.frame import Frame, FrameKind

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures" / "streams"
SHARED = ROOT.parent / "shared" / "data"
NOW = user_stamp(0)


def event(data: object, type: str = "message", kind: FrameKind = FrameKind.EVENT) -> Frame:
    """One frame with this payload (bytes and str as they are, all else as JSON)."""
    if isinstance(data, str):
        data = data.encode()
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Frame(kind, type, raw, NOW, NOW, len(raw) + 8)


def means(dialect: Dialect, data: object, type: str = "message") -> Meaning:
    """What one event means to a fresh reader."""
    return dialect.reader().read(event(data, type))


def frames_of(framing: Framing, pieces: Iterable[tuple[bytes, Stamp]]) -> list[Frame]:
    """The frames of a body that comes in these pieces."""
    framer = framer_for(framing)
    assert framer is not None
    frames: list[Frame] = []
    stamp = NOW
    for data, stamp in pieces:
        frames += framer.feed(data, stamp)
    return frames + framer.end(stamp)


def metered(
    body: bytes, content_type: str = "text/event-stream", cuts: Iterable[int] = (), **options: Any
) -> tuple[StreamMeter, list[EventRow]]:
    """A meter that has read the body, cut at these offsets, and the rows it gave."""
    framing = framing_of(content_type, body)
    meter = StreamMeter(framing, content_type, keep_content=True, **options)
    borders = [0, *sorted(cuts), len(body)]
    pieces = [
        (body[start:end], user_stamp(number))
        for number, (start, end) in enumerate(pairwise(borders))
    ]
    rows = [row for frame in frames_of(framing, pieces) for row in meter.feed(frame)]
    return meter, rows


def visible_text(rows: Iterable[EventRow]) -> str:
    """The text of the answer."""
    return "".join(row.text or "" for row in rows if row.kind == "text")
