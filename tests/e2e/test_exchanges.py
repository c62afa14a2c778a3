"""What HTTP can do on the way: redirects, early hints, trailers, compression, slow and windowed
uploads."""

from __future__ import annotations

import json
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.trip import CHAT, Trip, ask, prompt, trip, trips
from tests.peers.scripted import (
    LAST_CHUNK,
    ReadRequest,
    ScriptedOrigin,
    Step,
    Wait,
    chunk,
    head,
    response,
    sse_stream,
)
from tests.peers.scripted_h2 import (
    AwaitRequest,
    Data,
    H2Step,
    Headers,
    Informational,
    ScriptedH2Origin,
    Trailers,
)
from tests.peers.threaded import Connection

KEY = "key-of-nobody-42"
GAP_MS = 25.0


def delta(text: str) -> bytes:
    """One content event of a chat completion."""
    choice = {"index": 0, "delta": {"content": text}}
    payload = {"object": "chat.completion.chunk", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(payload).encode()


FINISH = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"
EVENTS = [delta("one "), delta("two "), delta("three"), FINISH, DONE]
STREAM = ["wait", "generation", "finish"]


def redirect(status: int, location: str) -> bytes:
    """A redirect without a body."""
    return response(status, b"", "text/plain", ("location", location))


def lines(origin: ScriptedOrigin) -> list[str]:
    """The request lines that came."""
    return [request.split(b"\r\n")[0].decode() for request in origin.requests]


@pytest.mark.parametrize(("status", "method"), [(302, "GET"), (308, "POST")])
def test_a_relative_redirect_is_a_second_exchange_on_the_same_connection(
    status: int, method: str
) -> None:
    first: list[Step] = [ReadRequest(), redirect(status, "../v2/chat/completions?x=1")]
    with ScriptedOrigin([*first, *sse_stream(EVENTS, gap_ms=2)]) as origin:
        found = ask(origin.url(CHAT))
        assert len(origin.connections) == 1
    assert lines(origin) == [
        f"POST {CHAT} HTTP/1.1",
        f"{method} /v1/v2/chat/completions?x=1 HTTP/1.1",
    ]
    assert (b'"model"' in origin.requests[1]) == (method == "POST")
    # The second exchange's hops follow the first one's; nothing is dialled again.
    assert found.stages == ["dns", "tcp", "request", "wait", "request", *STREAM]
    assert found.fact("http.redirect")["status"] == status
    assert found.facts("http.status") == [status, 200]
    assert found.report["end_state"] == "complete"


def test_a_redirect_to_another_host_dials_again_and_keeps_the_key_back() -> None:
    with ScriptedOrigin(sse_stream(EVENTS)) as second:
        onward = f"http://localhost:{second.port}{CHAT}"
        with ScriptedOrigin([ReadRequest(), redirect(307, onward)]) as first:
            found = ask(
                first.url(CHAT),
                "--key-env",
                "MY_KEY",
                "-4",
                "-H",
                "x-plain: kept",
                environ={"MY_KEY": KEY},
            )
    assert KEY.encode() in first.requests[0] and KEY.encode() not in second.requests[0]
    assert b"x-plain: kept" in second.requests[0]
    dialled = ["dns", "tcp", "request", "wait"]
    assert found.stages == [*dialled, "dns", "tcp", "request", *STREAM]
    assert found.fact("http.redirect")["to"] == onward


def test_a_redirect_loop_ends() -> None:
    steps: list[Step] = []
    for _ in range(20):
        steps += [ReadRequest(), redirect(307, CHAT)]
    with ScriptedOrigin(steps) as origin:
        found = ask(origin.url(CHAT), code=1)  # PP516: it leads nowhere
    assert len(origin.requests) == 6  # the first and five more
    assert len(found.facts("http.redirect")) == 5
    assert found.stages == ["dns", "tcp", *["request", "wait"] * 6]


def test_early_hints_come_before_the_head_and_are_kept() -> None:
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: </x.css>; rel=preload\r\n\r\n"
    with ScriptedOrigin([ReadRequest(), hints, Wait(60), *sse_stream(EVENTS)[1:]]) as origin:
        check_hinted(ask(origin.url(CHAT)))


def test_early_hints_over_http_2() -> None:
    hints = Informational(103, (("link", "</x.css>; rel=preload"),))
    body = Data(b"".join(EVENTS), end=True)
    script: list[H2Step] = [AwaitRequest(), hints, Wait(60), Headers(), body]
    with ScriptedH2Origin(script) as origin:
        check_hinted(ask(origin.url(CHAT), "--http", "2"))


def check_hinted(found: Trip) -> None:
    """103 was taken as what it is."""
    assert found.stages == ["dns", "tcp", "request", *STREAM]
    informational = found.fact("http.informational")
    assert informational["status"] == 103
    assert ["link", "</x.css>; rel=preload"] in informational["headers"]
    (hint,), (answer,) = found.marks("informational"), found.marks("head")
    assert answer["at_ns"] - hint["at_ns"] >= 20e6
    assert found.facts("http.status") == [200]


def test_trailers_of_a_chunked_body() -> None:
    steps: list[Step] = [ReadRequest(), head(200, "text/event-stream", ("trailer", "x-cost"))]
    steps += [chunk(event) for event in EVENTS]
    with ScriptedOrigin([*steps, b"0\r\nx-cost: 3\r\n\r\n"]) as origin:
        found = ask(origin.url(CHAT))
    assert found.fact("http.trailers") == [["x-cost", "3"]]
    assert found.marks("trailers") and found.report["end_state"] == "complete"


def test_trailers_over_http_2() -> None:
    body = Data(b"".join(EVENTS))
    with ScriptedH2Origin(
        [AwaitRequest(), Headers(), body, Trailers((("x-cost", "3"),))]
    ) as origin:
        found = ask(origin.url(CHAT), "--http", "2")
    assert found.fact("http.trailers") == [["x-cost", "3"]]
    assert found.report["end_state"] == "complete"


def test_gzip_is_decoded_without_holding_an_event() -> None:
    packer = zlib.compressobj(wbits=31)
    steps: list[Step] = [
        ReadRequest(),
        head(200, "text/event-stream", ("content-encoding", "gzip")),
    ]
    for event in EVENTS:
        steps += [chunk(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)), Wait(GAP_MS)]
    steps += [chunk(packer.flush()), LAST_CHUNK]
    with ScriptedOrigin(steps) as origin:
        found = ask(origin.url(CHAT), "--accept-encoding", "gzip")
        sent_ns = origin.sent_at_ns[1 : 1 + len(EVENTS)]
    assert b"accept-encoding: gzip\r\n" in origin.requests[0]
    decoder = found.fact("http.content_decoder")
    assert (decoder["encoding"], decoder["error"]) == ("gzip", None)
    assert decoder["decoded_bytes"] == sum(map(len, EVENTS)) > 0
    t0_ns = found.trace["clock"]["epoch_monotonic_ns"]
    came_ns = [t0_ns + event["at_ns"] for event in found.texts]
    assert len(came_ns) == 3
    # Each came before the next one was sent, and none before it was sent itself.
    for came, sent, following in zip(came_ns, sent_ns, sent_ns[1:], strict=False):
        assert sent <= came < following
    assert min(came - sent for came, sent in zip(came_ns, sent_ns, strict=False)) < 2e6


def slow_reader(size: int, seconds: float) -> Callable[[Connection], None]:
    """Reads a request of about `size` bytes evenly over that time, then answers."""

    def play(connection: Connection) -> None:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        data = connection.read_until(b"\r\n\r\n")
        length = int(data.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        step = length // 40
        while length:
            length -= len(connection.read_exactly(min(step, length)))
            time.sleep(seconds / 40)
        connection.send(head() + b"".join(map(chunk, EVENTS)) + LAST_CHUNK)
        connection.finish()
        connection.wait_closed()

    return play


def test_a_large_upload_through_a_slow_reader_is_the_request_hop_not_the_wait(
    tmp_path: Path,
) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"model": "m", "messages": ["x" * 2_000_000], "stream": True}))
    with ScriptedOrigin(slow_reader(2_000_000, 0.4)) as origin:
        found = trip(origin.url(CHAT), "--data", f"@{body}", "--proxy", "none", "--timeout", "20s")
    assert found.stages == ["dns", "tcp", "request", *STREAM]
    assert found.hop_ms("request") > 250
    assert found.hop_ms("request") > 3 * found.hop_ms("wait")
    assert found.fact("http.request")["body_bytes"] == body.stat().st_size
    (written,), (wire,) = found.marks("request-written"), found.marks("request-wire")
    assert written["lo_ns"] <= wire["at_ns"] and wire["clock"] == "kernel"
    (acked,) = found.marks("request-acked")
    assert wire["at_ns"] <= acked["at_ns"]
    assert "PP209" in found.codes  # the upload takes a large part


def test_an_upload_beyond_the_http_2_window_stalls_and_is_marked(tmp_path: Path) -> None:
    # Both of the peer's windows hold 65,535 bytes (RFC 9113 section 6.9.2).
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"model": "m", "messages": ["x" * 300_000], "stream": True}))
    answer: list[H2Step] = [AwaitRequest(), Headers(), Data(b"".join(EVENTS), end=True)]
    with ScriptedH2Origin(answer) as origin:
        options = ["--http", "2", "--proxy", "none", "--timeout", "20s"]
        found = trip(origin.url(CHAT), *options, "--data", f"@{body}")
        assert len(origin.requests[0].body) == body.stat().st_size
    assert found.stages == ["dns", "tcp", "request", *STREAM]
    stalls = [mark["detail"] for mark in found.marks("window-stall")]
    assert stalls[0] == {"state": "begin", "scope": "connection"}
    assert [stall["state"] for stall in stalls] == ["begin", "end"] * (len(stalls) // 2)


def test_there_is_no_warm_run_on_a_connection_that_the_server_closed() -> None:
    with ScriptedOrigin(sse_stream(EVENTS)) as origin:
        (cold,) = trips(*prompt(origin.url(CHAT), "--warm"))
        assert len(origin.requests) == 1
    assert cold.fact("run")["kind"] == "cold"


def test_there_is_no_warm_run_after_connection_close() -> None:
    closing = head(200, "text/event-stream", ("connection", "close"))
    steps: list[Step] = [ReadRequest(), closing, *map(chunk, EVENTS), LAST_CHUNK, ReadRequest()]
    with ScriptedOrigin(steps) as origin:
        trips(*prompt(origin.url(CHAT), "--warm"))
        assert len(origin.requests) == 1
