"""HTTP/2, the client's side: hyper-h2 is the state machine, `wire.http` the vocabulary.

What this module does itself, because hyper-h2 hides or cannot do it: payload of a DATA frame comes
out as it arrives (`wire.h2_frames`); GOAWAY does not end the streams that it promises to finish;
stalls of the upload, windows and the peer's settings are told; floods end in `Broken`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
from h2.settings import SettingCodes
from hpack import HPACKError
from hyperframe.exceptions import HyperframeError

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import (
    MARK_PING_ACK,
    MARK_SETTINGS,
    MARK_WINDOW_STALL,
    MARK_WINDOW_UPDATE,
)
from promptpath.model.redact import redact_text
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.wire.h1 import name_protocol
from promptpath.wire.h2_frames import (
    ACK,
    DEFAULT_SETTINGS,
    GOAWAY,
    HEADER_BYTES,
    SETTINGS,
    FrameCutter,
    FramePiece,
    FrameTooLongError,
    read_goaway,
    read_settings,
)
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Goaway,
    Head,
    Headers,
    HttpEvent,
    HttpRequest,
    Informational,
    Reset,
    Trailers,
)
from promptpath.wire.request_fields import request_fields

WINDOW_BYTES: Final = 16 * 1_048_576
"""Receive window of each stream and of the connection. hyper-h2 hands it back in halves, so 8 MiB
may be in flight: at 200 ms of round trip that is 40 MB/s, a hundred times what an answer streams,
and of the order of browsers' windows, so that servers treat us alike. The window protects a
receiver's memory; we consume what arrives at once."""

MAX_HEADER_LIST_BYTES: Final = 65_536
"""Largest decoded header list; hyper-h2's own default, and `wire.h1.MAX_HEAD_BYTES`."""

MAX_IDLE_FRAMES: Final = 10_000
"""Frames in a row that bring neither a head nor body bytes before the peer is called a flood
(RFC 9113, section 10.5). The bound Go's net/http2 server has on queued control frames. hyper-h2
bounds CONTINUATION frames itself (64 a header block)."""

_WINDOW_UPDATES_PER_FRAME: Final = 2
"""What a peer may answer each DATA frame of an upload with: one for the stream, one for the
connection."""

_BAD_BYTES: Final = (h2.exceptions.H2Error, HPACKError, HyperframeError, ValueError, IndexError)
"""What hyper-h2 and its parts raise on bytes from a peer."""


@dataclass(slots=True)
class _Stream:
    upload: memoryview
    """Body bytes that flow control still holds back."""
    sending: bool
    """END_STREAM was not sent yet."""
    handed: bool = False
    """All of the request left through `data_to_send`."""
    stalled: str | None = None
    reading: bool = False
    """The head is here, the end is not."""
    done: bool = False
    shown: int = 0
    """Payload bytes of the DATA frame in progress that were told already."""


class H2Connection:
    """One HTTP/2 connection, sans-IO (`wire.http.HttpConnection`). Streams have HTTP/2's own odd
    numbers. Hostile bytes end in a `Broken` event, never in an exception.

    A DATA frame that comes in parts gives a `Data` for each part; an empty DATA frame gives none.
    `frame_size` counts padding, which `data` never holds.
    """

    version = "2"

    def __init__(self) -> None:
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._h2 = h2.connection.H2Connection(config)
        self._h2.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: MAX_HEADER_LIST_BYTES,
            },
        )
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(WINDOW_BYTES - 65_535)
        self._cutter = FrameCutter()
        self._streams: dict[int, _Stream] = {}
        self._lead: bytes | None = b""
        """The connection's first bytes until the peer's SETTINGS header is seen."""
        self._settings = dict(DEFAULT_SETTINGS)
        self._patience = MAX_IDLE_FRAMES
        self._leaving = False
        self._closed = False
        self._pings = 0
        self._open_ping: int | None = None
        """The latest PING, while it is not answered."""

    # --- sending ----------------------------------------------------------------------------------

    def request(self, request: HttpRequest) -> int:
        """Queue a request; its stream number. Raises MeasureError (stage request) when the peer is
        leaving or allows no further stream, or when a header is not HTTP."""
        if not self.reusable():
            raise self._refusal("the connection cannot take another request", "connection-used")
        try:
            stream = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream, request_fields(request), end_stream=not request.body)
        except (h2.exceptions.TooManyStreamsError, h2.exceptions.NoAvailableStreamIDError) as error:
            raise self._refusal("the peer allows no further stream", "no-stream") from error
        except (h2.exceptions.ProtocolError, ValueError) as error:
            raise self._refusal(
                "the request cannot be written as HTTP/2", "invalid-request"
            ) from error
        self._streams[stream] = _Stream(memoryview(request.body), bool(request.body))
        return stream

    def _refusal(self, what: str, code: str) -> MeasureError:
        return MeasureError(
            what,
            stage=Stage.REQUEST.value,
            code=code,
            expected="a connection that is open, and headers that HTTP/2 allows",
            where="HTTP/2",
            hint="Connection, Transfer-Encoding and the like do not exist in HTTP/2: look at -H"
            if code == "invalid-request"
            else None,
        )

    def data_to_send(self) -> bytes:
        """Everything queued that the peer's windows permit."""
        for number, stream in self._streams.items():
            if stream.sending and not self._closed:
                self._pump(number, stream)
            stream.handed = stream.handed or not (stream.sending or len(stream.upload))
        return self._h2.data_to_send()

    def _pump(self, number: int, stream: _Stream) -> None:
        while stream.sending:
            window = self._h2.local_flow_control_window(number)
            size = min(window, self._h2.max_outbound_frame_size, len(stream.upload))
            if size <= 0:
                whole = self._h2.outbound_flow_control_window <= 0
                stream.stalled = "connection" if whole else "stream"
                return
            stream.sending = size < len(stream.upload)
            self._h2.send_data(number, bytes(stream.upload[:size]), end_stream=not stream.sending)
            stream.upload = stream.upload[size:]
            self._patience += _WINDOW_UPDATES_PER_FRAME

    def ping(self) -> int | None:
        """Queue a PING (RFC 9113, section 6.7); its number, which the `Control` of its answer names
        (`MARK_PING_ACK`, detail "ping"). None when the connection is over. A later PING takes the
        place of one that is not answered yet."""
        if self._closed:
            return None
        self._pings += 1
        self._open_ping = self._pings
        self._h2.ping(_ping_data(self._pings))
        return self._pings

    def request_sent(self, stream: int) -> bool:
        """All bytes of that request were handed out; False for good when the peer cut it off."""
        state = self._streams.get(stream)
        return state is not None and state.handed

    def stalled(self, stream: int) -> str | None:
        """What the upload waits for since the last `data_to_send`: the window of the "stream" or of
        the "connection"; None when it waits for nothing. `receive` tells when a stall ends."""
        state = self._streams.get(stream)
        return None if state is None else state.stalled

    def reusable(self) -> bool:
        """The peer neither left nor broke the protocol (HTTP/2 needs no End before)."""
        return not self._closed and not self._leaving

    # --- receiving --------------------------------------------------------------------------------

    def receive(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """What these bytes completed, and the part of a DATA payload that they brought."""
        events: list[HttpEvent] = []
        if not data or self._closed:
            return events
        if self._lead is not None:
            events += self._check_lead(data, stamp)
        try:
            for piece in () if self._closed else self._cutter.feed(data):
                events += self._on_piece(piece, stamp)
                if self._closed:
                    break
        except FrameTooLongError as error:
            events.append(self._broken(f"{error}; allowed are 16384", "too-large", stamp))
        return events + self._ended_stalls(stamp)

    def receive_eof(self, stamp: Stamp) -> list[HttpEvent]:
        """Broken (`eof`) for each stream that is not whole; nothing when there is none."""
        if self._closed:
            return []
        self._closed = True
        what = "the peer closed before the stream was whole"
        if self._lead is not None:
            what = "the peer closed before it sent its SETTINGS"
        return [
            Broken(stream=number, what=what, code="eof", stamp=stamp)
            for number, stream in self._streams.items()
            if not stream.done
        ]

    def _check_lead(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """RFC 9113, section 3.4: the peer's first frame is SETTINGS."""
        lead = (self._lead or b"") + data[:40]
        self._lead = lead
        if lead.startswith(b"HTTP/"):
            line = redact_text(lead[:40].split(b"\r")[0].decode("latin-1"), limit=60)
            came = f"HTTP/1.x ({line!r})"
        elif len(lead) < HEADER_BYTES:
            return []
        elif lead[3] == SETTINGS and not lead[4] & ACK and not any(lead[5:HEADER_BYTES]):
            self._lead = None
            return []
        else:
            came = name_protocol(lead)
        what = f"the peer sent {came}; expected an HTTP/2 SETTINGS frame"
        return [self._broken(what, "malformed", stamp)]

    def _on_piece(self, piece: FramePiece, stamp: Stamp) -> list[HttpEvent]:
        if piece.raw is None:
            return self._on_part(piece, stamp)
        self._patience -= 1
        if self._patience < 0:
            what = f"{MAX_IDLE_FRAMES} frames in a row without a head or a byte of body"
            return [self._broken(what, "protocol-error", stamp)]
        if piece.kind == GOAWAY and not piece.stream and piece.size >= 8:
            return self._on_goaway(piece.payload, stamp)
        try:
            told = self._h2.receive_data(piece.raw)
        except _BAD_BYTES as error:
            too_large = isinstance(error, h2.exceptions.DenialOfServiceError)
            code = "too-large" if too_large else "protocol-error"
            return [self._broken(f"not HTTP/2: {error}", code, stamp)]
        events: list[HttpEvent] = []
        if piece.kind == SETTINGS and not piece.flags & ACK:
            self._settings = read_settings(piece.payload, self._settings)
            detail = dict(self._settings)
            events.append(Control(name=MARK_SETTINGS, stamp=stamp, detail=detail))
        for event in told:
            events += self._translate(event, stamp)
        return events

    def _on_part(self, piece: FramePiece, stamp: Stamp) -> list[HttpEvent]:
        stream = self._streams.get(piece.stream)
        if stream is None or not stream.reading:
            return []  # whether it may come at all is for hyper-h2 to say, when it is whole
        start, stream.shown = not stream.shown, stream.shown + len(piece.payload)
        return [self._data(piece.stream, piece.payload, stamp, start, False, piece.size)]

    def _translate(self, event: h2.events.Event, stamp: Stamp) -> list[HttpEvent]:
        match event:
            case h2.events.DataReceived():
                return self._on_data(event, stamp)
            case h2.events.ResponseReceived() | h2.events.InformationalResponseReceived():
                return [self._on_head(event, stamp)]
            case h2.events.TrailersReceived():
                headers = _headers(event.headers)
                return [Trailers(stream=event.stream_id, headers=headers, stamp=stamp)]
            case h2.events.StreamEnded():
                self._finish(event.stream_id)
                return [End(stream=event.stream_id, stamp=stamp)]
            case h2.events.StreamReset():
                return self._on_reset(event, stamp)
            case h2.events.WindowUpdated():
                number = event.stream_id or 0
                return [_window_update("received", number, event.delta, stamp)]
            case h2.events.PingAckReceived():
                return self._on_ping_ack(bytes(event.ping_data), stamp)
        return []

    def _on_ping_ack(self, data: bytes, stamp: Stamp) -> list[HttpEvent]:
        """An ACK must carry what the PING carried; any other answers nothing of ours."""
        number = self._open_ping
        if number is None or data != _ping_data(number):
            return []
        self._open_ping = None
        return [Control(name=MARK_PING_ACK, stamp=stamp, detail={"ping": number})]

    def _on_head(
        self,
        event: h2.events.ResponseReceived | h2.events.InformationalResponseReceived,
        stamp: Stamp,
    ) -> HttpEvent:
        number = event.stream_id
        status = next((value for name, value in event.headers if name == b":status"), b"")
        if len(status) != 3 or not status.isdigit():
            return self._broken("a status that is no three digits", "malformed", stamp)
        headers = _headers(event.headers)
        if isinstance(event, h2.events.InformationalResponseReceived):
            return Informational(stream=number, status=int(status), headers=headers, stamp=stamp)
        self._patience = max(self._patience, MAX_IDLE_FRAMES)
        self._streams[number].reading = True
        return Head(
            stream=number,
            status=int(status),
            reason="",
            version="2",
            headers=headers,
            framing="none" if event.stream_ended else "h2-data",
            stamp=stamp,
        )

    def _on_data(self, event: h2.events.DataReceived, stamp: Stamp) -> list[HttpEvent]:
        number, size = event.stream_id, event.flow_controlled_length
        stream = self._streams[number]
        data, start = bytes(event.data[stream.shown :]), not stream.shown
        stream.shown = 0
        events: list[HttpEvent] = []
        if data:
            events.append(self._data(number, data, stamp, start, True, size))
        if size:
            before = self._receive_windows(number)
            self._h2.acknowledge_received_data(size, number)
            after = self._receive_windows(number)
            events += [
                _window_update("sent", key, after[key] - before[key], stamp)
                for key in before
                if key in after and after[key] > before[key]
            ]
        return events

    def _data(
        self, number: int, data: bytes, stamp: Stamp, start: bool, end: bool, size: int
    ) -> Data:
        self._patience = max(self._patience, MAX_IDLE_FRAMES)
        return Data(
            stream=number,
            data=data,
            stamp=stamp,
            frame_start=start,
            frame_end=end,
            frame_size=size,
        )

    def _on_reset(self, event: h2.events.StreamReset, stamp: Stamp) -> list[HttpEvent]:
        number, code = event.stream_id, int(event.error_code)
        stream = self._streams[number]
        done, stream.sending = stream.done, False
        self._finish(number)
        if event.remote_reset:
            return [Reset(stream=number, code=code, stamp=stamp)]
        if done:
            return []  # frames behind the end of a stream: hyper-h2 answered them
        what = f"a frame the stream forbids (error {code})"
        return [Broken(stream=number, what=what, code="protocol-error", stamp=stamp)]

    def _on_goaway(self, payload: bytes, stamp: Stamp) -> list[HttpEvent]:
        """hyper-h2 would refuse every later frame, yet streams up to `last_stream` go on to their
        end (RFC 9113, section 6.8); those beyond it were not taken and never will be."""
        self._leaving = True
        last, code, debug = read_goaway(payload)
        events: list[HttpEvent] = [Goaway(code=code, last_stream=last, stamp=stamp, debug=debug)]
        for number, stream in self._streams.items():
            if number > last and not stream.done:
                self._finish(number)
                stream.sending = False
                what = "the peer left (GOAWAY) before it took this request"
                events.append(Broken(stream=number, what=what, code="protocol-error", stamp=stamp))
        return events

    def _finish(self, number: int) -> None:
        stream = self._streams[number]
        stream.reading, stream.done, stream.shown = False, True, 0

    def _receive_windows(self, number: int) -> dict[int, int]:
        windows = {0: self._h2.inbound_flow_control_window}
        with suppress(h2.exceptions.ProtocolError):  # the stream ended with this frame
            windows[number] = self._h2.remote_flow_control_window(number)
        return windows

    def _ended_stalls(self, stamp: Stamp) -> list[HttpEvent]:
        events: list[HttpEvent] = []
        for number, stream in self._streams.items():
            if stream.stalled is None or self._waits(number, stream):
                continue
            detail = {"state": "end", "scope": stream.stalled}
            events.append(
                Control(name=MARK_WINDOW_STALL, stamp=stamp, detail=detail, stream=number)
            )
            stream.stalled = None
        return events

    def _waits(self, number: int, stream: _Stream) -> bool:
        if self._closed or not stream.sending:
            return False
        return self._h2.local_flow_control_window(number) <= 0

    def _broken(self, what: str, code: str, stamp: Stamp) -> Broken:
        """The connection is over, and so is every stream on it."""
        self._closed = True
        return Broken(stream=None, what=redact_text(what, limit=200), code=code, stamp=stamp)


def _ping_data(number: int) -> bytes:
    """The eight octets of a PING: its number tells its answer from a late one."""
    return number.to_bytes(8, "big")


def _headers(pairs: Iterable[tuple[bytes, bytes]]) -> Headers:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in pairs
        if not name.startswith(b":")
    )


def _window_update(direction: str, stream: int, increment: int, stamp: Stamp) -> Control:
    detail: dict[str, Json] = {"direction": direction, "stream": stream, "increment": increment}
    return Control(name=MARK_WINDOW_UPDATE, stamp=stamp, detail=detail, stream=stream or None)
