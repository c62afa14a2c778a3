"""Server-sent events, incrementally: WHATWG HTML 9.2.6, plus what the standard throws away.

The standard's parser is obeyed to the letter for events. Beside them come, in order and with their
own stamps, comments (keepalives), unknown fields and bytes that are no SSE at all, because servers
and proxies hide errors there. Payloads stay bytes.

Two rules that matter when events are timed:

- An event is dispatched at the first byte of its blank line's end: after a CR the framer does not
  wait to see whether a LF follows, for that would charge the next event's delay to this one.
- Every byte is counted once: the sizes of all frames + `ignored` + `pending` = the bytes fed. A LF
  that follows a CR counts to the event or foreign run that is in progress, else to `ignored`.
"""

from __future__ import annotations

import re
from typing import Final

from promptpath.model.stamp import Stamp
from promptpath.wire.frame import Frame, FrameKind

MAX_EVENT_BYTES: Final = 65 * 1_048_576
"""What one event may hold before it is given up: image and audio streams send single events of many
MiB (openai-node removed its cap of 8 MiB a day after it shipped, #2433), and one of 64 MiB with its
envelope must still pass. Beyond, memory is the far side's to fill."""

TOO_LARGE: Final = "too-large"
"""`type` of the UNFINISHED frame that stands for an event beyond the limit."""

_KEPT_OF_TOO_LARGE: Final = 65_536
"""Bytes of such an event that its frame carries: enough to see what it was."""

_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10
_CR: Final = 13
_FIELD_NAME: Final = re.compile(rb"[A-Za-z][A-Za-z0-9_.-]{0,63}")
"""What a field's name looks like. The standard takes any text; a line whose text before the first
colon is not of this shape (`{"error": {`, `<html>`, `upstream timed out`) was not meant as one."""

_EVENT: Final = FrameKind.EVENT


class SseFramer:
    """The bytes of one SSE body in, frames out (`wire.frame.Framer`). Any bytes are accepted.

    A run of foreign lines makes one FOREIGN frame (lines joined by LF); a blank line, a known field
    or a comment ends the run.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.ignored = 0
        """Bytes that belong to no frame: BOM, blank lines, blocks without data, dropped bytes."""
        self.too_large = 0
        """Events that were given up for their size."""
        self.retry_ms: int | None = None
        """The reconnection time the stream asked for, milliseconds."""
        self._max = max_event_bytes
        self._start: bytes | None = b""
        """The body's first bytes while they may still be a BOM; None afterwards."""
        self._skip_lf = False
        self._held: list[bytes] = []
        """The line that is not whole yet."""
        self._held_size = 0
        self._held_first: Stamp | None = None
        self._data: list[bytes] = []
        self._type = b""
        self._id: str | None = None
        self._size = 0
        """Of the event in progress; `_first` is None when there is none."""
        self._first: Stamp | None = None
        self._foreign: list[bytes] = []
        self._foreign_size = 0
        self._foreign_stamps: tuple[Stamp, Stamp] | None = None
        self._dropping = False
        self._line_begun = False
        self._last: Stamp | None = None

    @property
    def pending(self) -> int:
        """Bytes of a frame that is not finished yet."""
        return len(self._start or b"") + self._held_size + self._size + self._foreign_size

    def feed(self, data: bytes, stamp: Stamp) -> list[Frame]:
        """The frames that these bytes completed."""
        out: list[Frame] = []
        if not data:
            return out
        self._last = stamp
        if self._start is not None:
            data = self._strip_bom(data, stamp)
        if self._skip_lf and data:
            data = self._skip(data)
        if self._first is None and not self._foreign and not self._dropping:
            data = self._plain_events(data, stamp, out)
        if data:
            self._lines(data, stamp, out)
        return out

    def end(self, stamp: Stamp) -> list[Frame]:
        """The body ended: what was pending comes out, foreign bytes as FOREIGN, the rest as one
        UNFINISHED frame (never dispatched: the standard discards it)."""
        out: list[Frame] = []
        last = self._last or stamp
        line, first = b"".join([self._start or b"", *self._held]), self._held_first or last
        self._start = None
        self._clear_line()
        name = line.partition(b":")[0]
        if line and name and not _FIELD_NAME.fullmatch(name):
            self._add_foreign(line, 0, first, last)
            line = b""
        self._end_foreign(out)
        if line or self._first is not None:
            tail = [_value(line[5:]) if line.startswith(b"data:") else line] if line else []
            size, data = self._size + len(line), b"\n".join([*self._data, *tail])
            kind, event = _text(self._type), self._first or first
            out.append(Frame(FrameKind.UNFINISHED, kind, data, last, event, size, self._id))
            self._clear_event()
        return out

    # --- whole events at once ---------------------------------------------------------------------

    def _plain_events(self, data: bytes, stamp: Stamp, out: list[Frame]) -> bytes:
        """Takes blocks of the form `data: ...LF LF` from the front without looking at single lines
        (benchmarks/framer: what makes chat chunks twice as fast as httpx-sse); gives back what it
        did not take, which is everything when the bytes look in any way different."""
        cut = data.rfind(b"\n\n")
        if cut < 0 or data.find(b"\r") >= 0:
            return data
        whole = b"".join((*self._held, data)) if self._held else data
        if not whole.startswith(b"data: "):
            return data
        end = self._held_size + cut
        payloads = whole[6:end].split(b"\n\ndata: ")
        if whole.count(b"\n", 0, end) != 2 * (len(payloads) - 1):
            return data
        # tuple.__new__ makes the same Frame without the Python-level constructor, and locals and
        # a plain loop are what CPython runs fastest here.
        make, frame, event, kind, last_id = tuple.__new__, Frame, _EVENT, "message", self._id
        append, first = out.append, self._held_first or stamp
        for text in payloads:
            append(make(frame, (event, kind, text, stamp, first, len(text) + 8, last_id)))
            first = stamp
        rest = data[cut + 2 :]
        if not rest or rest.find(b"\n") >= 0:
            self._held, self._held_size, self._held_first = [], 0, None
            return rest
        self._held, self._held_size, self._held_first = [rest], len(rest), stamp
        return b""

    # --- line by line -----------------------------------------------------------------------------

    def _lines(self, data: bytes, stamp: Stamp, out: list[Frame]) -> None:
        for raw in data.splitlines(keepends=True):  # of bytes: at CR, LF and CR LF only
            last = raw[-1]
            if last not in (_LF, _CR):
                self._hold(raw, stamp, out)
                return
            paired = last == _LF and raw[-2:-1] == b"\r"
            line = raw[:-2] if paired else raw[:-1]
            first = stamp
            if self._held_first is not None:
                line, first = b"".join([*self._held, line]), self._held_first
                self._clear_line()
            if self._dropping:
                self.ignored += len(raw)
                self._dropping = bool(line) or self._line_begun
                self._line_begun = False
                continue
            self._line(line, first, stamp, out)
            if paired:
                self._count_lf()
        self._skip_lf = last == _CR

    def _line(self, line: bytes, first: Stamp, stamp: Stamp, out: list[Frame]) -> None:
        if not line:
            self._blank(stamp, out)
            return
        name, colon, rest = line.partition(b":")
        if name == b"data" or name in (b"event", b"id", b"retry"):
            if self._foreign:
                self._end_foreign(out)
            if self._first is None:
                self._first = first
            self._size += len(line) + 1
            self._field(name, _value(rest), stamp, out)
        elif not name and colon:
            self._end_foreign(out)
            size = len(line) + 1
            out.append(Frame(FrameKind.COMMENT, "", _value(rest), stamp, first, size, self._id))
        elif not self._foreign and _FIELD_NAME.fullmatch(name):
            frame = (FrameKind.UNKNOWN_FIELD, _text(name), _value(rest), stamp, first)
            out.append(Frame(*frame, len(line) + 1, self._id))
        else:
            self._add_foreign(line, 1, first, stamp)
            if self._foreign_size > self._max:
                self._end_foreign(out)

    def _field(self, name: bytes, value: bytes, stamp: Stamp, out: list[Frame]) -> None:
        if name == b"data":
            self._data.append(value)
            if self._size > self._max:
                self._give_up(stamp, out)
        elif name == b"event":
            self._type = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = _text(value)
        elif value.isdigit() and len(value) <= 18:
            self.retry_ms = int(value)

    def _blank(self, stamp: Stamp, out: list[Frame]) -> None:
        self._end_foreign(out)
        if self._first is None:
            self.ignored += 1
            return
        size = self._size + 1
        if self._data:
            kind, data = _text(self._type) or "message", b"\n".join(self._data)
            out.append(Frame(_EVENT, kind, data, stamp, self._first, size, self._id))
        else:
            self.ignored += size
        self._clear_event()

    # --- bytes that are no SSE, bytes that count for nothing --------------------------------------

    def _add_foreign(self, line: bytes, ending: int, first: Stamp, stamp: Stamp) -> None:
        self._foreign.append(line)
        self._foreign_size += len(line) + ending
        begun = self._foreign_stamps[0] if self._foreign_stamps else first
        self._foreign_stamps = (begun, stamp)

    def _end_foreign(self, out: list[Frame]) -> None:
        if self._foreign_stamps is None:
            return
        first, stamp = self._foreign_stamps
        data, size = b"\n".join(self._foreign), self._foreign_size
        out.append(Frame(FrameKind.FOREIGN, "", data, stamp, first, size, self._id))
        self._foreign, self._foreign_size, self._foreign_stamps = [], 0, None

    def _hold(self, data: bytes, stamp: Stamp, out: list[Frame]) -> None:
        if self._dropping:
            self.ignored += len(data)
            self._line_begun = True
            return
        if self._held_first is None:
            self._held_first = stamp
        self._held.append(data)
        self._held_size += len(data)
        if self._held_size + self._size + self._foreign_size > self._max:
            self._end_foreign(out)
            self._give_up(stamp, out)

    def _give_up(self, stamp: Stamp, out: list[Frame]) -> None:
        """The event in progress is too large: tell it, drop the rest of it up to its blank line."""
        kept = b"\n".join([*self._data, b"".join(self._held)])[:_KEPT_OF_TOO_LARGE]
        first, size = self._first or self._held_first or stamp, self._size + self._held_size
        out.append(Frame(FrameKind.UNFINISHED, TOO_LARGE, kept, stamp, first, size, self._id))
        self.too_large += 1
        self._dropping, self._line_begun = True, bool(self._held)
        self._clear_line()
        self._clear_event()

    def _strip_bom(self, data: bytes, stamp: Stamp) -> bytes:
        held = self._start or b""
        start = held + data
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._start, self._held_first = start, self._held_first or stamp
            return b""
        self._start = None
        if start.startswith(_BOM):
            self._held_first = None
            self.ignored += len(_BOM)
            return start[len(_BOM) :]
        if held:
            self._held, self._held_size = [held], len(held)
        return data

    def _skip(self, data: bytes) -> bytes:
        self._skip_lf = False
        if data[0] != _LF:
            return data
        self._count_lf()
        return data[1:]

    def _count_lf(self) -> None:
        if self._first is not None:
            self._size += 1
        elif self._foreign:
            self._foreign_size += 1
        else:
            self.ignored += 1

    def _clear_line(self) -> None:
        self._held, self._held_size, self._held_first = [], 0, None

    def _clear_event(self) -> None:
        self._data, self._type, self._size, self._first = [], b"", 0, None


def _value(rest: bytes) -> bytes:
    """A field's value: one space after the colon is not part of it."""
    return rest[1:] if rest[:1] == b" " else rest


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
