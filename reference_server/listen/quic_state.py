"""aioquic's two state machines as our server needs them.

Everything that reaches into what aioquic keeps private is in this file, and each reach has a test
that fails when aioquic changes: the number of streams (it grants 128), flow control that follows
the application (aioquic opens a window as data arrives, so an upload that nobody reads would fill
the memory), what can be written now, reset tokens that outlive a connection, GOAWAY.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable

from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import FrameType, H3Connection, Setting, encode_frame
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    END_STATES,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    Limit,
    NetworkAddress,
    QuicConnection,
    QuicConnectionState,
)
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from aioquic.tls import Context, SessionTicketFetcher, SessionTicketHandler

RESET_TOKEN_BYTES = 16
"""RFC 9000 section 10.3."""
_UNIDIRECTIONAL = 2
"""The bit of a stream's id (RFC 9000 section 2.1)."""
_FRAME_HEADER = 19
"""Bytes of a STREAM frame's header at most (RFC 9000 section 19.8: type, 8, 8, 2): with less room
a frame would hold next to nothing."""
_CONNECTION_WINDOWS = 4
"""Windows of one stream that all streams of a connection share, as our HTTP/2 has it. A choice."""


def reset_token(key: bytes, connection_id: bytes) -> bytes:
    """The stateless reset token of a connection ID, the same ever after (RFC 9000 10.3.2)."""
    return hmac.digest(key, connection_id, "sha256")[:RESET_TOKEN_BYTES]


class _Window(Limit):
    """A data limit that grows as the application reads, whatever aioquic wants to make of it."""

    def __init__(self, of: Limit, window: int) -> None:
        self._window = window
        self._read = 0
        super().__init__(of.frame_type, of.name, window)

    @property
    def value(self) -> int:
        """The limit to announce; it moves in quarters of the window, so that frames stay few."""
        step = self._window // 4 or 1
        return self._window + self._read // step * step

    @value.setter
    def value(self, wanted: int) -> None:
        pass

    def read(self, size: int) -> None:
        """The application took `size` bytes."""
        self._read += size


class _Streams(dict[int, QuicStream]):
    """All streams; `values`, which aioquic walks through for each packet to open windows, gives
    only those whose window is to be opened."""

    def __init__(self) -> None:
        super().__init__()
        self.due: dict[QuicStream, None] = {}

    def values(self) -> list[QuicStream]:  # type: ignore[override]
        return list(self.due)


def _needs_service(stream: QuicStream) -> bool:
    sender, receiver = stream.sender, stream.receiver
    return (
        not sender.buffer_is_empty
        or sender.reset_pending
        or receiver.stop_pending
        or (sender.is_finished and receiver.is_finished)
    )


class ServerQuic(QuicConnection):
    """One connection of a server.

    aioquic walks through every stream for every packet; with 200 streams that was 40 % of the
    server's time (measured with benchmarks.h3). Here its queue holds only the streams that have
    something to send: those written to since, and after each datagram heard those that it woke.
    """

    def __init__(
        self,
        configuration: QuicConfiguration,
        original_id: bytes,
        retry_id: bytes | None,
        *,
        streams: int,
        reset_key: bytes,
        tickets: tuple[SessionTicketFetcher, SessionTicketHandler] | None,
        prepare_tls: Callable[[Context], None] | None = None,
    ) -> None:
        """`streams` requests may run at once; `retry_id` is the one that our Retry had given;
        `prepare_tls` is called with the handshake's state before it begins."""
        super().__init__(
            configuration=configuration,
            original_destination_connection_id=original_id,
            retry_source_connection_id=retry_id,
            session_ticket_fetcher=tickets[0] if tickets else None,
            session_ticket_handler=tickets[1] if tickets else None,
        )
        self._reset_key = reset_key
        self._prepare_tls = prepare_tls
        self._window = configuration.max_stream_data
        self._read: dict[int, int] = {}
        self._all = self._streams = _Streams()
        self._written: dict[QuicStream, None] = {}
        self._heard = True
        self._local_max_streams_bidi.value = self._local_max_streams_bidi.sent = streams
        self._local_max_data = _Window(self._local_max_data, _CONNECTION_WINDOWS * self._window)
        self._name_reset_tokens()

    @property
    def begun(self) -> bool:
        """The client's first packet could be read."""
        return self._state is not QuicConnectionState.FIRSTFLIGHT

    @property
    def over(self) -> bool:
        """Closed, or closing: nothing more is sent and nothing more comes."""
        return self._close_pending or self._state in END_STATES

    @property
    def settled(self) -> bool:
        """The client has acknowledged every answer that was ended or reset."""
        return all(
            stream.sender.is_finished or stream_id & _UNIDIRECTIONAL
            for stream_id, stream in self._streams.items()
        )

    def room(self, stream_id: int) -> int:
        """How many bytes could leave now if written: 0 while earlier ones still wait, for whatever
        reason, or one of the client's windows is closed."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.sender.next_offset != stream.sender._buffer_stop:
            return 0
        of_stream = stream.max_stream_data_remote - stream.sender.highest_offset
        return max(0, min(of_stream, self._remote_max_data - self._remote_max_data_used))

    def writable(self, stream_id: int) -> bool:
        """The stream stands and may be written to: neither ended nor reset by either side."""
        stream = self._streams.get(stream_id)
        if stream is None:
            return False
        sender = stream.sender
        return sender._buffer_fin is None and sender._reset_error_code is None

    def read(self, stream_id: int, size: int) -> None:
        """The application took `size` bytes of a stream: the client may send as many more."""
        assert isinstance(self._local_max_data, _Window)
        self._local_max_data.read(size)
        stream = self._streams.get(stream_id)
        if stream is None or stream.receiver.is_finished:
            self._read.pop(stream_id, None)
            return
        taken = self._read[stream_id] = self._read.get(stream_id, 0) + size
        wanted = taken + self._window
        if wanted - stream.max_stream_data_local >= self._window // 4:
            stream.max_stream_data_local = wanted
            self._all.due[stream] = None

    def forget(self, stream_id: int) -> None:
        """Nobody reads this stream any more."""
        self._read.pop(stream_id, None)

    def receive_datagram(self, data: bytes, addr: NetworkAddress, now: float) -> None:
        """As aioquic's."""
        self._heard = True
        super().receive_datagram(data, addr, now)

    def handle_timer(self, now: float) -> None:
        """As aioquic's."""
        self._heard = True
        super().handle_timer(now)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, NetworkAddress]]:
        """As aioquic's."""
        if self._heard:
            self._written |= {s: None for _, s in self._all.items() if _needs_service(s)}
            self._heard = False
        self._streams_queue = list(dict.fromkeys([*self._streams_queue, *self._written]))
        self._written.clear()
        datagrams = super().datagrams_to_send(now)
        self._streams_queue = [each for each in self._streams_queue if _needs_service(each)]
        return datagrams

    def send_stream_data(self, stream_id: int, data: bytes, end_stream: bool = False) -> None:
        """As aioquic's."""
        super().send_stream_data(stream_id, data, end_stream)
        self._written[self._all[stream_id]] = None

    def reset_stream(self, stream_id: int, error_code: int) -> None:
        """As aioquic's."""
        super().reset_stream(stream_id, error_code)
        if stream_id in self._all:
            self._written[self._all[stream_id]] = None

    def stop_stream(self, stream_id: int, error_code: int) -> None:
        """As aioquic's, but a stream that is over is left alone."""
        if stream_id in self._all:
            super().stop_stream(stream_id, error_code)
            self._written[self._all[stream_id]] = None

    def _write_stream_frame(
        self,
        builder: QuicPacketBuilder,
        space: QuicPacketSpace,
        stream: QuicStream,
        max_offset: int,
    ) -> int:
        # What aioquic would find out with ten calls; a full packet is offered to every stream.
        sender = stream.sender
        if not len(sender._pending) and not sender._pending_eof:
            sender.buffer_is_empty = True
            return 0
        if builder.remaining_flight_space < _FRAME_HEADER:
            return 0
        return super()._write_stream_frame(builder, space, stream, max_offset)

    def _on_max_stream_data_delivery(self, delivery: QuicDeliveryState, stream: QuicStream) -> None:
        super()._on_max_stream_data_delivery(delivery, stream)
        if stream.max_stream_data_local_sent != stream.max_stream_data_local:
            self._all.due[stream] = None

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        if self._prepare_tls is not None:
            self._prepare_tls(self.tls)

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        if stream.receiver.is_finished:
            self._all.due.pop(stream, None)
            return
        frame = builder.start_frame(
            QuicFrameType.MAX_STREAM_DATA,
            capacity=MAX_STREAM_DATA_FRAME_CAPACITY,
            handler=self._on_max_stream_data_delivery,
            handler_args=(stream,),
        )
        assert stream.stream_id is not None
        frame.push_uint_var(stream.stream_id)
        frame.push_uint_var(stream.max_stream_data_local)
        stream.max_stream_data_local_sent = stream.max_stream_data_local
        self._all.due.pop(stream, None)

    def _replenish_connection_ids(self) -> None:
        super()._replenish_connection_ids()
        self._name_reset_tokens()

    def _name_reset_tokens(self) -> None:
        for each in self._host_cids:
            each.stateless_reset_token = reset_token(self._reset_key, each.cid)


class ServerH3(H3Connection):
    """HTTP/3 on such a connection, without a dynamic table for the client.

    With one (4,096 bytes) a request head of 32 KiB could name an entry 16,000 times and grow to
    64 MB; the static table's longest entry is some 70 bytes (RFC 9204 appendix A).
    """

    def __init__(self, quic: ServerQuic, max_head_bytes: int) -> None:
        """Queues SETTINGS on the connection."""
        self._max_head_bytes = max_head_bytes
        super().__init__(quic)

    def buffered(self, stream_id: int) -> int:
        """Bytes of a frame that is not complete yet."""
        stream = self._stream.get(stream_id)
        return 0 if stream is None else len(stream.buffer)

    def goaway(self, stream_id: int) -> None:
        """Say that no request from `stream_id` on will be answered (RFC 9114 section 5.2)."""
        assert self._local_control_stream_id is not None
        frame = encode_frame(FrameType.GOAWAY, encode_uint_var(stream_id))
        self._quic.send_stream_data(self._local_control_stream_id, frame)

    def _init_connection(self) -> None:
        import pylsqpack

        self._max_table_capacity = self._blocked_streams = 0
        self._decoder = pylsqpack.Decoder(0, 0)
        super()._init_connection()

    def _get_local_settings(self) -> dict[int, int]:
        return {
            Setting.QPACK_MAX_TABLE_CAPACITY: 0,
            Setting.QPACK_BLOCKED_STREAMS: 0,
            Setting.MAX_FIELD_SECTION_SIZE: self._max_head_bytes,
            Setting.DUMMY: 1,  # reserved, so that clients learn to ignore (RFC 9114 7.2.4.1)
        }
