"""Newline-delimited JSON, incrementally: one frame a line (ndjson.org; JSON Lines), LF or CR LF.

Every byte is counted once: the sizes of all frames + `ignored` (blank lines) + `pending` = the
bytes fed.
"""

from __future__ import annotations

import json
from typing import Final

from promptpath.model.stamp import Stamp
from promptpath.wire.frame import Frame, FrameKind
from promptpath.wire.sse import MAX_EVENT_BYTES, TOO_LARGE

_KEPT_OF_TOO_LARGE: Final = 65_536
_BLANK: Final = b" \t\r"


class NdjsonFramer:
    """The bytes of one NDJSON body in, a LINE frame a line out (`wire.frame.Framer`). Whether a
    line is JSON is for the dialect to say, except for the last one without a line end."""

    def __init__(self, max_line_bytes: int = MAX_EVENT_BYTES) -> None:
        self.ignored = 0
        """Bytes that belong to no frame: blank lines, the rest of a line given up."""
        self.too_large = 0
        """Lines that were given up for their size."""
        self._max = max_line_bytes
        self._held: list[bytes] = []
        self._size = 0
        self._first: Stamp | None = None
        self._last: Stamp | None = None
        self._dropping = False

    @property
    def pending(self) -> int:
        """Bytes of the line that is not whole yet."""
        return self._size

    def feed(self, data: bytes, stamp: Stamp) -> list[Frame]:
        """The lines that these bytes completed."""
        out: list[Frame] = []
        if not data:
            return out
        self._last = stamp
        *ends, rest = data.split(b"\n")
        for part in ends:
            if self._dropping:
                self.ignored += len(part) + 1
                self._dropping = False
                continue
            line, first = b"".join((*self._held, part)), self._first or stamp
            self._clear()
            if line.strip(_BLANK):
                text = line.removesuffix(b"\r")
                out.append(Frame(FrameKind.LINE, "", text, stamp, first, len(line) + 1))
            else:
                self.ignored += len(line) + 1
        if rest:
            self._hold(rest, stamp, out)
        return out

    def end(self, stamp: Stamp) -> list[Frame]:
        """The body ended: a last line without a line end is a LINE when it is whole JSON, else
        UNFINISHED."""
        line, first, last = b"".join(self._held), self._first or stamp, self._last or stamp
        self._clear()
        if not line.strip(_BLANK):
            self.ignored += len(line)
            return []
        kind = FrameKind.LINE if _is_json(line) else FrameKind.UNFINISHED
        return [Frame(kind, "", line.removesuffix(b"\r"), last, first, len(line))]

    def _hold(self, rest: bytes, stamp: Stamp, out: list[Frame]) -> None:
        if self._dropping:
            self.ignored += len(rest)
            return
        if self._first is None:
            self._first = stamp
        self._held.append(rest)
        self._size += len(rest)
        if self._size > self._max:
            kept = b"".join(self._held)[:_KEPT_OF_TOO_LARGE]
            frame = (FrameKind.UNFINISHED, TOO_LARGE, kept, stamp, self._first, self._size)
            out.append(Frame(*frame))
            self.too_large += 1
            self._dropping = True
            self._clear()

    def _clear(self) -> None:
        self._held, self._size, self._first = [], 0, None


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
