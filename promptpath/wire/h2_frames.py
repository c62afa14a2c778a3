"""Cuts a byte stream into HTTP/2 frames (RFC 9113, section 4.1) in front of hyper-h2.

hyper-h2 shows a frame only when it is whole. A DATA frame may hold several events and come in
several segments, so its payload must be seen as it arrives, or the frame's last byte would date its
first event. Cutting here also lets `wire.h2` look at a frame before hyper-h2 does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from promptpath.model.redact import redact_text
from promptpath.model.rows import Json

DATA: Final = 0x0
SETTINGS: Final = 0x4
GOAWAY: Final = 0x7

ACK: Final = 0x1
PADDED: Final = 0x8

HEADER_BYTES: Final = 9
MAX_FRAME_BYTES: Final = 16_384
"""RFC 9113, section 6.5.2: SETTINGS_MAX_FRAME_SIZE starts at 16,384 and we never raise it; a longer
frame is a connection error (section 4.2)."""

DEFAULT_SETTINGS: Final[dict[str, Json]] = {
    "header_table_size": 4_096,
    "max_concurrent_streams": None,
    "initial_window_size": 65_535,
    "max_frame_size": 16_384,
    "max_header_list_size": None,
}
"""What a peer that names no setting means (RFC 9113, section 6.5.2); None: unlimited."""

_SETTING_NAMES: Final = {
    1: "header_table_size",
    2: "enable_push",
    3: "max_concurrent_streams",
    4: "initial_window_size",
    5: "max_frame_size",
    6: "max_header_list_size",
    8: "enable_connect_protocol",
    9: "no_rfc7540_priorities",
}
"""IANA's registry "HTTP/2 Settings"."""

_MAX_SETTINGS: Final = 32
"""Settings that are kept: nghttp2's bound on the entries of one SETTINGS frame."""


class FramePiece(NamedTuple):
    """A whole frame, or the part of a DATA payload that arrived while its frame goes on."""

    kind: int
    """Frame type."""
    flags: int
    stream: int
    size: int
    """Of the whole payload, padding included."""
    payload: bytes
    """A whole frame: all of its payload. A part: the payload bytes that are new."""
    raw: bytes | None
    """The whole frame with its header; None for a part."""


class FrameTooLongError(Exception):
    """A frame header announced more than MAX_FRAME_BYTES."""


class FrameCutter:
    """Bytes in, frames and parts of unpadded DATA frames out; holds one frame at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._shown = 0

    @property
    def pending(self) -> int:
        """Bytes of the frame that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> Iterator[FramePiece]:
        """The frames that these bytes completed, then the part of a DATA payload that they began.

        Raises FrameTooLongError at the first header that announces too much.
        """
        self._buffer += data
        buffer, at = self._buffer, 0
        try:
            while len(buffer) - at >= HEADER_BYTES:
                size = int.from_bytes(buffer[at : at + 3], "big")
                if size > MAX_FRAME_BYTES:
                    raise FrameTooLongError(f"a frame of {size} bytes")
                kind, flags = buffer[at + 3], buffer[at + 4]
                stream = int.from_bytes(buffer[at + 5 : at + 9], "big") & 0x7FFF_FFFF
                begin, end = at + HEADER_BYTES, at + HEADER_BYTES + size
                if end > len(buffer):
                    fresh = bytes(buffer[begin + self._shown :])
                    if fresh and kind == DATA and not flags & PADDED:
                        self._shown += len(fresh)
                        yield FramePiece(kind, flags, stream, size, fresh, None)
                    break
                payload, raw = bytes(buffer[begin:end]), bytes(buffer[at:end])
                at, self._shown = end, 0
                yield FramePiece(kind, flags, stream, size, payload, raw)
        finally:
            del buffer[:at]


def read_settings(payload: bytes, before: dict[str, Json]) -> dict[str, Json]:
    """The peer's settings once this SETTINGS payload is applied to those `before`; unknown ones are
    named `0x0010` (RFC 9113, section 6.5.1)."""
    settings = dict(before)
    for at in range(0, len(payload) - 5, 6):
        number = int.from_bytes(payload[at : at + 2], "big")
        name = _SETTING_NAMES.get(number, f"0x{number:04x}")
        if name in settings or len(settings) < _MAX_SETTINGS:
            settings[name] = int.from_bytes(payload[at + 2 : at + 6], "big")
    return settings


def read_goaway(payload: bytes) -> tuple[int, int, str]:
    """Last stream, error code and printable debug text of a GOAWAY (RFC 9113, section 6.8)."""
    last = int.from_bytes(payload[:4], "big") & 0x7FFF_FFFF
    debug = redact_text(payload[8:].decode("utf-8", "replace"), limit=200)
    return last, int.from_bytes(payload[4:8], "big"), debug
