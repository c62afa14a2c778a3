from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.frame import Frame, FrameKind
from promptpath.wire.ndjson import NdjsonFramer
from promptpath.wire.sse import TOO_LARGE
from tests.wire.feeding import at, cut_lists, feed, pieces

BODY = b'{"a":1}\r\n\n{"b":"\xe2\x80\xa8"}\n  \r\n[3]'


def framed(body: bytes, cuts: list[int] | range = range(0)) -> list[Frame]:
    framer = NdjsonFramer()
    out = feed(framer.feed, body, cuts)
    assert sum(frame.size for frame in out) + framer.ignored + framer.pending == len(body)
    out += framer.end(at(10_000))
    assert sum(frame.size for frame in out) + framer.ignored == len(body)
    assert framer.pending == 0
    return out


def test_each_line_is_a_frame_and_blank_lines_are_none() -> None:
    frames = framed(BODY)
    assert [frame.data for frame in frames] == [b'{"a":1}', b'{"b":"\xe2\x80\xa8"}', b"[3]"]
    assert {frame.kind for frame in frames} == {FrameKind.LINE}


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (b'{"done":true}', FrameKind.LINE),
        (b'{"done":true}\r', FrameKind.LINE),
        (b'{"done":tr', FrameKind.UNFINISHED),
        (b"[" * 100_000, FrameKind.UNFINISHED),
        (b"\xff", FrameKind.UNFINISHED),
    ],
)
def test_a_last_line_without_an_end_counts_when_it_is_whole_json(
    tail: bytes, kind: FrameKind
) -> None:
    assert [frame.kind for frame in framed(b"{}\n" + tail)] == [FrameKind.LINE, kind]


def test_a_line_has_the_stamps_of_its_first_and_last_byte() -> None:
    framer = NdjsonFramer()
    assert framer.feed(b"{", at(1)) == []
    (frame, other) = framer.feed(b"}\n{}\n[", at(2))
    assert (frame.first, frame.stamp, frame.size) == (at(1), at(2), 3)
    assert (other.first, other.stamp) == (at(2), at(2))
    (frame,) = framer.end(at(9))
    assert (frame.kind, frame.first, frame.stamp) == (FrameKind.UNFINISHED, at(2), at(2))


def test_a_line_beyond_the_limit_is_told_and_dropped_and_the_next_one_read() -> None:
    framer = NdjsonFramer(max_line_bytes=1000)
    body = b"x" * 5000 + b"\n{}\n"
    out: list[Frame] = []
    for piece in pieces(body, range(0, len(body), 100)):
        out += framer.feed(piece, at(1))
        assert framer.pending <= 1100
    assert [(frame.kind, frame.type) for frame in out] == [
        (FrameKind.UNFINISHED, TOO_LARGE),
        (FrameKind.LINE, ""),
    ]
    assert framer.too_large == 1
    assert sum(frame.size for frame in out) + framer.ignored == len(body)


@given(st.one_of(st.binary(max_size=100), st.just(BODY)), cut_lists(100))
def test_any_cut_of_any_bytes_gives_the_same_frames(body: bytes, cuts: list[int]) -> None:
    def told(frames: list[Frame]) -> list[tuple[object, ...]]:
        return [(frame.kind, frame.data, frame.size) for frame in frames]

    assert told(framed(body, cuts)) == told(framed(body))
