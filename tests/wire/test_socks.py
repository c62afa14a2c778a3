"""SOCKS5 replies arrive whole, byte by byte and cut anywhere; what is not SOCKS5 is told apart."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.socks import SocksConnect, SocksFailure, SocksState

GRANTED = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x1f\x90"


def drive(exchange: SocksConnect, data: bytes, cuts: list[int]) -> bytes:
    sent = exchange.hello()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in pairwise(edges):
        sent += exchange.feed(data[start:end])
    return sent


@given(st.lists(st.integers(0, 40), max_size=12))
def test_any_cut_of_the_proxys_bytes_opens_the_same_tunnel(cuts: list[int]) -> None:
    exchange = SocksConnect("ai.example", 443)
    sent = drive(exchange, b"\x05\x00" + GRANTED, cuts)
    assert exchange.state is SocksState.DONE
    assert sent == b"\x05\x01\x00" + b"\x05\x01\x00\x03\x0aai.example\x01\xbb"


@given(st.lists(st.integers(0, 40), max_size=12))
def test_user_and_password_are_sent_when_the_proxy_asks(cuts: list[int]) -> None:
    exchange = SocksConnect("127.0.0.1", 80, "me", "secret")
    sent = drive(exchange, b"\x05\x02" + b"\x01\x00" + GRANTED, cuts)
    assert exchange.state is SocksState.DONE
    assert b"\x01\x02me\x06secret" in sent
    assert sent.endswith(b"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50")


def test_an_ipv6_target_is_sent_as_an_address() -> None:
    exchange = SocksConnect("2001:db8::1", 443)
    sent = drive(exchange, b"\x05\x00", [])
    assert sent.endswith(b"\x04\x20\x01\x0d\xb8" + bytes(11) + b"\x01\x01\xbb")


def test_bytes_behind_the_reply_belong_to_the_tunnel() -> None:
    exchange = SocksConnect("ai.example", 443)
    drive(exchange, b"\x05\x00" + GRANTED + b"hello", [])
    assert exchange.leftover == b"hello"


@pytest.mark.parametrize(
    ("reply", "code", "says"),
    [
        (b"\x05\xff", "credentials", "credentials"),
        (b"\x05\x02", "credentials", "credentials"),
        (b"HTTP/1.1 400 Bad Request", "not-socks", "not SOCKS5"),
        (b"\x04\x5b", "not-socks", "not SOCKS5"),
        (b"\x05\x00\x05\x05\x00\x01" + bytes(6), "refused", "connection refused"),
        (b"\x05\x00\x05\x63\x00\x01" + bytes(6), "refused", "reply 99"),
        (b"\x05\x00\x05\x00\x00\x07" + bytes(6), "not-socks", "address type 7"),
        (b"\x05\x00\x48\x54", "not-socks", "something else"),
    ],
)
def test_a_proxy_that_says_no_is_told_apart(reply: bytes, code: str, says: str) -> None:
    exchange = SocksConnect("ai.example", 443)
    with pytest.raises(SocksFailure, match=says) as failure:
        drive(exchange, reply, [])
    assert failure.value.code == code
    assert exchange.state is SocksState.FAILED


def test_rejected_credentials_are_told_apart() -> None:
    exchange = SocksConnect("ai.example", 443, "me", "wrong")
    with pytest.raises(SocksFailure, match="rejected"):
        drive(exchange, b"\x05\x02\x01\x01", [])


@given(st.binary(max_size=64))
def test_random_bytes_open_or_fail_and_never_crash(data: bytes) -> None:
    exchange = SocksConnect("ai.example", 443, "me", "pw")
    try:
        drive(exchange, data, [3, 7])
    except SocksFailure:
        assert exchange.state is SocksState.FAILED
