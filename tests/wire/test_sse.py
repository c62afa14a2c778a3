from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.frame import Frame, FrameKind
from promptpath.wire.sse import TOO_LARGE, SseFramer
from tests.wire.feeding import at, cut_lists, feed, pieces
from tests.wire.sse_reference import Event, parse

SHARED_CASES = Path(__file__).parents[3] / "shared" / "data" / "wpt_cases.jsonl"

CASES: dict[str, tuple[bytes, list[tuple[str, bytes]]]] = {
    "one event": (b"data: hi\n\n", [("message", b"hi")]),
    "no space after the colon": (b"data:hi\n\n", [("message", b"hi")]),
    "only one space goes": (b"data:  hi\n\n", [("message", b" hi")]),
    "a tab stays": (b"data:\thi\n\n", [("message", b"\thi")]),
    "lines are joined": (b"data: a\ndata\ndata: b\n\n", [("message", b"a\n\nb")]),
    "empty data is an event": (b"data\n\ndata:\n\n", [("message", b""), ("message", b"")]),
    "two empty lines of data": (b"data\ndata\n\n", [("message", b"\n")]),
    "a type": (b"event: ping\ndata: {}\n\ndata: 2\n\n", [("ping", b"{}"), ("message", b"2")]),
    "a type without data is forgotten": (b"event: a\n\ndata: 1\n\n", [("message", b"1")]),
    "an empty type": (b"event: a\nevent\ndata: 1\n\n", [("message", b"1")]),
    "CR": (b"data: a\r\rdata: b\r\r", [("message", b"a"), ("message", b"b")]),
    "CR LF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [("message", b"a"), ("message", b"b")]),
    "mixed ends": (b"data: a\n\r\ndata: b\r\n\n", [("message", b"a"), ("message", b"b")]),
    "LF CR are two ends": (b"data: a\n\rdata: b\n\r", [("message", b"a"), ("message", b"b")]),
    "a BOM": (b"\xef\xbb\xbfdata: a\n\n", [("message", b"a")]),
    "one BOM only": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n", [("message", b"b")]),
    "half a BOM": (b"\xef\xbbdata: a\n\ndata: b\n\n", [("message", b"b")]),
    "an unterminated tail": (b"data: a\n\ndata: b\n", [("message", b"a")]),
    "a comment inside": (b"data: a\n: hush\ndata: b\n\n", [("message", b"a\nb")]),
    "a ping after an id is no event": (b"id: 1\ndata: a\n\n: ping\n\n", [("message", b"a")]),
    "names are case-sensitive": (b"Data: a\ndata: b\n\n", [("message", b"b")]),
    "a space before the colon": (b"data : a\ndata: b\n\n", [("message", b"b")]),
    "a space before the name": (b" data: a\ndata: b\n\n", [("message", b"b")]),
    "NUL in data": (b"data: a\0b\n\n", [("message", b"a\0b")]),
    "U+2028 VT FF NEL end no line": (
        b"data: \xe2\x80\xa8\x0b\x0c\xc2\x85\x1c\n\n",
        [("message", b"\xe2\x80\xa8\x0b\x0c\xc2\x85\x1c")],
    ),
    "invalid UTF-8": (b"data: \xff\xfe\n\n", [("message", b"\xff\xfe")]),
    "a colon in the value": (b"data: a: b\n\n", [("message", b"a: b")]),
    "JSON between events": (
        b'data: a\n\n{"error": 1}\n\ndata: b\n\n', [("message", b"a"), ("message", b"b")]
    ),
}  # fmt: skip


def framed(body: bytes, cuts: list[int] | range = range(0)) -> list[Frame]:
    framer = SseFramer()
    out = feed(framer.feed, body, cuts)
    counted = sum(frame.size for frame in out) + framer.ignored + framer.pending
    assert counted == len(body)
    out += framer.end(at(10_000))
    assert framer.pending == 0
    assert sum(frame.size for frame in out) + framer.ignored == len(body)
    return out


def events(frames: list[Frame]) -> list[Event]:
    return [(f.type, f.data, f.id) for f in frames if f.kind is FrameKind.EVENT]


def unstamped(frames: list[Frame]) -> list[tuple[object, ...]]:
    return [(f.kind, f.type, f.data, f.size, f.id) for f in frames]


def of(kind: FrameKind, frames: list[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame.kind is kind]


@pytest.mark.parametrize("name", CASES)
def test_the_standard_s_events_come_out_at_any_cut(name: str) -> None:
    body, expected = CASES[name]
    whole = framed(body)
    assert [(kind, data) for kind, data, _ in events(whole)] == expected
    assert events(whole) == parse(body)
    assert unstamped(framed(body, range(len(body)))) == unstamped(whole)
    for cut in range(1, len(body)):
        assert unstamped(framed(body, [cut])) == unstamped(whole)


@pytest.mark.skipif(not SHARED_CASES.exists(), reason="no ../shared beside this checkout")
def test_the_web_platform_tests_pass_whole_bytewise_and_at_every_cut() -> None:
    for line in SHARED_CASES.read_text().splitlines():
        case = json.loads(line)
        body = base64.b64decode(case["input_b64"])
        expected = [(event["type"], event["data"]) for event in case["expected"]]
        for cuts in ([], list(range(len(body))), *([cut] for cut in range(1, len(body)))):
            got = [(kind, data.decode("utf-8", "replace")) for kind, data, _ in
                   events(framed(body, cuts))]  # fmt: skip
            assert got == expected, (case["id"], cuts)


# Whole lines and their ends, so that random bodies are mostly near to SSE.
grammar = st.lists(
    st.sampled_from(
        [b"data: x", b"data:y", b"data", b"data: ", b"event: e", b"event", b"id: 7", b"id",
         b"id: a\0b", b"retry: 10", b"retry: x", b": c", b":", b"odd: v", b"odd", b'{"a": 1}', b"}",
         b"<p>", b"\xef\xbb\xbf", b"\n", b"\r", b"\r\n", b"\n\n", b"\n", b"\0", b"data: z\n\n"]
    ),
    max_size=24,
).map(b"".join)  # fmt: skip


@given(grammar, cut_lists(120))
def test_random_bodies_give_the_reference_s_events_at_random_cuts(
    body: bytes, cuts: list[int]
) -> None:
    whole = framed(body)
    assert events(whole) == parse(body)
    assert unstamped(framed(body, cuts)) == unstamped(whole)


@given(st.binary(max_size=300), cut_lists(300))
def test_random_bytes_never_raise_and_are_all_counted(body: bytes, cuts: list[int]) -> None:
    assert events(framed(body, cuts)) == parse(body)


@given(grammar, cut_lists(120))
def test_a_frame_has_the_stamps_of_the_pieces_that_held_its_first_and_last_byte(
    body: bytes, cuts: list[int]
) -> None:
    piece_of = [n for n, piece in enumerate(pieces(body, cuts), 1) for _ in piece]
    by_byte = [(f.first.at_ns, f.stamp.at_ns) for f in framed(body, range(len(body)))]
    expected = [(piece_of[first - 1], piece_of[last - 1]) for first, last in by_byte]
    assert [(f.first.at_ns, f.stamp.at_ns) for f in framed(body, cuts)] == expected


def test_the_first_and_the_last_byte_of_an_event_in_three_pieces() -> None:
    framer = SseFramer()
    assert framer.feed(b"data: 1\n\nda", at(1))[0].first == at(1)
    assert framer.feed(b"ta: 2\n", at(2)) == []
    (frame,) = framer.feed(b"\ndata: 3", at(3))
    assert (frame.data, frame.first, frame.stamp) == (b"2", at(1), at(3))
    (frame,) = framer.feed(b"\n\n", at(4))
    assert (frame.data, frame.first, frame.stamp) == (b"3", at(3), at(4))
    (frame,) = framer.feed(b"data: 4\n\n", at(5))
    assert (frame.data, frame.first, frame.stamp) == (b"4", at(5), at(5))


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r", b"\r\n\n", b"\n\r", b"\r\r\n"])
def test_an_event_comes_out_with_the_first_byte_of_its_blank_line_s_end(end: bytes) -> None:
    framer = SseFramer()
    blank = {b"\r\r\n": 2}.get(end, len(end))
    (frame,) = framer.feed(b"data: a" + end[:blank], at(1))
    assert frame.stamp == at(1)
    assert framer.feed(end[blank:] or b"\n"[:0], at(2)) == []


def test_a_held_bom_does_not_age_the_first_event() -> None:
    framer = SseFramer()
    framer.feed(b"\xef\xbb", at(1))
    framer.feed(b"\xbf", at(2))
    (frame,) = framer.feed(b"data: a\n\n", at(3))
    assert frame.first == at(3)


def test_a_comment_comes_out_without_waiting_for_a_blank_line() -> None:
    framer = SseFramer()
    (frame,) = framer.feed(b": OPENROUTER PROCESSING\n", at(1))
    assert (frame.kind, frame.data) == (FrameKind.COMMENT, b"OPENROUTER PROCESSING")
    assert (frame.size, framer.pending) == (24, 0)
    (frame,) = framer.feed(b"data: a\n:\n", at(2))
    assert (frame.kind, frame.data) == (FrameKind.COMMENT, b"")


def test_an_unknown_field_keeps_its_name_and_value() -> None:
    frame = framed(b'error: {"code": 500}\n\n')[0]
    assert (frame.kind, frame.type, frame.data) == (
        FrameKind.UNKNOWN_FIELD,
        "error",
        b'{"code": 500}',
    )


def test_a_pretty_printed_document_between_events_is_one_foreign_frame() -> None:
    document = b'{\n  "error": {\n    "code": 503\n  }\n}'
    frames = framed(b"data: a\n\n" + document + b"\n\ndata: b\n\n")
    assert [frame.kind for frame in frames] == ["event", "foreign-bytes", "event"]
    assert json.loads(frames[1].data) == {"error": {"code": 503}}


def test_a_body_that_is_one_document_is_foreign_also_without_a_last_line_end() -> None:
    (frame,) = framed(b'{\r\n "error": 404\r\n}')
    assert (frame.kind, frame.data) == (FrameKind.FOREIGN, b'{\n "error": 404\n}')


def test_a_proxy_s_page_is_foreign_and_its_lines_stay_together() -> None:
    (frame,) = framed(b"<html>\nTimeout\nReference: #18\n</html>\n")
    assert frame.kind is FrameKind.FOREIGN


@pytest.mark.parametrize(
    ("tail", "data"),
    [
        (b"data: a\n", b"a"),
        (b"data: a", b"a"),
        (b"data: a\ndata: b", b"a\nb"),
        (b"data: a\nev", b"a\nev"),
        (b": comm", b": comm"),
        (b"id: 1\n", b""),
        (b"\xef", b"\xef"),
    ],
)
def test_what_is_pending_at_the_end_is_unfinished(tail: bytes, data: bytes) -> None:
    frames = framed(b"data: x\n\n" + tail if tail != b"\xef" else tail)
    expected = FrameKind.FOREIGN if tail == b"\xef" else FrameKind.UNFINISHED
    assert (frames[-1].kind, frames[-1].data) == (expected, data)


def test_an_unfinished_event_has_the_stamp_of_its_last_byte_not_of_the_end() -> None:
    framer = SseFramer()
    framer.feed(b"data: a\n", at(1))
    framer.feed(b"data", at(2))
    (frame,) = framer.end(at(900))
    assert (frame.first, frame.stamp, frame.size) == (at(1), at(2), 12)
    assert framer.end(at(901)) == []


def test_the_last_event_id_stays_in_force_and_nul_does_not_wipe_it() -> None:
    body = b"data: 1\n\nid: a\ndata: 2\n\nid: b\0\ndata: 3\n\nid\ndata: 4\n\n"
    assert [frame.id for frame in framed(body)] == [None, "a", "a", ""]


def test_retry_takes_digits_only() -> None:
    framer = SseFramer()
    framer.feed(b"retry: 1500\nretry: 1e3\nretry: -1\nretry: \xd9\xa1\nretry\n", at(1))
    assert framer.retry_ms == 1500
    framer.feed(b"retry: " + b"9" * 5000 + b"\n", at(2))
    assert framer.retry_ms == 1500


@pytest.mark.parametrize(
    "huge",
    [
        b"data: " + b"x" * 4000,
        b"data: xxxxxxxx\n" * 300,
        b"x" * 4000,
        b"{" + b"x" * 4000,
        b": " + b"x" * 4000,
        b"data\r\n" * 700,
    ],
)
def test_an_event_beyond_the_limit_is_told_and_dropped_and_the_next_one_read(huge: bytes) -> None:
    framer = SseFramer(max_event_bytes=2000)
    body = huge + b"\n\n" + b"data: next\n\n"
    out: list[Frame] = []
    for number, piece in enumerate(pieces(body, range(0, len(body), 100)), 1):
        out += framer.feed(piece, at(number))
        assert framer.pending <= 2100
    assert framer.too_large == 1
    assert [frame.type for frame in of(FrameKind.UNFINISHED, out)] == [TOO_LARGE]
    assert [frame.data for frame in of(FrameKind.EVENT, out)] == [b"next"]
    assert sum(frame.size for frame in out) + framer.ignored == len(body)


def test_a_document_of_many_lines_beyond_the_limit_comes_out_in_parts() -> None:
    framer = SseFramer(max_event_bytes=2000)
    out = feed(framer.feed, b'  "a": 1,\n' * 1000, range(0, 10_000, 100))
    assert {frame.kind for frame in out} == {FrameKind.FOREIGN}
    assert all(frame.size <= 2100 for frame in out)


def test_an_event_of_many_megabytes_in_small_pieces_passes_whole() -> None:
    framer = SseFramer()
    for _ in range(2048):
        assert (
            framer.feed(b"data: x" + b"y" * 1017 if not framer.pending else b"y" * 1024, at(1))
            == []
        )
    (frame,) = framer.feed(b"\n\n", at(2))
    assert frame.size == 2048 * 1024 + 2
