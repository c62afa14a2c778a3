from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.errors import MeasureError
from promptpath.model.names import MARK_EXCESS_BYTES, MARK_FRAMING_CONFLICT
from promptpath.wire.h1 import MAX_HEAD_BYTES, H1Connection
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Head,
    HttpEvent,
    HttpRequest,
    Informational,
    Trailers,
)
from tests.wire.feeding import at, cut_lists, feed, feed_bytewise

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\n\r\n"
    b"5\r\nhello\r\n3;ext=1\r\nyou\r\n0\r\nX-Sum: 9\r\n\r\n"
)


def asked(
    method: str = "GET", target: str = "/v1", body: bytes = b"", **headers: str
) -> H1Connection:
    connection = H1Connection()
    connection.request(ask(method, target, body, **headers))
    connection.data_to_send()
    return connection


def ask(method: str = "GET", target: str = "/v1", body: bytes = b"", **headers: str) -> HttpRequest:
    return HttpRequest(
        method=method,
        scheme="http",
        authority="api.example:8080",
        target=target,
        headers=tuple(headers.items()),
        body=body,
    )


def kinds(events: list[HttpEvent]) -> list[str]:
    return [type(event).__name__ for event in events]


def body_of(events: list[HttpEvent]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Data))


def only_broken(events: list[HttpEvent]) -> Broken:
    (event,) = (event for event in events if isinstance(event, Broken))
    assert event is events[-1]
    return event


def test_a_request_has_its_host_its_length_and_its_body_behind_the_head() -> None:
    connection = H1Connection()
    assert connection.request(ask("POST", body=b"{}", accept="text/event-stream")) == 1
    assert not connection.request_sent(1)
    sent = connection.data_to_send()
    assert sent.startswith(b"POST /v1 HTTP/1.1\r\nHost: api.example:8080\r\n")
    assert b"accept: text/event-stream\r\n" in sent
    assert sent.endswith(b"Content-Length: 2\r\n\r\n{}")
    assert connection.request_sent(1)
    assert connection.data_to_send() == b""


def test_an_absolute_target_goes_out_as_it_is() -> None:
    connection = H1Connection()
    connection.request(ask(target="http://api.example:8080/v1?a=b"))
    assert connection.data_to_send().startswith(b"GET http://api.example:8080/v1?a=b HTTP/1.1\r\n")


def test_a_header_with_a_line_break_is_refused_before_anything_is_sent() -> None:
    connection = H1Connection()
    with pytest.raises(MeasureError) as caught:
        connection.request(ask(x="a\r\nb: c"))
    assert (caught.value.stage, caught.value.code) == ("request", "invalid-request")
    assert connection.data_to_send() == b""


def test_a_chunked_response_keeps_the_borders_of_its_chunks() -> None:
    head, one, two, trailers, end = feed(asked().receive, CHUNKED)
    assert isinstance(head, Head)
    assert (head.status, head.reason, head.version, head.framing) == (200, "OK", "1.1", "chunked")
    assert head.headers == (("transfer-encoding", "chunked"), ("x-a", "1"))
    assert isinstance(one, Data) and isinstance(two, Data)
    assert (one.data, one.frame_start, one.frame_end, one.frame_size) == (b"hello", True, True, 5)
    assert (two.data, two.frame_start, two.frame_end, two.frame_size) == (b"you", True, True, 3)
    assert isinstance(trailers, Trailers) and trailers.headers == (("x-sum", "9"),)
    assert isinstance(end, End)


def test_a_chunk_whose_size_line_comes_alone_still_starts_with_its_first_byte() -> None:
    data = [e for e in feed_bytewise(asked().receive, CHUNKED) if isinstance(e, Data)]
    assert [e.data for e in data] == [bytes([b]) for b in b"helloyou"]
    assert [e.frame_start for e in data] == [True, *[False] * 4, True, False, False]
    assert [e.frame_end for e in data] == [*[False] * 4, True, False, False, True]
    assert [e.frame_size for e in data] == [5] * 5 + [3] * 3


def test_each_event_carries_the_stamp_of_the_bytes_that_completed_it() -> None:
    cut = CHUNKED.index(b"3;ext")
    events = feed(asked().receive, CHUNKED, [cut])
    assert [event.stamp for event in events] == [at(1), at(1), at(2), at(2), at(2)]


def test_a_response_of_known_length_ends_with_its_last_byte() -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
    head, data, end = feed(asked().receive, response)
    assert isinstance(head, Head) and head.framing == "content-length"
    assert isinstance(data, Data) and (data.frame_start, data.frame_size) == (False, None)
    assert isinstance(end, End)


def test_a_body_without_a_length_ends_when_the_peer_closes() -> None:
    connection = asked()
    events = feed(connection.receive, b"HTTP/1.0 200 OK\r\n\r\ndata: 1\n\n")
    assert kinds(events) == ["Head", "Data"]
    assert isinstance(events[0], Head)
    assert (events[0].version, events[0].framing) == ("1.0", "until-close")
    assert kinds(connection.receive_eof(at(9))) == ["End"]
    assert not connection.reusable()


@pytest.mark.parametrize(
    ("method", "response"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n"),
    ],
)
def test_a_response_that_can_have_no_body_ends_with_its_head(method: str, response: bytes) -> None:
    head, end = feed(asked(method).receive, response)
    assert isinstance(head, Head) and head.framing == "none"
    assert isinstance(end, End)


def test_early_hints_come_before_the_head() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    final = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    hint, head, _ = feed(asked().receive, early + final)
    assert isinstance(hint, Informational)
    assert (hint.status, hint.headers) == (103, (("link", "</a>"),))
    assert isinstance(head, Head)


def test_a_connection_is_used_again_after_a_whole_response() -> None:
    connection = asked()
    assert not connection.reusable()
    feed(connection.receive, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
    assert connection.reusable()
    assert connection.request(ask()) == 2
    assert connection.data_to_send().startswith(b"GET /v1")
    events = feed(connection.receive, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb")
    assert body_of(events) == b"b"
    assert {event.stream for event in events if isinstance(event, Data | Head | End)} == {2}


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
    ],
)
def test_a_connection_that_closes_or_still_answers_takes_no_request(response: bytes) -> None:
    connection = asked()
    feed(connection.receive, response)
    assert not connection.reusable()
    with pytest.raises(MeasureError) as caught:
        connection.request(ask())
    assert caught.value.code == "connection-used"


def test_after_connect_the_bytes_behind_the_head_belong_to_the_tunnel() -> None:
    connection = asked("CONNECT", "api.example:443")
    events = connection.receive(b"HTTP/1.1 200 Established\r\n\r\n\x16\x03\x03", at(1))
    assert kinds(events) == ["Head", "End"]
    assert connection.tunnel_bytes() == b"\x16\x03\x03"
    assert connection.tunnel_bytes() == b""
    assert not connection.reusable()


def test_a_refused_connect_has_a_body_like_any_response() -> None:
    response = b"HTTP/1.1 407 Auth\r\nContent-Length: 2\r\n\r\nno"
    events = feed(asked("CONNECT", "api.example:443").receive, response)
    assert kinds(events) == ["Head", "Data", "End"]


def test_connect_names_the_tunnel_s_end_in_target_and_host() -> None:
    connection = H1Connection()
    connection.request(ask("CONNECT", "api.example:443"))
    sent = connection.data_to_send()
    assert sent == b"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example:443\r\n\r\n"


def test_both_framings_at_once_are_noted_and_chunked_wins() -> None:
    response = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
        b"5\r\nhello\r\n0\r\n\r\n"
    )
    events = feed(asked().receive, response)
    assert body_of(events) == b"hello"
    (control,) = (event for event in events if isinstance(event, Control))
    assert control.name == MARK_FRAMING_CONFLICT
    assert control.detail["kept"] == "chunked"


def test_lengths_that_contradict_each_other_are_malformed() -> None:
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc"
    assert only_broken(feed(asked().receive, response)).code == "malformed"


def test_bytes_behind_the_end_are_told_once_and_never_taken_for_a_response() -> None:
    connection = asked()
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
    events = connection.receive(whole + whole, at(1))
    assert kinds(events) == ["Head", "Data", "End", "Control"]
    assert isinstance(events[-1], Control)
    assert (events[-1].name, events[-1].detail) == (MARK_EXCESS_BYTES, {"bytes": len(whole)})
    assert connection.receive(b"more", at(2)) == []
    assert not connection.reusable()


def test_a_408_on_an_idle_connection_makes_it_unusable() -> None:
    connection = asked()
    feed(connection.receive, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    events = connection.receive(b"HTTP/1.1 408 Request Timeout\r\n\r\n", at(2))
    assert kinds(events) == ["Control"]
    assert not connection.reusable()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x28", "a TLS alert"),
        (b"\x16\x03\x03\x00\x40", "a TLS record"),
        (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", "HTTP/2 SETTINGS"),
        (b"<html>", "HTTP/0.9"),
        (b'{"error"', "HTTP/0.9"),
        (b"SSH-2.0-OpenSSH", "SSH banner"),
        (b"220 mail\x1b[2J", "no HTTP ('220 mail\\\\x1b"),
    ],
)
def test_what_is_not_http_is_named_at_its_first_bytes(start: bytes, says: str) -> None:
    broken = only_broken(asked().receive(start, at(1)))
    assert broken.code == "malformed"
    assert says in broken.what
    assert broken.what.isprintable()
    byte_by_byte = only_broken(feed_bytewise(asked().receive, start))
    assert byte_by_byte.stamp.at_ns <= len(b"HTTP/")


def test_a_head_that_never_ends_is_too_large() -> None:
    connection = asked()
    line = b"X-Pad: " + b"a" * 1000 + b"\r\n"
    events = connection.receive(b"HTTP/1.1 200 OK\r\n", at(1))
    fed = 0
    while not events:
        events = connection.receive(line, at(2))
        fed += len(line)
        assert fed < 2 * MAX_HEAD_BYTES
    assert only_broken(events).code == "too-large"
    assert connection.receive(line, at(3)) == []


@pytest.mark.parametrize(
    ("response", "code"),
    [
        (b"", "eof"),
        (b"HTT", "eof"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "eof"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "eof"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "eof"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "eof"),
    ],
)
def test_a_close_within_a_message_is_told(response: bytes, code: str) -> None:
    connection = asked()
    feed(connection.receive, response)
    broken = only_broken(connection.receive_eof(at(9)))
    assert (broken.code, broken.stamp, broken.stream) == (code, at(9), 1)
    assert connection.receive_eof(at(10)) == []


def test_a_close_between_messages_is_nothing() -> None:
    connection = asked()
    feed(connection.receive, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert connection.receive_eof(at(2)) == []
    assert not connection.reusable()


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 2x0 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    ],
)
def test_broken_http_is_malformed_in_printable_words(response: bytes) -> None:
    broken = only_broken(feed(asked().receive, response))
    assert broken.code == "malformed"
    assert broken.what.isprintable()
    assert len(broken.what) < 260


@given(cut_lists(len(CHUNKED)))
def test_any_cut_gives_the_same_response(cuts: list[int]) -> None:
    events = feed(asked().receive, CHUNKED, cuts)
    assert body_of(events) == b"helloyou"
    assert [k for k in kinds(events) if k != "Data"] == ["Head", "Trailers", "End"]
    data = [event for event in events if isinstance(event, Data)]
    assert sum(event.frame_start for event in data) == 2
    assert sum(event.frame_end for event in data) == 2
    assert [e.frame_size for e in data if e.frame_start] == [5, 3]


@given(st.binary(max_size=200), cut_lists(), st.booleans())
def test_random_bytes_end_in_events_and_never_raise(
    junk: bytes, cuts: list[int], headed: bool
) -> None:
    connection = asked()
    start = CHUNKED[: CHUNKED.index(b"5\r\n")] if headed else b""
    events = feed(connection.receive, start + junk, cuts) + connection.receive_eof(at(99))
    assert all(dataclasses.is_dataclass(event) for event in events)
    assert kinds(events).count("Broken") <= 1
