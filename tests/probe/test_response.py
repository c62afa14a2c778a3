"""One response's HTTP events: facts, marks, frames, and how it ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.model.enums import FactSource, Layer, Outcome
from promptpath.model.names import MARK_SETTINGS, MARK_WINDOW_UPDATE
from promptpath.model.stamp import user_stamp
from promptpath.probe.link import Closed
from promptpath.probe.response import ResponseReader
from promptpath.wire.http import (
    Broken,
    Control,
    Data,
    End,
    Goaway,
    Head,
    Headers,
    Informational,
    Reset,
    Trailers,
)
from tests.probe.scripted_link import PLAN, Scene, scene
from tests.wire.feeding import at


def reader() -> tuple[Scene, ResponseReader]:
    """A reader whose request's last byte left at 10 ns."""
    made = scene()
    response = ResponseReader(made.recorder, PLAN, made.connection)
    response.open(10)
    return made, response


def head(status: int = 200, *headers: tuple[str, str], ns: int = 20) -> Head:
    fields: Headers = headers or (("content-type", "text/plain"),)
    return Head(
        stream=1,
        status=status,
        reason="OK",
        version="1.1",
        headers=fields,
        framing="chunked",
        stamp=at(ns),
    )


def data(text: bytes, ns: int, *, size: int | None = None, end: bool = True) -> Data:
    return Data(stream=1, data=text, stamp=at(ns), frame_start=True, frame_end=end, frame_size=size)


def test_a_whole_response_spans_from_the_last_request_byte_to_its_last_byte() -> None:
    made, response = reader()
    for event in (head(), data(b"words", 30, size=5), End(stream=1, stamp=at(40))):
        response.take(event)
    response.close(Outcome.OK, None)
    (span,) = made.recorder.log.spans
    assert (span.start_ns, span.end_ns, span.outcome) == (10, 40, Outcome.OK)
    assert (response.status, response.opened_ns, response.ended) == (200, 10, True)
    end = made.facts("http.end")
    assert end == [{"how": "clean", "code": None, "complete": True, "detail": None}]
    assert [mark.name for mark in made.recorder.log.marks] == ["head", "message-end"]
    assert {mark.span for mark in made.recorder.log.marks} == {span.id}


def test_the_head_becomes_facts_and_the_far_sides_word_is_reported() -> None:
    made, response = reader()
    headers = (
        ("content-type", "text/event-stream"),
        ("x-request-id", "req-1"),
        ("set-cookie", "session=secret"),
        ("server-timing", "tokenize;dur=1.5"),
        ("alt-svc", 'h3=":443"; ma=60'),
        ("retry-after", "3"),
        ("location", "/next"),
    )
    response.take(head(429, *headers))
    assert made.facts("http.status") == [429] and made.facts("http.framing") == ["chunked"]
    assert made.facts("http.request_id") == [{"header": "x-request-id", "value": "req-1"}]
    assert made.facts("http.rate_limit")[0]["retry_after_s"] == 3
    assert made.facts("http.alt_svc")[0][0]["protocol"] == "h3"
    (timing,) = made.facts("server.timing")
    assert (timing["scope"], timing["duration_ns"]) == ("tokenize", 1_500_000)
    assert response.location == "/next"
    assert "secret" not in str(made.facts("http.headers"))
    sources = {fact.key: fact.source for fact in made.recorder.log.facts}
    assert sources["http.status"] is FactSource.OBSERVED
    assert sources["http.headers"] is FactSource.REPORTED


def test_a_1xx_and_trailers_are_kept_apart_from_the_head() -> None:
    made, response = reader()
    link = ("link", "</x>; rel=preload")
    response.take(Informational(stream=1, status=103, headers=(link,), stamp=at(15)))
    assert response.status is None
    response.take(head())
    response.take(Trailers(stream=1, headers=(("x-cost", "3"),), stamp=at(50)))
    assert made.facts("http.informational") == [{"status": 103, "headers": [list(link)]}]
    assert made.facts("http.trailers") == [[["x-cost", "3"]]]
    names = [mark.name for mark in made.recorder.log.marks]
    assert names == ["informational", "head", "trailers"]


def test_a_frame_is_one_arrival_with_the_stamp_of_its_last_byte() -> None:
    made, response = reader()
    response.take(head())
    response.take(data(b"he", 30, size=5, end=False))
    response.take(data(b"llo", 31, size=5))
    response.take(data(b"you", 40, size=3))
    response.take(data(b"until close", 50))  # no frames there
    frames = [row for row in made.recorder.log.arrivals if row.layer is Layer.HTTP_FRAME]
    assert [(row.offset, row.size, row.at_ns) for row in frames] == [(0, 5, 31), (5, 3, 40)]


@pytest.mark.parametrize(
    ("event", "how", "code"),
    [
        (Reset(stream=1, code=8, stamp=at(50)), "reset", 8),
        (Broken(stream=1, what="too short", code="eof", stamp=at(50)), "fin", None),
        (Broken(stream=1, what="no", code="malformed", stamp=at(50)), "protocol-error", None),
    ],
)
def test_a_response_cut_short_says_how(event: Reset | Broken, how: str, code: int | None) -> None:
    made, response = reader()
    response.take(head())
    response.take(event)
    (end,) = made.facts("http.end")
    assert response.ended and (end["how"], end["code"], end["complete"]) == (how, code, False)


def test_the_end_is_told_once_by_who_knew_first() -> None:
    made, response = reader()
    response.take(head())
    response.take(Reset(stream=1, code=8, stamp=at(50)))
    response.transport_ended(Closed("rst", user_stamp(60)))
    assert [end["how"] for end in made.facts("http.end")] == ["reset"]


def test_the_transport_ends_what_http_left_open() -> None:
    made, response = reader()
    response.take(head())
    response.transport_ended(Closed("error", user_stamp(60), "TLS alert bad\x07 record"))
    (end,) = made.facts("http.end")
    assert end["how"] == "protocol-error" and "\x07" not in end["detail"]
    response.close(Outcome.OK, None)
    assert made.recorder.log.spans[0].end_ns == 60


def test_control_frames_are_marks_and_the_peers_settings_a_fact() -> None:
    made, response = reader()
    settings = {"max_concurrent_streams": 128}
    response.take(Control(name=MARK_SETTINGS, stamp=at(11), detail=dict(settings)))
    response.take(Control(name=MARK_SETTINGS, stamp=at(12), detail={"ack": True}))
    response.take(Control(name=MARK_WINDOW_UPDATE, stamp=at(13), detail={"increment": 5}))
    response.take(Goaway(code=0, last_stream=1, stamp=at(14), debug="bye\x1b[2J"))
    names = [mark.name for mark in made.recorder.log.marks]
    assert names == ["settings", "settings", "window-update", "goaway"]
    assert made.facts("http.settings") == [settings]
    assert "\x1b" not in made.recorder.log.marks[3].detail["debug"]


def test_a_failed_exchange_ends_its_span_as_failed_once() -> None:
    made, response = reader()
    made.time.advance(500)
    response.close(Outcome.TIMED_OUT, "idle-timeout")
    response.close(Outcome.OK, None)
    (span,) = made.recorder.log.spans
    assert (span.outcome, span.error, span.end_ns) == (Outcome.TIMED_OUT, "idle-timeout", 500)


def test_on_a_warm_connection_no_response_comes_before_its_request() -> None:
    made, response = reader()
    response.not_before_ns = 5
    long_ago = replace(at(20), lo_ns=-900, exact=False)
    response.take(replace(head(), stamp=long_ago))
    response.take(Control(name=MARK_SETTINGS, stamp=long_ago, detail={}))
    response.take(replace(data(b"x", 30, size=1), stamp=replace(long_ago, at_ns=30)))
    before, settings = made.recorder.log.marks
    (frame,) = (row for row in made.recorder.log.arrivals if row.layer is Layer.HTTP_FRAME)
    assert (before.lo_ns, before.at_ns, frame.lo_ns) == (5, 20, 5)
    assert settings.lo_ns == -900  # this may have come at any time


def test_an_answer_that_nobody_asked_for_keeps_its_time() -> None:
    made, response = reader()
    response.not_before_ns = 25
    response.take(replace(head(408), stamp=replace(at(20), lo_ns=3)))
    assert made.recorder.log.marks[0].lo_ns == 3


def test_a_head_before_the_request_left_opens_the_span_itself() -> None:
    made = scene()
    response = ResponseReader(made.recorder, PLAN, made.connection)
    response.take(head(413, ns=20))
    assert made.recorder.log.spans[0].start_ns == 20 and response.opened_ns == 20


def test_left_open_after_its_marker_is_our_leaving() -> None:
    made, response = reader()
    response.take(head())
    response.left_open()
    (end,) = made.facts("http.end")
    assert response.ended and (end["how"], end["complete"]) == ("cut-by-us", False)
