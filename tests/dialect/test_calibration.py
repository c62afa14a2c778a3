"""The reference server's test streams."""

from __future__ import annotations

import json

import pytest

from promptpath.dialect.calibration import CALIBRATION
from promptpath.dialect.detect import Detector, Framing
from promptpath.model.enums import EventKind
from promptpath.model.stamp import user_stamp
from promptpath.wire.frame import Frame
from promptpath.wire.ndjson import NdjsonFramer
from promptpath.wire.sse import SseFramer

STAMP = {"seq": 7, "sent_ns": 123_456, "step": None, "batch": None}


def frames(*payloads: object) -> list[Frame]:
    data = b"".join(b"data: %b\n\n" % json.dumps(payload).encode() for payload in payloads)
    return SseFramer().feed(data, user_stamp(1))


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("plan", EventKind.ROLE),
        ("tick", EventKind.TEXT),
        ("keepalive", EventKind.PING),
        ("end", EventKind.END),
        ("else", EventKind.OTHER),
    ],
)
def test_every_kind_of_event_has_its_meaning_and_its_stamp(kind: str, meant: EventKind) -> None:
    (frame,) = frames({"kind": kind, "promptpath": STAMP, "pad": "xyz"})
    meaning = CALIBRATION.reader().read(frame)
    assert (meaning.kind, meaning.seq, meaning.server_ns) == (meant, 7, 123_456)
    assert meaning.is_end is (kind == "end")
    assert len(meaning.text) == (kind == "tick")


def test_the_stream_is_known_by_its_first_event_and_as_lines_too() -> None:
    (frame,) = frames({"kind": "tick", "promptpath": STAMP})
    detector = Detector(Framing.SSE, "text/event-stream")
    detector.reader(frame)
    assert detector.detected.dialect is CALIBRATION
    line = json.dumps({"kind": "plan", "promptpath": STAMP}).encode() + b"\n"
    (row,) = NdjsonFramer().feed(line, user_stamp(1))
    detector = Detector(Framing.NDJSON, "application/x-ndjson")
    detector.reader(row)
    assert detector.detected.dialect is CALIBRATION


def test_a_stranger_with_a_kind_is_not_claimed() -> None:
    assert CALIBRATION.claims("text/event-stream", {"kind": "tick"}) == 0.0
    assert CALIBRATION.claims("text/event-stream", {"kind": "cat", "promptpath": STAMP}) == 0.0
    assert CALIBRATION.claims("text/event-stream", ["tick"]) == 0.0


def test_an_error_and_a_comment_are_what_they_are() -> None:
    (error,) = frames({"error": {"message": "no"}})
    assert CALIBRATION.reader().read(error).kind is EventKind.ERROR
    (comment,) = SseFramer().feed(b": keepalive\n\n", user_stamp(1))
    assert CALIBRATION.reader().read(comment).kind is EventKind.COMMENT
    (junk,) = SseFramer().feed(b"data: [1, 2]\n\n", user_stamp(1))
    assert CALIBRATION.reader().read(junk).kind is EventKind.OTHER
