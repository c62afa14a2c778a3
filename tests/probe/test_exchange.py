"""One request and its response on handed-in time: the upload's end, the limits, and every way in
which no response comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from promptpath.errors import MeasureError
from promptpath.model.plan import Limits, Plan
from promptpath.model.units import NS_PER_MS, NS_PER_S
from promptpath.probe.exchange import Exchange, LimitReached
from promptpath.probe.response import ResponseReader
from promptpath.wire.h2 import H2Connection
from tests.probe.scripted_link import PLAN, At, Scene, scene

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
LAST = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = (At(30, HEAD), At(50, chunk(TEXT)), At(60, chunk(TEXT)), At(61, chunk(DONE) + LAST))


def run(made: Scene, plan: Plan = PLAN, total_ms: float | None = None) -> ResponseReader:
    """Run the exchange; what it raises goes through."""
    total_ns = None if total_ms is None else round(total_ms * NS_PER_MS)
    exchange = Exchange(made.recorder, plan, made.connection, total_ns)
    return asyncio.run(exchange.run())


def limited(made: Scene, plan: Plan = PLAN, total_ms: float | None = None) -> LimitReached:
    """The limit that ended it."""
    with pytest.raises(LimitReached) as caught:
        run(made, plan, total_ms)
    return caught.value


def no_response(made: Scene) -> MeasureError:
    """Why no response came."""
    with pytest.raises(MeasureError) as caught:
        run(made)
    assert caught.value.stage == "wait" and caught.value.hint
    assert made.facts("http.status") == [] and made.span("upload")[1] is not None
    return caught.value


def test_the_upload_ends_and_the_wait_begins_when_the_last_byte_left() -> None:
    made = scene(*ANSWER, wire_ms=4, ack_ms=20)
    reader = run(made)
    assert made.link.written.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
    assert made.span("upload") == (0, 4, "ok")
    assert made.span("response") == (4, 61, "ok")
    assert (made.marks("request-written"), made.marks("request-wire")) == ([0], [4])
    assert made.marks("request-acked") == [24]
    assert (reader.status, reader.content_events, reader.ended) == (200, 2, True)
    (request,) = made.facts("http.request")
    assert (request["method"], request["body_bytes"]) == ("POST", 2)
    assert request["head_bytes"] + 2 == len(made.link.written)


def test_without_send_stamps_the_upload_ends_when_it_was_handed_over() -> None:
    made = scene(*ANSWER, wire_ms=None)
    run(made)
    assert made.span("upload") == (0, 0, "ok") and made.marks("request-wire") == []
    assert made.span("response") == (0, 61, "ok")


def test_an_answer_before_the_upload_ended_leaves_it_cancelled() -> None:
    early = b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n"
    made = scene(At(5, early), wire_ms=100)

    def never_written(mark: str) -> object:
        from tests.probe.scripted_link import UNKNOWN

        return UNKNOWN

    made.link.sent = never_written  # type: ignore[method-assign,assignment]
    assert run(made).status == 413
    assert made.span("upload")[2] == "cancelled"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ((At(5, "fin"),), "closed"),
        ((At(5, "rst"),), "reset"),
        ((At(5, "close-notify"),), "closed"),
        ((At(5, b"HTTP/1.1 200 OK\r\ncontent-"), At(6, "fin")), "closed"),
        ((At(5, b"SSH-2.0-OpenSSH_9.2\r\n"),), "bad-http"),
        ((At(5, b"\x15\x03\x01\x00\x02\x02\x46"), At(6, "fin")), None),
    ],
)
def test_no_response_says_what_came_instead(script: tuple[At, ...], code: str | None) -> None:
    error = no_response(scene(*script))
    assert code in (None, error.code)


@pytest.mark.parametrize(
    ("limits", "script", "name", "at_ms"),
    [
        (Limits(first_token_ns=40 * NS_PER_MS), (At(30, HEAD), At(90, b"")), "first-token", 44),
        (
            Limits(first_token_ns=NS_PER_S, idle_ns=10 * NS_PER_MS),
            (*ANSWER[:2], At(90, b"")),
            "idle",
            60,
        ),
        # Without a limit for the first token, silence before it is idleness too.
        (Limits(idle_ns=10 * NS_PER_MS), (At(5, HEAD), At(90, b"")), "idle", 10),
        # A keepalive is no content: it does not push the idle limit on.
        (
            Limits(first_token_ns=NS_PER_S, idle_ns=10 * NS_PER_MS),
            (*ANSWER[:2], At(55, chunk(b": ping\n\n")), At(90, b"")),
            "idle",
            60,
        ),
    ],
)
def test_limits_of_ours_end_the_run_at_their_time(
    limits: Limits, script: tuple[At, ...], name: str, at_ms: float
) -> None:
    made = scene(*script, wire_ms=4)
    limit = limited(made, replace(PLAN, limits=limits))
    assert limit.name == f"{name}-timeout"
    assert made.recorder.now_ns() == at_ms * NS_PER_MS
    assert made.facts("http.end")[0]["how"] == "cut-by-us"
    assert made.span("response")[1:] == (at_ms, "timed-out")


def test_the_total_limit_counts_before_the_head_too() -> None:
    made = scene(At(90, HEAD))
    limit = limited(made, total_ms=70)
    assert limit.name == "timeout" and made.recorder.now_ns() == 70 * NS_PER_MS
    assert made.facts("http.end") == []  # there is no response that could have ended


def test_max_bytes_ends_an_endless_body() -> None:
    made = scene(At(30, HEAD), *(At(40 + n, chunk(TEXT)) for n in range(50)))
    plan = replace(PLAN, limits=Limits(max_bytes=5 * len(TEXT)))
    limit = limited(made, plan)
    assert (limit.name, limit.value) == ("max-bytes", 5 * len(TEXT))
    assert made.recorder.now_ns() == 45 * NS_PER_MS  # the sixth event is one too many


def test_a_response_left_open_after_its_marker_is_left_after_a_while() -> None:
    made = scene(At(30, HEAD), At(50, chunk(TEXT)), At(60, chunk(DONE)), At(9000, LAST))
    reader = run(made)
    assert reader.ended and made.recorder.now_ns() == 1560 * NS_PER_MS
    assert made.facts("http.end")[0]["how"] == "cut-by-us"
    assert made.span("response")[2] == "ok"


def test_an_interrupt_keeps_what_there_was() -> None:
    made = scene(*ANSWER[:2])

    async def interrupted() -> None:
        receive = made.link.receive

        async def then_hang(deadline_ns: int | None = None) -> object:
            if made.recorder.now_ns() >= 50 * NS_PER_MS:
                await asyncio.Event().wait()
            return await receive(deadline_ns)

        made.link.receive = then_hang  # type: ignore[method-assign,assignment]
        exchange = Exchange(made.recorder, PLAN, made.connection, None)
        task = asyncio.create_task(exchange.run())
        while made.recorder.now_ns() < 50 * NS_PER_MS:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    assert made.span("response")[2] == "cancelled"
    assert made.facts("http.end")[0]["detail"] == "interrupted"
    assert len(made.recorder.log.events) == 1


def test_two_requests_of_one_connection_have_marks_of_their_own() -> None:
    made = scene(*ANSWER, At(90, HEAD), At(95, chunk(DONE) + LAST))
    run(made)
    run(made)
    assert list(made.link.marks) == ["request-1", "request-2"]
    assert len(made.marks("request-wire")) == 2


def test_an_upload_beyond_the_window_is_marked_where_it_stalls() -> None:
    http = H2Connection()
    http.data_to_send()
    made = scene(At(30, "rst"), plan=PLAN, http=http)
    with pytest.raises(MeasureError):
        run(made, replace(PLAN, body=bytes(100_000)))
    (mark,) = [mark for mark in made.recorder.log.marks if mark.name == "window-stall"]
    assert mark.detail == {"state": "begin", "scope": "connection"}
    assert made.span("upload")[2] == "failed"
    assert made.link.marks == {}  # the last byte never went
