"""The test streams of the reference server: calibration and silence (docs/contract/timing.md).

An event `tick` stands for one token, so that everything that reads a stream's rhythm reads these
too; its name and the `promptpath` stamp beside it mark the dialect.
"""

from __future__ import annotations

from typing import Final

from promptpath.dialect.base import Meaning, Reader
from promptpath.dialect.generic_sse import GenericSse
from promptpath.dialect.payload import as_dict, as_str, parse
from promptpath.dialect.reading import error_meaning, extras, plain, unreadable
from promptpath.model.enums import EventKind
from promptpath.model.rows import Json
from promptpath.wire.frame import Frame

_KINDS: Final = {
    "plan": EventKind.ROLE,
    "tick": EventKind.TEXT,
    "keepalive": EventKind.PING,
    "end": EventKind.END,
}
_TOKEN: Final = "."
"""What a tick says: one token; its padding is no text."""


class Calibration(GenericSse):
    """`/promptpath/calibrate` and `/promptpath/silence`, as events or as lines."""

    name = "calibration"
    title = "test stream of the reference server"
    has_end_marker = True

    def claims(self, content_type: str, first: Json) -> float:
        """Sure of a `kind` it knows beside the stamp of the timing contract."""
        payload = as_dict(first)
        stamped = "sent_ns" in as_dict(payload.get("promptpath"))
        return 1.0 if stamped and as_str(payload.get("kind")) in _KINDS else 0.0

    def reader(self) -> Reader:
        """The state of one stream (there is none)."""
        return CalibrationReader()


class CalibrationReader:
    """Reads one stream's frames."""

    def read(self, frame: Frame) -> Meaning:
        """What this frame means."""
        if (meaning := plain(frame)) is not None:
            return meaning
        payload = parse(frame.data)
        if not isinstance(payload, dict):
            return unreadable(frame)
        if (meaning := error_meaning(frame, payload)) is not None:
            return meaning
        kind = _KINDS.get(as_str(payload.get("kind")), EventKind.OTHER)
        return Meaning(
            kind=kind,
            text=_TOKEN if kind is EventKind.TEXT else "",
            is_end=kind is EventKind.END,
            **extras(payload, final=kind is EventKind.END),
        )


CALIBRATION: Final = Calibration()
