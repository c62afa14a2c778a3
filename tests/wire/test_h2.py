from __future__ import annotations

import dataclasses
import struct

import h2.config
import h2.connection
import h2.events
import pytest
from h2.settings import SettingCodes, Settings
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)
from hypothesis import given
from hypothesis import strategies as st

from promptpath.errors import MeasureError
from promptpath.model.names import MARK_SETTINGS, MARK_WINDOW_STALL, MARK_WINDOW_UPDATE
from promptpath.wire.h2 import MAX_IDLE_FRAMES, WINDOW_BYTES, H2Connection
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
from tests.wire.feeding import at, cut_lists, feed, feed_bytewise

SSE = [(":status", "200"), ("content-type", "text/event-stream")]


def ask(body: bytes = b"", method: str = "GET", **headers: str) -> HttpRequest:
    return HttpRequest(
        method=method,
        scheme="https",
        authority="api.example",
        target="/v1/chat",
        headers=tuple(headers.items()),
        body=body,
    )


class Pair:
    """Our client against hyper-h2's server, bytes carried by hand."""

    def __init__(self, body: bytes = b"", **settings: int) -> None:
        self.client = H2Connection()
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        if settings:
            values = {SettingCodes[name.upper()]: value for name, value in settings.items()}
            self.server.local_settings = Settings(client=False, initial_values=values)
        self.server.initiate_connection()
        self.seen: list[h2.events.Event] = []
        self.stream = self.client.request(ask(body, method="POST" if body else "GET"))
        self.up()
        self.events = self.down()
        self.up()

    def up(self) -> list[h2.events.Event]:
        new = self.server.receive_data(self.client.data_to_send())
        self.seen += new
        return new

    def down(self, ns: int = 1) -> list[HttpEvent]:
        return self.client.receive(self.server.data_to_send(), at(ns))

    def head(self) -> None:
        self.server.send_headers(self.stream, SSE)


def raw(frame: Frame) -> bytes:
    return frame.serialize()


def kinds(events: list[HttpEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def only_broken(events: list[HttpEvent]) -> Broken:
    (event,) = (event for event in events if isinstance(event, Broken))
    assert event.what.isprintable()
    return event


def controls(events: list[HttpEvent], name: str) -> list[Control]:
    return [event for event in events if isinstance(event, Control) and event.name == name]


def data_of(events: list[HttpEvent]) -> list[Data]:
    return [event for event in events if isinstance(event, Data)]


def test_the_first_flight_holds_preface_settings_and_wide_windows() -> None:
    pair = Pair()
    (settings,) = (e for e in pair.seen if isinstance(e, h2.events.RemoteSettingsChanged))
    changed = {int(code): change.new_value for code, change in settings.changed_settings.items()}
    assert changed[SettingCodes.INITIAL_WINDOW_SIZE] == WINDOW_BYTES
    assert changed[SettingCodes.ENABLE_PUSH] == 0
    assert pair.server.outbound_flow_control_window == WINDOW_BYTES


def test_a_request_has_its_pseudo_headers_and_its_length() -> None:
    pair = Pair(b"{}")
    (request,) = (e for e in pair.seen if isinstance(e, h2.events.RequestReceived))
    assert request.headers[:4] == [
        (b":method", b"POST"),
        (b":authority", b"api.example"),
        (b":scheme", b"https"),
        (b":path", b"/v1/chat"),
    ]
    assert (b"content-length", b"2") in request.headers
    assert pair.client.request_sent(pair.stream)


def test_a_request_is_sent_when_its_last_byte_was_handed_out() -> None:
    client = H2Connection()
    stream = client.request(ask())
    assert not client.request_sent(stream)
    client.data_to_send()
    assert client.request_sent(stream)
    assert not client.request_sent(99)


def test_the_peer_s_settings_are_told_whole_with_their_defaults() -> None:
    pair = Pair(max_concurrent_streams=7, max_frame_size=32_768)
    (told,) = controls(pair.events, MARK_SETTINGS)
    assert told.detail["max_concurrent_streams"] == 7
    assert told.detail["max_frame_size"] == 32_768
    assert told.detail["initial_window_size"] == 65_535
    assert told.detail["max_header_list_size"] is None


def test_unknown_settings_are_named_by_number_and_bounded() -> None:
    client = H2Connection()
    payload = b"".join(struct.pack(">HL", 0x1000 + n, n) for n in range(1000))
    frame = len(payload).to_bytes(3, "big") + b"\x04\0\0\0\0\0" + payload
    (told,) = controls(client.receive(frame, at(1)), MARK_SETTINGS)
    assert told.detail["0x1001"] == 1
    assert len(told.detail) == 32


def test_a_streamed_response_keeps_its_frames_hints_and_trailers() -> None:
    pair = Pair()
    pair.server.send_headers(pair.stream, [(":status", "103"), ("link", "</a>")])
    pair.head()
    pair.server.send_data(pair.stream, b"data: 1\n\n")
    pair.server.send_data(pair.stream, b"data: 2\n\n", pad_length=7)
    pair.server.send_headers(pair.stream, [("x-sum", "9")], end_stream=True)
    hint, head, one, two, trailers, end = pair.down(5)
    assert isinstance(hint, Informational) and hint.headers == (("link", "</a>"),)
    assert isinstance(head, Head)
    assert (head.status, head.version, head.framing) == (200, "2", "h2-data")
    assert head.headers == (("content-type", "text/event-stream"),)
    assert isinstance(one, Data) and isinstance(two, Data)
    assert (one.data, one.frame_start, one.frame_end, one.frame_size) == (
        b"data: 1\n\n", True, True, 9,
    )  # fmt: skip
    assert (two.data, two.frame_size) == (b"data: 2\n\n", 9 + 8)
    assert isinstance(trailers, Trailers) and trailers.headers == (("x-sum", "9"),)
    assert isinstance(end, End) and end.stamp == at(5)
    assert pair.client.reusable()


def test_a_data_frame_comes_out_as_it_arrives() -> None:
    pair = Pair()
    pair.head()
    pair.down()
    pair.server.send_data(pair.stream, b"data: 1\n\ndata: 2\n\n")
    frame = pair.server.data_to_send()
    first, second = feed(pair.client.receive, frame, [9 + 9])
    assert isinstance(first, Data) and isinstance(second, Data)
    assert (first.data, first.frame_start, first.frame_end) == (b"data: 1\n\n", True, False)
    assert (second.data, second.frame_start, second.frame_end) == (b"data: 2\n\n", False, True)
    assert (first.frame_size, second.frame_size) == (18, 18)
    assert (first.stamp, second.stamp) == (at(1), at(2))


def test_a_padded_frame_waits_for_its_padding_and_shows_none_of_it() -> None:
    pair = Pair()
    pair.head()
    pair.down()
    pair.server.send_data(pair.stream, b"abc", pad_length=5)
    (data,) = data_of(feed_bytewise(pair.client.receive, pair.server.data_to_send()))
    assert (data.data, data.frame_size) == (b"abc", 9)


def test_an_empty_data_frame_only_ends_the_stream() -> None:
    pair = Pair()
    pair.head()
    pair.server.send_data(pair.stream, b"", end_stream=True)
    assert kinds(pair.down()) == ["Head", "End"]


def test_a_response_without_a_body_has_no_framing() -> None:
    pair = Pair()
    pair.server.send_headers(pair.stream, [(":status", "204")], end_stream=True)
    head, end = pair.down()
    assert isinstance(head, Head) and head.framing == "none"
    assert isinstance(end, End)


def test_a_connection_carries_one_request_after_the_other() -> None:
    pair = Pair()
    pair.server.send_headers(pair.stream, SSE, end_stream=True)
    pair.down()
    second = pair.client.request(ask())
    assert second == pair.stream + 2
    pair.up()
    pair.server.send_headers(second, SSE, end_stream=True)
    events = pair.down()
    assert [e.stream for e in events if isinstance(e, Head | End)] == [second, second]


def test_a_long_answer_never_runs_out_of_window() -> None:
    pair = Pair()
    pair.head()
    sent, updates = 0, 0
    while sent < 3 * WINDOW_BYTES:
        room = pair.server.local_flow_control_window(pair.stream)
        assert room >= WINDOW_BYTES // 2
        for _ in range(64):
            pair.server.send_data(pair.stream, bytes(16_384))
            sent += 16_384
        events = pair.down()
        updates += len(controls(events, MARK_WINDOW_UPDATE))
        pair.up()
    assert updates >= 4  # for the stream and for the connection, told as sent


def test_an_upload_stalls_at_the_peer_s_window_and_goes_on_when_it_opens() -> None:
    body = bytes(range(256)) * 600  # 153,600 bytes; both windows start at 65,535
    pair = Pair(body)
    assert pair.client.stalled(pair.stream) == "connection"
    assert not pair.client.request_sent(pair.stream)
    got = b"".join(e.data for e in pair.seen if isinstance(e, h2.events.DataReceived))
    assert got == body[:65_535]

    pair.server.increment_flow_control_window(200_000)
    events = pair.down(7)
    (update,) = controls(events, MARK_WINDOW_UPDATE)
    assert update.detail == {"direction": "received", "stream": 0, "increment": 200_000}
    assert controls(events, MARK_WINDOW_STALL) == []  # the stream's window is shut still
    pair.up()
    assert pair.client.stalled(pair.stream) == "stream"

    pair.server.increment_flow_control_window(200_000, pair.stream)
    (end,) = controls(pair.down(8), MARK_WINDOW_STALL)
    assert (end.detail, end.stamp) == ({"state": "end", "scope": "stream"}, at(8))
    pair.up()
    assert pair.client.stalled(pair.stream) is None
    assert pair.client.request_sent(pair.stream)
    assert b"".join(e.data for e in pair.seen if isinstance(e, h2.events.DataReceived)) == body


def test_a_stream_refused_in_mid_upload_is_never_sent() -> None:
    pair = Pair(bytes(200_000))
    pair.server.reset_stream(pair.stream, 11)
    reset, stall = pair.down()
    assert isinstance(reset, Reset) and reset.code == 11
    assert isinstance(stall, Control) and stall.detail["state"] == "end"
    pair.up()
    assert not pair.client.request_sent(pair.stream)
    assert pair.client.receive_eof(at(9)) == []


def test_a_goaway_lets_the_streams_it_names_finish() -> None:
    pair = Pair()
    pair.head()
    pair.down()
    goaway = GoAwayFrame(0, last_stream_id=1, error_code=0, additional_data=b"bye\x1b[2J")
    (told,) = pair.client.receive(raw(goaway), at(3))
    assert isinstance(told, Goaway)
    assert (told.code, told.last_stream) == (0, 1)
    assert told.debug.startswith("bye") and told.debug.isprintable()
    assert not pair.client.reusable()
    with pytest.raises(MeasureError):
        pair.client.request(ask())
    pair.server.send_data(pair.stream, b"data: last\n\n", end_stream=True)
    assert kinds(pair.down()) == ["Data", "End"]


def test_a_goaway_that_leaves_our_stream_out_ends_it() -> None:
    pair = Pair()
    goaway = GoAwayFrame(0, last_stream_id=0, error_code=7)
    told, broken = pair.client.receive(raw(goaway), at(3))
    assert isinstance(told, Goaway) and told.code == 7
    assert isinstance(broken, Broken) and broken.stream == pair.stream
    assert pair.client.receive_eof(at(4)) == []


def test_frames_behind_the_end_of_a_stream_do_not_break_it() -> None:
    pair = Pair()
    pair.server.send_headers(pair.stream, SSE, end_stream=True)
    assert kinds(pair.down()) == ["Head", "End"]
    assert pair.client.receive(raw(DataFrame(pair.stream, data=b"late")), at(4)) == []
    assert pair.client.reusable()


def test_a_reset_carries_its_code() -> None:
    pair = Pair()
    pair.head()
    pair.server.reset_stream(pair.stream, 2)
    head, reset = pair.down()
    assert isinstance(head, Head)
    assert isinstance(reset, Reset) and (reset.code, reset.stream) == (2, pair.stream)


def test_a_close_within_a_stream_is_told_and_between_streams_is_nothing() -> None:
    pair = Pair()
    pair.head()
    pair.down()
    broken = only_broken(pair.client.receive_eof(at(9)))
    assert (broken.code, broken.stream, broken.stamp) == ("eof", pair.stream, at(9))
    whole = Pair()
    whole.server.send_headers(whole.stream, SSE, end_stream=True)
    whole.down()
    assert whole.client.receive_eof(at(9)) == []
    assert not whole.client.reusable()


def test_a_ping_is_answered_and_priority_ignored() -> None:
    pair = Pair()
    ping, priority = PingFrame(0, opaque_data=b"12345678"), PriorityFrame(1, depends_on=3)
    assert pair.client.receive(raw(ping) + raw(priority), at(2)) == []
    (answer,) = pair.server.receive_data(pair.client.data_to_send())
    assert isinstance(answer, h2.events.PingAckReceived)


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP/1.x ('HTTP/1.1 400 Bad Request')"),
        (b"\x15\x03\x03\x00\x02\x02\x28\x00\x00", "a TLS alert"),
        (b"<html><body>", "a body without a head"),
        (raw(PingFrame(0, opaque_data=b"12345678")), "SETTINGS"),
    ],
)
def test_a_peer_that_does_not_speak_http2_is_named(start: bytes, says: str) -> None:
    client = H2Connection()
    client.request(ask())
    broken = only_broken(client.receive(start, at(1)))
    assert broken.code == "malformed"
    assert says in broken.what
    assert only_broken(feed_bytewise(H2Connection().receive, start)).code == "malformed"


def header_block(size: int) -> bytes:
    encoder = h2.connection.H2Connection().encoder
    pad = [(f"x-{n}", "v" * 1000) for n in range(size // 1000)]
    return bytes(encoder.encode([(":status", "200"), *pad], huffman=False))


def test_a_header_list_beyond_the_limit_is_too_large() -> None:
    pair, block = Pair(), header_block(100_000)
    frames = raw(HeadersFrame(1, data=block[:16_000]))
    rest = [block[at_ : at_ + 16_000] for at_ in range(16_000, len(block), 16_000)]
    for part in rest:
        last = ["END_HEADERS"] if part is rest[-1] else []
        frames += raw(ContinuationFrame(1, data=part, flags=last))
    assert only_broken(pair.client.receive(frames, at(2))).code == "too-large"


def test_continuations_that_never_end_are_a_protocol_error() -> None:
    pair = Pair()
    pair.client.receive(raw(HeadersFrame(1, data=b"")), at(2))
    events: list[HttpEvent] = []
    for _ in range(100):
        events += pair.client.receive(raw(ContinuationFrame(1, data=b"")), at(3))
    assert only_broken(events).code == "protocol-error"


@pytest.mark.parametrize(
    "frame",
    [
        SettingsFrame(0),
        PingFrame(0, opaque_data=b"12345678"),
        DataFrame(1, data=b""),
        WindowUpdateFrame(0, window_increment=1),
    ],
)
def test_a_flood_of_frames_that_bring_nothing_ends(frame: Frame) -> None:
    pair = Pair()
    pair.head()
    pair.down()
    once, fed = raw(frame), 0
    events: list[HttpEvent] = []
    while not any(isinstance(event, Broken) for event in events):
        events = pair.client.receive(once * 500, at(2))
        pair.client.data_to_send()
        fed += 500
        assert fed <= MAX_IDLE_FRAMES + 1000
    assert only_broken(events).code == "protocol-error"


def test_body_bytes_between_pings_are_no_flood() -> None:
    pair = Pair()
    pair.head()
    pair.down()
    ping = raw(PingFrame(0, opaque_data=b"12345678"))
    data = raw(DataFrame(1, data=b"x"))
    for _ in range(3):
        events = pair.client.receive(ping * (MAX_IDLE_FRAMES - 10) + data, at(2))
        assert kinds(events) == ["Data"]


@pytest.mark.parametrize(
    "frames",
    [
        raw(DataFrame(1, data=b"before the head")),
        raw(DataFrame(3, data=b"of no stream")),
        raw(HeadersFrame(1, data=b"\xff\xff\xff", flags=["END_HEADERS"])),
        raw(WindowUpdateFrame(0, window_increment=2**31 - 1)) * 2,
        b"\0\0\x01\x06\0\0\0\0\0x",
        b"\0\0\x05\x04\0\0\0\0\0abcde",
        b"\0\0\x03\x07\0\0\0\0\0abc",
    ],
)
def test_frames_that_break_the_protocol_end_in_one_printable_event(frames: bytes) -> None:
    pair = Pair()
    broken = only_broken(pair.client.receive(frames, at(2)))
    assert broken.code == "protocol-error"
    assert pair.client.receive(frames, at(3)) == []
    assert not pair.client.reusable()


def test_a_frame_longer_than_allowed_ends_at_its_header() -> None:
    pair = Pair()
    header = (16_385).to_bytes(3, "big") + b"\0\0" + (1).to_bytes(4, "big")
    assert only_broken(pair.client.receive(header, at(2))).code == "too-large"


def test_a_status_that_is_no_number_is_malformed() -> None:
    encoder = h2.connection.H2Connection().encoder
    block = bytes(encoder.encode([(":status", "2x0")]))
    frame = HeadersFrame(1, data=block, flags=["END_HEADERS"])
    broken = only_broken(Pair().client.receive(raw(frame), at(2)))
    assert broken.code in ("malformed", "protocol-error")


@pytest.mark.parametrize(
    "change",
    [
        {"headers": (("a b", "c"),)},
        {"headers": (("", "c"),)},
        {"headers": ((":path", "/x"),)},
        {"headers": (("x", "a\r\nb: c"),)},
        {"headers": (("x", "\u2603"),)},
        {"target": "/a b"},
        {"authority": "a\r\n"},
    ],
)
def test_what_http2_cannot_carry_is_refused_before_anything_is_sent(
    change: dict[str, object],
) -> None:
    client = H2Connection()
    client.data_to_send()
    with pytest.raises(MeasureError) as caught:
        client.request(dataclasses.replace(ask(), **change))  # type: ignore[arg-type]
    assert (caught.value.stage, caught.value.code) == ("request", "invalid-request")
    assert client.data_to_send() == b""


def test_a_peer_that_allows_no_stream_refuses_the_request() -> None:
    client = H2Connection()
    client.receive(raw(SettingsFrame(0, settings={3: 0})), at(1))
    with pytest.raises(MeasureError) as caught:
        client.request(ask())
    assert caught.value.code == "no-stream"


def response_bytes() -> bytes:
    pair = Pair()
    pair.head()
    for number in range(3):
        pair.server.send_data(pair.stream, b"data: %d\n\n" % number)
    pair.server.send_headers(pair.stream, [("x-sum", "9")], end_stream=True)
    return pair.server.data_to_send()


RESPONSE = response_bytes()


@given(cut_lists(len(RESPONSE)))
def test_any_cut_gives_the_same_response(cuts: list[int]) -> None:
    events = feed(Pair().client.receive, RESPONSE, cuts)
    data = data_of(events)
    assert b"".join(event.data for event in data) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert [k for k in kinds(events) if k != "Data"] == ["Head", "Trailers", "End"]
    assert sum(e.frame_start for e in data) == sum(e.frame_end for e in data) == 3
    assert {e.frame_size for e in data} == {9}


frames = st.builds(
    lambda kind, flags, stream, payload: (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    ),
    st.integers(0, 12),
    st.integers(0, 255),
    st.integers(0, 4),
    st.binary(max_size=20),
)


@given(st.lists(frames, max_size=8), cut_lists(), st.booleans())
def test_random_frames_end_in_events_and_never_raise(
    parts: list[bytes], cuts: list[int], headed: bool
) -> None:
    pair = Pair(bytes(70_000))
    if headed:
        pair.head()
        pair.down()
    events = feed(pair.client.receive, b"".join(parts), cuts)
    pair.client.data_to_send()
    events += pair.client.receive_eof(at(99))
    assert all(dataclasses.is_dataclass(event) for event in events)
    broken = [event.stream for event in events if isinstance(event, Broken)]
    assert len(set(broken)) == len(broken)


@given(st.binary(max_size=200), st.integers(0, len(RESPONSE)), cut_lists())
def test_random_bytes_anywhere_in_a_response_never_raise(
    junk: bytes, place: int, cuts: list[int]
) -> None:
    client = Pair().client
    events = feed(client.receive, RESPONSE[:place] + junk + RESPONSE[place:], cuts)
    client.data_to_send()
    assert all(dataclasses.is_dataclass(event) for event in events)


@given(st.binary(max_size=80), cut_lists())
def test_random_bytes_from_the_start_never_raise(junk: bytes, cuts: list[int]) -> None:
    client = H2Connection()
    client.request(ask())
    feed(client.receive, junk, cuts)
    client.data_to_send()
