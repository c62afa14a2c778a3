"""A scripted HTTP/2 origin: frames when told, flow control by the book, faults on request.

script = [AwaitRequest(), Headers(200), Data(b"data: a\\n\\n"), Reset(ErrorCodes.CANCEL)]
with ScriptedH2Origin(script, tls=certs.good.server_context(alpn=("h2",))) as origin: ...
"""

from __future__ import annotations

import select
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

import h2.config
import h2.connection
import h2.events
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

from tests.peers.scripted import Close, Wait
from tests.peers.threaded import Connection, PeerClosedError, ThreadedServer

__all__ = ["ErrorCodes", "ScriptedH2Origin", "SettingCodes"]

HeaderList: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class AwaitRequest:
    """Go on when a whole request is here (its END_STREAM); further steps answer it."""


@dataclass(frozen=True, slots=True)
class AwaitHead:
    """Go on when a request's headers are here, its body or not."""


@dataclass(frozen=True, slots=True)
class Informational:
    """A 1xx head before the final one."""

    status: int = 103
    headers: HeaderList = ()


@dataclass(frozen=True, slots=True)
class Headers:
    """The response head."""

    status: int = 200
    headers: HeaderList = (("content-type", "text/event-stream"),)
    end: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """A DATA frame, cut only where the client's window or frame size asks for it."""

    data: bytes
    end: bool = False
    pad: int | None = None


@dataclass(frozen=True, slots=True)
class Trailers:
    """Trailers, which end the stream."""

    headers: HeaderList


@dataclass(frozen=True, slots=True)
class Reset:
    """RST_STREAM."""

    code: ErrorCodes = ErrorCodes.INTERNAL_ERROR


@dataclass(frozen=True, slots=True)
class Goaway:
    """GOAWAY; `last_stream` 0 says the request was not processed (RFC 9113 section 6.8)."""

    code: ErrorCodes = ErrorCodes.NO_ERROR
    last_stream: int | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """A SETTINGS frame in mid-connection."""

    values: Mapping[SettingCodes, int]


@dataclass(frozen=True, slots=True)
class Ping:
    """A PING frame."""


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes on the connection that no state machine checked."""

    data: bytes


H2Step: TypeAlias = (
    AwaitRequest
    | AwaitHead
    | Informational
    | Headers
    | Data
    | Trailers
    | Reset
    | Goaway
    | Settings
    | Ping
    | Raw
    | Wait
    | Close
)
"""One thing an HTTP/2 script does."""


@dataclass(slots=True)
class H2Request:
    """A request as this origin saw it."""

    stream_id: int
    headers: list[tuple[bytes, bytes]]
    body: bytearray = field(default_factory=bytearray)
    ended: bool = False


class ScriptedH2Origin(ThreadedServer):
    """Plays one script a connection. Without `tls` it speaks HTTP/2 with prior knowledge.

    `initial_settings` goes into the first SETTINGS frame (INITIAL_WINDOW_SIZE for a tiny upload
    window); with `grant_window=False` no WINDOW_UPDATE is ever sent.
    """

    def __init__(
        self,
        *scripts: Sequence[H2Step],
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        initial_settings: Mapping[SettingCodes, int] | None = None,
        grant_window: bool = True,
    ) -> None:
        super().__init__(self._play, host=host)
        self._scripts = scripts
        self._tls = tls
        self._settings = initial_settings or {}
        self._grant_window = grant_window
        self.requests: list[H2Request] = []
        """The requests of all connections, in order."""
        self.resets: list[int] = []
        """Error codes of the RST_STREAM frames the client sent."""
        self.pings_answered = 0

    def url(self, path: str = "/", *, host: str | None = None) -> str:
        """A URL on this origin; `host` is the name to put there (localhost, for a certificate)."""
        scheme = "http" if self._tls is None else "https"
        authority = self.authority if host is None else f"{host}:{self.port}"
        return f"{scheme}://{authority}{path}"

    def _play(self, connection: Connection) -> None:
        script = self._scripts[min(connection.index, len(self._scripts) - 1)]
        if self._tls is not None:
            connection.start_tls(self._tls)
        player = _Player(self, connection, self._settings, self._grant_window)
        for step in script:
            player.do(step)
            if isinstance(step, Close):
                return
        player.do(Close.FIN)


class _Player:
    """One connection's state: the h2 state machine and the requests seen on it."""

    def __init__(
        self,
        origin: ScriptedH2Origin,
        connection: Connection,
        settings: Mapping[SettingCodes, int],
        grant_window: bool,
    ) -> None:
        self._origin = origin
        self._connection = connection
        self._grant_window = grant_window
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding=None)
        )
        for code, value in settings.items():
            self._h2.local_settings[code] = value
        self._h2.initiate_connection()
        self._flush()
        self._requests: list[H2Request] = []
        self._current: H2Request | None = None
        self._taken = 0

    @property
    def _stream(self) -> int:
        if self._current is None:
            raise RuntimeError("script answers before AwaitRequest or AwaitHead")
        return self._current.stream_id

    def do(self, step: H2Step) -> None:
        """Play one step, then send what it made."""
        match step:
            case AwaitRequest():
                self._take(whole=True)
            case AwaitHead():
                self._take(whole=False)
            case Informational():
                self._send_head(step.status, step.headers, end=False)
            case Headers():
                self._send_head(step.status, step.headers, end=step.end)
            case Data():
                self._send_data(step)
            case Trailers():
                self._h2.send_headers(self._stream, step.headers, end_stream=True)
            case Reset():
                self._h2.reset_stream(self._stream, step.code)
            case Goaway():
                self._connection.send(self._goaway(step))
            case Settings():
                self._h2.update_settings({int(code): value for code, value in step.values.items()})
            case Ping():
                self._h2.ping(b"promptpt")
            case Raw():
                self._connection.send(step.data)
            case Wait():
                self._serve_for(step.ms / 1000)
            case Close():
                self._close(step)
                return
            case _:
                assert_never(step)
        self._flush()

    def _goaway(self, step: Goaway) -> bytes:
        """Not through h2, which takes its own GOAWAY for the end: a server may finish the streams
        it has begun (RFC 9113 section 6.8)."""
        begun = max((request.stream_id for request in self._requests), default=0)
        last = begun if step.last_stream is None else step.last_stream
        return GoAwayFrame(0, last_stream_id=last, error_code=int(step.code)).serialize()

    def _send_head(self, status: int, headers: HeaderList, *, end: bool) -> None:
        self._h2.send_headers(self._stream, ((":status", str(status)), *headers), end_stream=end)

    def _send_data(self, step: Data) -> None:
        rest = step.data
        overhead = 0 if step.pad is None else step.pad + 1
        while rest:
            room = min(
                self._h2.local_flow_control_window(self._stream), self._h2.max_outbound_frame_size
            )
            if room <= overhead:
                self._receive()
                continue
            part, rest = rest[: room - overhead], rest[room - overhead :]
            self._h2.send_data(self._stream, part, pad_length=step.pad)
            self._flush()
        if step.end:
            self._h2.end_stream(self._stream)

    def _take(self, *, whole: bool) -> None:
        while len(self._requests) <= self._taken or (
            whole and not self._requests[self._taken].ended
        ):
            self._receive()
        self._current = self._requests[self._taken]
        self._taken += 1

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data:
            self._connection.send(data)

    def _receive(self) -> None:
        for event in self._h2.receive_data(self._connection.recv()):
            self._handle(event)
        self._flush()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                pairs = [(bytes(name), bytes(value)) for name, value in event.headers or ()]
                request = H2Request(int(event.stream_id or 0), pairs)
                self._requests.append(request)
                self._origin.requests.append(request)
            case h2.events.DataReceived():
                self._find(event.stream_id).body.extend(event.data or b"")
                if self._grant_window and event.flow_controlled_length:
                    self._h2.acknowledge_received_data(
                        event.flow_controlled_length, int(event.stream_id or 0)
                    )
            case h2.events.StreamEnded():
                self._find(event.stream_id).ended = True
            case h2.events.StreamReset():
                self._origin.resets.append(int(event.error_code or 0))
            case h2.events.PingAckReceived():
                self._origin.pings_answered += 1
            case _:
                pass

    def _find(self, stream_id: int | None) -> H2Request:
        return next(r for r in self._requests if r.stream_id == stream_id)

    def _serve_for(self, seconds: float) -> None:
        """Let time pass and go on reading meanwhile, so that ACKs and pings are answered."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            sock = self._connection.sock
            buffered = isinstance(sock, ssl.SSLSocket) and sock.pending()
            if buffered or select.select([sock], [], [], left)[0]:
                self._receive()

    def _close(self, how: Close) -> None:
        if how is Close.RST:
            self._connection.reset()
            return
        if how is not Close.HOLD:
            self._connection.finish(close_notify=how is Close.FIN)
        try:
            while how is Close.HOLD:
                self._receive()
        except PeerClosedError:
            return
        self._connection.wait_closed()
