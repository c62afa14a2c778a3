"""HTTP/3, the client's side: aioquic's HTTP/3 over `wire.quic`, in the vocabulary of `wire.http`.

What this module does itself, because aioquic does not tell it: the borders of DATA frames (they
come through its log), GOAWAY (`ControlStream`; aioquic skips it), stalls of the upload.

Bytes come by `take_datagram`, from whoever owns the socket: `receive` only hands over what they
completed, so that an exchange reads HTTP/3 as it reads the other two.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from aioquic.h3.connection import H3Connection as AioH3
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.events import QuicEvent, StreamDataReceived, StreamReset

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import MARK_SETTINGS, MARK_WINDOW_STALL
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Goaway,
    Head,
    HttpEvent,
    HttpRequest,
    Informational,
    Reset,
    Trailers,
)
from promptpath.wire.quic import QuicSettings, QuicWire
from promptpath.wire.request_fields import request_fields

H3_NO_ERROR: Final = 0x100
"""RFC 9114, section 8.1."""
MAX_CONTROL_BYTES: Final = 4096
"""Unfinished bytes kept of the peer's control stream: its frames are a few varints each (RFC 9114,
7.2.4 to 7.2.7)."""
_CONTROL: Final = 0x00
_GOAWAY: Final = 0x07
_SETTINGS: Final = {0x01: "qpack_max_table_capacity", 0x06: "max_field_section_size"}
_SETTINGS_MORE: Final = {0x07: "qpack_blocked_streams", 0x08: "enable_connect_protocol"}
_CONNECTION_FIELDS: Final = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
"""Not allowed in HTTP/3 (RFC 9114, section 4.2)."""


@dataclass(slots=True)
class _Stream:
    head: bool = False
    done: bool = False
    frame_left: int = 0
    frame_size: int = 0
    stalled: str | None = None


@dataclass(slots=True)
class ControlStream:
    """The peer's control stream, for GOAWAY alone (RFC 9114, section 7.2.6). Fed in any cut."""

    stream: int | None = None
    _opened: dict[int, bytearray] = field(default_factory=dict)
    _skip: int = 0

    def feed(self, stream: int, data: bytes) -> list[int]:
        """The ids of GOAWAY frames that these bytes completed."""
        if stream & 3 != 3 or (self.stream is not None and stream != self.stream):
            return []
        buffer = self._opened.setdefault(stream, bytearray())
        if len(buffer) + len(data) > MAX_CONTROL_BYTES + self._skip:
            self._opened[stream] = bytearray()
            return []
        buffer += data
        if self.stream is None:
            kind = _varint(buffer, 0)
            if kind is None:
                return []
            if kind[0] != _CONTROL:
                # Another kind of stream: nothing of it is kept.
                buffer.clear()
                return []
            self.stream = stream
            del buffer[: kind[1]]
        return self._frames(buffer)

    def _frames(self, buffer: bytearray) -> list[int]:
        found: list[int] = []
        while True:
            if self._skip:
                taken = min(self._skip, len(buffer))
                del buffer[:taken]
                self._skip -= taken
            kind = None if self._skip else _varint(buffer, 0)
            size = None if kind is None else _varint(buffer, kind[1])
            if kind is None or size is None:
                return found
            if kind[0] != _GOAWAY:
                self._skip = size[0]
                del buffer[: size[1]]
                continue
            if len(buffer) < size[1] + size[0]:
                return found
            last = _varint(buffer, size[1])
            found += [] if last is None else [last[0]]
            del buffer[: size[1] + size[0]]


def _varint(data: bytearray, at: int) -> tuple[int, int] | None:
    """A variable-length integer (RFC 9000, section 16) and the offset behind it."""
    if at >= len(data):
        return None
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        return None
    value = int.from_bytes(data[at : at + size], "big") & ((1 << (8 * size - 2)) - 1)
    return value, at + size


class H3Connection:
    """One HTTP/3 connection, sans-IO (`wire.http.HttpConnection`). Hostile bytes end in a `Broken`
    event or in `quic.closed`, never in an exception."""

    version = "3"

    def __init__(self, settings: QuicSettings) -> None:
        self.quic = QuicWire(settings)
        # Made before the handshake: the peer's control stream may come with it.
        self._h3 = AioH3(self.quic.quic)
        self._streams: dict[int, _Stream] = {}
        self._events: list[HttpEvent] = []
        self._control = ControlStream()
        self._leaving = False
        self._settings_told = False
        self._eof = False

    # -- sending ---------------------------------------------------------------------------------

    def request(self, request: HttpRequest) -> int:
        """Queue a request; its stream number. Raises MeasureError (stage request)."""
        if not self.reusable():
            raise _refusal("the connection cannot take another request", "connection-used")
        stream = self.quic.quic.get_next_available_stream_id()
        try:
            headers = _request_headers(request)
        except ValueError as error:
            raise _refusal("the request cannot be written as HTTP/3", "invalid-request") from error
        self._h3.send_headers(stream, headers, end_stream=not request.body)
        if request.body:
            self._h3.send_data(stream, request.body, end_stream=True)
        self._streams[stream] = _Stream()
        return stream

    def data_to_send(self) -> bytes:
        """Nothing: datagrams are the link's (`QuicWire.datagrams`), which sends on every write."""
        return b""

    def request_sent(self, stream: int) -> bool:
        """Handed to QUIC, whose packets the link follows."""
        return stream in self._streams

    def stalled(self, stream: int) -> str | None:
        """What the upload waits for: the "stream"'s or the "connection"'s window, or nothing."""
        state = self._streams.get(stream)
        if state is None:
            return None
        state.stalled = state.stalled or self.quic.blocked(stream)
        return state.stalled

    def reusable(self) -> bool:
        """The peer neither left nor closed."""
        return not self._leaving and self.quic.closed is None

    # -- receiving -------------------------------------------------------------------------------

    def take_datagram(self, datagram: bytes, stamp: Stamp) -> None:
        """One datagram arrived; `receive` hands over what it completed."""
        self.take_events(self.quic.receive(datagram, stamp.at_ns), stamp)

    def take_timer(self, now_ns: Ns, stamp: Stamp) -> None:
        """A timer of QUIC's ran out."""
        self.take_events(self.quic.timer(now_ns), stamp)

    def take_events(self, events: list[QuicEvent], stamp: Stamp) -> None:
        """QUIC's events in HTTP's words."""
        for event in events:
            if isinstance(event, StreamDataReceived):
                for last in self._control.feed(event.stream_id, event.data):
                    self._on_goaway(last, stamp)
            try:
                told = self._h3.handle_event(event)
            except Exception as error:  # QPACK and frames of a hostile peer
                self._break(f"not HTTP/3: {type(error).__name__}", stamp)
                continue
            for each in told:
                self._translate(each, stamp)
            if isinstance(event, StreamReset):
                self._on_reset(event, stamp)
        self._tell_settings(stamp)
        self._end_stalls(stamp)

    @property
    def has_events(self) -> bool:
        """Something waits for `receive`."""
        return bool(self._events)

    def receive(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """What has been completed since the last call."""
        events, self._events = self._events, []
        return events

    def receive_eof(self, stamp: Stamp) -> list[HttpEvent]:
        """Broken (`eof`) for each stream that is not whole."""
        if self._eof:
            return []
        self._eof = True
        what = "the connection closed before the stream was whole"
        return [
            Broken(stream=number, what=what, code="eof", stamp=stamp)
            for number, stream in self._streams.items()
            if not stream.done
        ]

    def _translate(self, event: H3Event, stamp: Stamp) -> None:
        number = getattr(event, "stream_id", None)
        stream = self._streams.get(number) if number is not None else None
        if number is None or stream is None or stream.done:
            return
        if isinstance(event, HeadersReceived):
            self._on_headers(number, stream, event, stamp)
        elif isinstance(event, DataReceived):
            self._on_data(number, stream, event, stamp)
        else:
            return
        if event.stream_ended:
            stream.done = True
            self._events.append(End(stream=number, stamp=stamp))

    def _on_headers(
        self, number: int, stream: _Stream, event: HeadersReceived, stamp: Stamp
    ) -> None:
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in event.headers
            if not name.startswith(b":")
        )
        if stream.head:
            self._events.append(Trailers(stream=number, headers=headers, stamp=stamp))
            return
        status = next((value for name, value in event.headers if name == b":status"), b"")
        if len(status) != 3 or not status.isdigit():
            self._break("a status that is no three digits", stamp)
            return
        if status.startswith(b"1"):
            told = Informational(stream=number, status=int(status), headers=headers, stamp=stamp)
            self._events.append(told)
            return
        stream.head = True
        self._events.append(
            Head(
                stream=number,
                status=int(status),
                reason="",
                version="3",
                headers=headers,
                framing="none" if event.stream_ended else "h3-data",
                stamp=stamp,
            )
        )

    def _on_data(self, number: int, stream: _Stream, event: DataReceived, stamp: Stamp) -> None:
        if not event.data:
            return
        start = not stream.frame_left
        if start:
            stream.frame_size = stream.frame_left = self._next_frame(number, len(event.data))
        stream.frame_left = max(stream.frame_left - len(event.data), 0)
        self._events.append(
            Data(
                stream=number,
                data=event.data,
                stamp=stamp,
                frame_start=start,
                frame_end=not stream.frame_left,
                frame_size=stream.frame_size,
            )
        )

    def _next_frame(self, number: int, at_least: int) -> int:
        """The length of the DATA frame that begins: told by the log when its head was read."""
        frames = self.quic.log.h3_frames
        while frames:
            stream, length = frames.popleft()
            if stream == number and length >= at_least:
                return length
        return at_least

    def _on_reset(self, event: StreamReset, stamp: Stamp) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is None or stream.done:
            return
        stream.done = True
        self._events.append(Reset(stream=event.stream_id, code=event.error_code, stamp=stamp))

    def _on_goaway(self, last: int, stamp: Stamp) -> None:
        """RFC 9114, section 5.2: requests with that id or a higher one were not taken."""
        self._leaving = True
        self._events.append(Goaway(code=H3_NO_ERROR, last_stream=last, stamp=stamp))
        for number, stream in self._streams.items():
            if number >= last and not stream.done:
                stream.done = True
                what = "the peer left (GOAWAY) before it took this request"
                self._events.append(
                    Broken(stream=number, what=what, code="protocol-error", stamp=stamp)
                )

    def _tell_settings(self, stamp: Stamp) -> None:
        settings = self._h3.received_settings
        if settings is None or self._settings_told:
            return
        self._settings_told = True
        names = {**_SETTINGS, **_SETTINGS_MORE}
        detail: dict[str, Json] = {
            names[key]: value for key, value in settings.items() if key in names
        }
        self._events.append(Control(name=MARK_SETTINGS, stamp=stamp, detail=detail))

    def _end_stalls(self, stamp: Stamp) -> None:
        for number, stream in self._streams.items():
            if stream.stalled is None or self.quic.blocked(number) is not None:
                continue
            detail: dict[str, Json] = {"state": "end", "scope": stream.stalled}
            stream.stalled = None
            self._events.append(
                Control(name=MARK_WINDOW_STALL, stamp=stamp, detail=detail, stream=number)
            )

    def _break(self, what: str, stamp: Stamp) -> None:
        for stream in self._streams.values():
            stream.done = True
        self._leaving = True
        self._events.append(Broken(stream=None, what=what, code="protocol-error", stamp=stamp))


def _request_headers(request: HttpRequest) -> list[tuple[bytes, bytes]]:
    """Raises ValueError for what HTTP/3 cannot carry. hyper-h2 drops these fields itself."""
    return [pair for pair in request_fields(request) if pair[0] not in _CONNECTION_FIELDS]


def _refusal(what: str, code: str) -> MeasureError:
    return MeasureError(
        what,
        stage=Stage.REQUEST.value,
        code=code,
        expected="a connection that is open, and headers that HTTP/3 allows",
        where="HTTP/3",
        hint="Connection, Transfer-Encoding and the like do not exist in HTTP/3: look at -H"
        if code == "invalid-request"
        else None,
    )
