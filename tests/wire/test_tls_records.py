from __future__ import annotations

import ssl
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.model.stamp import Stamp, user_stamp
from promptpath.wire.tls_records import (
    MAX_FRAGMENT_BYTES,
    MAX_MESSAGE_BYTES,
    SAMPLE_BYTES,
    MessageAssembler,
    RecordSplitter,
)
from tests.peers.certs import Certificates
from tests.wire.feeding import cut_lists, feed, feed_bytewise, pieces
from tests.wire.tls_capture import capture

AT = user_stamp(7)


def record(content_type: int, fragment: bytes) -> bytes:
    return bytes([content_type, 3, 3]) + len(fragment).to_bytes(2, "big") + fragment


records = st.lists(
    st.tuples(st.sampled_from([20, 21, 22, 23]), st.binary(max_size=40)), min_size=1, max_size=6
)


@given(records, cut_lists())
def test_any_cut_gives_the_same_records_with_the_stamp_of_their_last_byte(
    items: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    wholes = [record(*item) for item in items]
    stream = b"".join(wholes)
    splitter = RecordSplitter()
    found = feed(splitter.feed, stream, cuts)
    assert [item.data for item in found] == wholes
    assert splitter.pending == 0
    upto = list(accumulate(len(piece) for piece in pieces(stream, cuts)))
    for item in found:
        end = item.offset + len(item.data)
        assert item.stamp.at_ns == 1 + next(n for n, size in enumerate(upto) if size >= end)


@given(records)
def test_records_come_out_byte_by_byte_and_tile_the_stream(items: list[tuple[int, bytes]]) -> None:
    stream = b"".join(record(*item) for item in items)
    found = feed_bytewise(RecordSplitter().feed, stream)
    assert b"".join(item.data for item in found) == stream
    assert [item.offset for item in found] == [
        sum(len(before.data) for before in found[:index]) for index in range(len(found))
    ]
    assert [(item.content_type, item.fragment) for item in found] == items


@pytest.mark.parametrize("cut_at", [1, 2, 3, 100])
def test_plain_http_is_a_fault_at_its_first_byte(cut_at: int) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n" + b"x" * 200
    splitter = RecordSplitter()
    assert splitter.feed(answer[:cut_at], AT) == []
    assert splitter.fault is not None
    assert splitter.fault.why == "content type"
    assert splitter.fault.received == answer[:cut_at][:SAMPLE_BYTES]
    assert splitter.feed(answer[cut_at:], AT) == []
    assert splitter.pending == 0


def test_records_before_a_fault_still_come_out() -> None:
    splitter = RecordSplitter()
    found = splitter.feed(record(22, b"abc") + b"GET /", AT)
    assert [item.fragment for item in found] == [b"abc"]
    assert splitter.fault is not None
    assert (splitter.fault.offset, splitter.fault.received) == (8, b"GET /")


@pytest.mark.parametrize(
    ("header", "why"),
    [
        (b"\x16\x02\x00", "version"),
        (b"\x16\x03\x03" + (MAX_FRAGMENT_BYTES + 1).to_bytes(2, "big"), "length"),
        (b"\x80", "content type"),
    ],
)
def test_each_wrong_header_field_is_named(header: bytes, why: str) -> None:
    splitter = RecordSplitter()
    splitter.feed(header, AT)
    assert splitter.fault is not None
    assert splitter.fault.why == why


def test_the_longest_record_allowed_passes() -> None:
    whole = record(23, bytes(MAX_FRAGMENT_BYTES))
    assert [item.data for item in RecordSplitter().feed(whole, AT)] == [whole]


@given(st.binary(max_size=300), cut_lists())
def test_random_bytes_never_raise_and_never_pile_up(data: bytes, cuts: list[int]) -> None:
    splitter = RecordSplitter()
    found = feed(splitter.feed, data, cuts)
    kept = sum(len(item.data) for item in found) + splitter.pending
    assert kept == len(data) or splitter.fault is not None


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_real_handshake_falls_apart_into_records(
    certs: Certificates, version: ssl.TLSVersion
) -> None:
    taken = capture(certs, version=version)
    for stream in (taken.sent, taken.received):
        splitter = RecordSplitter()
        found = splitter.feed(stream, AT)
        assert splitter.fault is None
        assert b"".join(item.data for item in found) == stream
        assert found[0].content_type == 22


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + len(body).to_bytes(3, "big") + body


messages = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), min_size=1, max_size=5)


@given(messages, cut_lists())
def test_messages_join_over_any_record_border(
    items: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    wholes = [message(*item) for item in items]
    assembler = MessageAssembler()
    found = [m for piece in pieces(b"".join(wholes), cuts) for m in assembler.feed(piece)]
    assert found == wholes


def test_a_message_that_announces_too_much_ends_the_reading() -> None:
    assembler = MessageAssembler()
    assert assembler.feed(message(1, b"ok")) == [message(1, b"ok")]
    assert assembler.feed(b"\x0b" + (MAX_MESSAGE_BYTES).to_bytes(3, "big")) == []
    assert assembler.oversized
    assert assembler.feed(message(1, b"ok")) == []


def test_the_stamp_is_the_one_handed_in() -> None:
    stamp = Stamp(5, 4, 6, AT.clock, True)
    assert RecordSplitter().feed(record(23, b"x"), stamp)[0].stamp is stamp
