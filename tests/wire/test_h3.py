"""HTTP/3's client against aioquic's own server, both without sockets, and GOAWAY in any cut."""

from __future__ import annotations

from typing import Any

import pytest
from aioquic.buffer import encode_uint_var
from aioquic.h3.connection import H3Connection as AioH3
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from hypothesis import given
from hypothesis import strategies as st

from promptpath.errors import MeasureError
from promptpath.model.stamp import user_stamp
from promptpath.wire.h3 import MAX_CONTROL_BYTES, ControlStream, H3Connection
from promptpath.wire.http import Broken, Control, Data, End, Head, HttpRequest, Reset, Trailers
from promptpath.wire.quic import QuicSettings
from tests.peers.certs import Certificates

RTT_NS = 40_000_000
CLIENT = ("client", 1)


class Pair:
    """Our client and a server over a path of 40 ms that loses nothing; time is handed in."""

    def __init__(self, certs: Certificates) -> None:
        self.client = H3Connection(QuicSettings(server_name="localhost"))
        configuration = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
        configuration.load_cert_chain(str(certs.good.chain), str(certs.good.key))
        self._configuration = configuration
        self._server: QuicConnection | None = None
        self._h3: AioH3 | None = None
        self.now_ns = 0
        self.events: list[Any] = []
        self.client.quic.connect(0)

    @property
    def server(self) -> QuicConnection:
        assert self._server is not None
        return self._server

    @property
    def h3(self) -> AioH3:
        assert self._h3 is not None
        return self._h3

    def turn(self) -> None:
        """What each has to say reaches the other, half a round trip later each."""
        upward = self.client.quic.datagrams(self.now_ns)
        self.now_ns += RTT_NS // 2
        for datagram in upward:
            self._to_server(datagram)
        downward = self.server.datagrams_to_send(self.now_ns / 1e9)
        self.now_ns += RTT_NS // 2
        for data, _ in downward:
            self.take(data)

    def take(self, data: bytes) -> None:
        """A datagram for the client."""
        stamp = user_stamp(self.now_ns)
        self.client.take_datagram(data, stamp)
        self.events += self.client.receive(b"", stamp)

    def _to_server(self, datagram: bytes) -> None:
        if self._server is None:
            self._server = QuicConnection(
                configuration=self._configuration,
                original_destination_connection_id=(
                    self.client.quic.quic.original_destination_connection_id
                ),
            )
            self._h3 = AioH3(self._server)
        self._server.receive_datagram(datagram, CLIENT, self.now_ns / 1e9)
        while (event := self._server.next_event()) is not None:
            self.h3.handle_event(event)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def pair(certs: Certificates) -> Pair:
    made = Pair(certs)
    made.turn()
    made.turn()
    assert made.client.quic.handshake is not None
    return made


def asked(body: bytes = b"") -> HttpRequest:
    return HttpRequest(
        method="POST" if body else "GET",
        scheme="https",
        authority="localhost",
        target="/",
        headers=(("accept", "*/*"),),
        body=body,
    )


def test_a_response_with_its_frames_and_trailers(pair: Pair) -> None:
    stream = pair.client.request(asked(b"{}"))
    pair.turn()
    pair.h3.send_headers(stream, [(b":status", b"200"), (b"x", b"1")])
    pair.h3.send_data(stream, b"one", end_stream=False)
    pair.h3.send_data(stream, b"three", end_stream=False)
    pair.h3.send_headers(stream, [(b"end", b"yes")], end_stream=True)
    pair.turn()
    (head,) = pair.of(Head)
    assert (head.status, head.version, head.framing) == (200, "3", "h3-data")
    assert head.headers == (("x", "1"),)
    sizes = [
        (each.data, each.frame_start, each.frame_end, each.frame_size) for each in pair.of(Data)
    ]
    assert sizes == [(b"one", True, True, 3), (b"three", True, True, 5)]
    assert [each.headers for each in pair.of(Trailers)] == [(("end", "yes"),)]
    assert len(pair.of(End)) == 1 and not pair.of(Broken)


def test_a_frame_longer_than_a_datagram_comes_in_parts(pair: Pair) -> None:
    stream = pair.client.request(asked())
    pair.turn()
    pair.h3.send_headers(stream, [(b":status", b"200")])
    pair.h3.send_data(stream, b"x" * 5000, end_stream=True)
    for _ in range(4):
        pair.turn()
    parts = pair.of(Data)
    assert len(parts) > 1 and b"".join(part.data for part in parts) == b"x" * 5000
    assert [part.frame_start for part in parts] == [True] + [False] * (len(parts) - 1)
    assert [part.frame_end for part in parts] == [False] * (len(parts) - 1) + [True]
    assert {part.frame_size for part in parts} == {5000}


def test_the_round_trip_is_the_paths(pair: Pair) -> None:
    rtt = pair.client.quic.log.rtt
    assert rtt.samples >= 1 and rtt.min_ns == RTT_NS


def test_a_reset_is_told_with_its_code(pair: Pair) -> None:
    stream = pair.client.request(asked())
    pair.turn()
    pair.h3.send_headers(stream, [(b":status", b"200")])
    pair.server.reset_stream(stream, 0x102)
    pair.turn()
    (reset,) = pair.of(Reset)
    assert (reset.stream, reset.code) == (stream, 0x102)


def test_settings_are_told_once(pair: Pair) -> None:
    pair.turn()
    assert len([each for each in pair.of(Control) if each.name == "settings"]) == 1


def test_a_close_is_told_at_once_with_its_reason(pair: Pair) -> None:
    stream = pair.client.request(asked())
    pair.turn()
    pair.server.close(0x105, None, "too \x1b[31m much")
    pair.turn()
    closed = pair.client.quic.closed
    assert closed is not None and closed.by_peer and closed.application
    assert closed.code == 0x105 and "\x1b" not in closed.reason
    assert not pair.client.reusable()
    ends = pair.client.receive_eof(user_stamp(pair.now_ns))
    assert [(end.stream, end.code) for end in ends if isinstance(end, Broken)] == [(stream, "eof")]


def test_connection_headers_are_left_out_and_broken_ones_refused(pair: Pair) -> None:
    with pytest.raises(MeasureError):
        pair.client.request(
            HttpRequest(
                method="GET", scheme="https", authority="a", target="/", headers=(("a b", "c"),)
            )
        )


@given(junk=st.binary(max_size=1500))
def test_no_datagram_raises(certs: Certificates, junk: bytes) -> None:
    pair = Pair(certs)
    pair.take(junk)
    assert pair.client.quic.closed is None or not pair.client.quic.closed.by_peer


def frames(*pairs: tuple[int, bytes]) -> bytes:
    """A control stream's type and frames."""
    return encode_uint_var(0) + b"".join(
        encode_uint_var(kind) + encode_uint_var(len(data)) + data for kind, data in pairs
    )


STREAM = 3
CONTROL = frames((4, b"\x01\x00"), (0x21, b"x" * 300), (7, encode_uint_var(70_000)), (7, b"\x04"))


@given(cuts=st.lists(st.integers(0, len(CONTROL)), max_size=8))
def test_goaway_in_any_cut(cuts: list[int]) -> None:
    control, found, at = ControlStream(), [], 0
    for cut in [*sorted(cuts), len(CONTROL)]:
        found += control.feed(STREAM, CONTROL[at:cut])
        at = cut
    assert found == [70_000, 4]


def test_goaway_byte_by_byte() -> None:
    control = ControlStream()
    found = [
        each for at in range(len(CONTROL)) for each in control.feed(STREAM, CONTROL[at : at + 1])
    ]
    assert found == [70_000, 4]


@given(data=st.binary(max_size=400))
def test_any_bytes_on_the_control_stream_are_bounded(data: bytes) -> None:
    control = ControlStream()
    for _ in range(40):
        control.feed(STREAM, data)
    assert sum(map(len, control._opened.values())) <= MAX_CONTROL_BYTES + 400


def test_requests_and_other_streams_are_not_looked_at() -> None:
    control = ControlStream()
    assert control.feed(0, CONTROL) == [] and control.feed(7, b"\x02" + CONTROL) == []
    assert control.feed(STREAM, CONTROL) == [70_000, 4]
