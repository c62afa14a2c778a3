"""HTTP/2 on real sockets, asked by httpx and frame by frame with h2."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import struct
from collections.abc import AsyncIterator

import h2.config
import h2.connection
import h2.events
import h2.settings
import httpx
import pytest
from h2.errors import ErrorCodes
from h2.events import Event
from h2.settings import SettingCodes

from reference_server.asgi import Receive, Scope, Send
from reference_server.clock import monotonic_ns
from reference_server.settings import PaceSettings, Settings
from tests.peers.certs import Certificates
from tests.reference_server.harness import Served, chat, data_lines, in_loop, serving

FAST = Settings(pace=PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1))
HEADERS = [(":method", "GET"), (":path", "/healthz"), (":scheme", "http"), (":authority", "x")]
CHAT = [(":method", "POST"), (":path", "/v1/chat/completions"), *HEADERS[2:]]


class RawClient:
    """An HTTP/2 client with prior knowledge that opens its window only when told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.seen: list[Event] = []

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, headers: list[tuple[str, str]], body: bytes = b"") -> int:
        stream_id = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream_id, headers, end_stream=not body)
        if body:
            self.h2.send_data(stream_id, body, end_stream=True)
        self.flush()
        return stream_id

    async def until(self, kind: type[Event], stream_id: int | None = None) -> Event:
        """Read until such an event comes; a closed connection is an error."""
        while True:
            for event in self.seen:
                if isinstance(event, kind) and stream_id in (
                    None,
                    getattr(event, "stream_id", None),
                ):
                    return event
            data = await self.reader.read(65536)
            if not data:
                raise ConnectionError("the server closed")
            self.seen += self.h2.receive_data(data)
            self.flush()

    def data(self, stream_id: int) -> bytes:
        """The body so far."""
        return b"".join(
            event.data or b""
            for event in self.seen
            if isinstance(event, h2.events.DataReceived) and event.stream_id == stream_id
        )


@contextlib.asynccontextmanager
async def raw_client(served: Served, window: int = 65_535) -> AsyncIterator[RawClient]:
    """Connect; each stream's window starts with `window` bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    client = RawClient(reader, writer)
    client.h2.local_settings = h2.settings.Settings(
        client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: window}
    )
    client.h2.initiate_connection()
    client.flush()
    try:
        yield client
    finally:
        writer.close()


def _client(certs: Certificates, http2: bool = True) -> httpx.AsyncClient:
    context = ssl.create_default_context(cafile=str(certs.ca))
    return httpx.AsyncClient(http2=http2, http1=not http2, verify=context, trust_env=False)


@in_loop
async def test_streams_of_one_connection_run_side_by_side(certs: Certificates) -> None:
    async with serving(settings=FAST, leaf=certs.good) as served, _client(certs) as client:
        url = served.url + "/v1/chat/completions"
        answers = await asyncio.gather(
            *(client.post(url, json=chat(max_tokens=20)) for _ in range(10))
        )
        for answer in answers:
            assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
            assert data_lines(answer.content)[-1] == b"[DONE]"
            assert len(data_lines(answer.content)) == 20 + 3


@in_loop
async def test_each_event_is_one_data_frame() -> None:
    async with serving(settings=FAST) as served, raw_client(served) as client:
        stream = client.ask(CHAT, _body(3))
        await client.until(h2.events.StreamEnded, stream)
        frames = [e.data for e in client.seen if isinstance(e, h2.events.DataReceived) and e.data]
        assert len(frames) == 1 + 3 + 1 + 1
        assert all(frame.endswith(b"\n\n") for frame in frames)


def _body(tokens: int) -> bytes:
    return json.dumps(chat(max_tokens=tokens)).encode()


@in_loop
async def test_a_closed_window_holds_one_stream_loses_nothing_and_lets_others_go_on() -> None:
    async with serving(settings=FAST) as served, raw_client(served, window=100) as client:
        held = client.ask(CHAT, _body(10))
        await client.until(h2.events.DataReceived, held)
        other = client.ask(HEADERS)
        await client.until(h2.events.StreamEnded, other)
        assert client.data(other) == b'{"status": "ok"}'
        assert len(client.data(held)) == 100
        while b"[DONE]" not in client.data(held):
            client.h2.increment_flow_control_window(97, held)
            client.flush()
            before = len(client.data(held))
            while len(client.data(held)) == before:
                client.seen += client.h2.receive_data(await client.reader.read(65536))
        assert len(data_lines(client.data(held))) == 10 + 3


@in_loop
async def test_a_stamp_is_taken_after_the_wait_for_the_window() -> None:
    async with serving(settings=FAST) as served, raw_client(served, window=1) as client:
        headers = [*CHAT, ("x-promptpath-timing", "1")]
        held = client.ask(headers, _body(1))
        await client.until(h2.events.DataReceived, held)
        await asyncio.sleep(0.05)
        opened_ns = monotonic_ns()
        client.h2.increment_flow_control_window(60_000, held)
        client.flush()
        await client.until(h2.events.StreamEnded, held)
        stamps = [
            json.loads(line)["promptpath"]["sent_ns"]
            for line in data_lines(client.data(held))
            if line != b"[DONE]"
        ]
        assert stamps[0] < opened_ns  # its first byte went out into the open window
        assert all(stamp > opened_ns for stamp in stamps[1:])


@in_loop
async def test_a_window_that_stays_closed_ends_its_stream_only() -> None:
    async with (
        serving(settings=FAST, send_timeout_s=0.05) as served,
        raw_client(served, window=100) as client,
    ):
        held = client.ask(CHAT, _body(10))
        reset = await client.until(h2.events.StreamReset, held)
        assert isinstance(reset, h2.events.StreamReset)
        await client.until(h2.events.StreamEnded, client.ask(HEADERS))


async def _running(client: RawClient) -> int:
    asked = client.ask([(":method", "GET"), (":path", "/metrics"), *HEADERS[2:]])
    await client.until(h2.events.StreamEnded, asked)
    for line in client.data(asked).decode().splitlines():
        if line.startswith("vllm:num_requests_running{"):
            return int(line.rpartition(" ")[2])
    raise AssertionError("no such metric")


@in_loop
async def test_a_stream_that_the_client_resets_frees_its_slot_and_the_connection_lives() -> None:
    async with serving() as served, raw_client(served) as client:
        stream = client.ask(CHAT, _body(1000))
        await client.until(h2.events.DataReceived, stream)
        assert await _running(client) == 1
        client.h2.reset_stream(stream, ErrorCodes.CANCEL)
        client.flush()
        while await _running(client):
            pass


@in_loop
async def test_a_large_upload_goes_through_and_the_window_opens_again() -> None:
    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(size).encode()})

    async with serving(app=count, body_window_bytes=20_000) as served, _clear_client() as client:
        # More than the connection's window, so it must be given back as the application reads.
        answer = await client.post(served.url, content=bytes(1_000_000))
        assert answer.text == "1000000"
        assert answer.http_version == "HTTP/2"


def _clear_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(http1=False, http2=True, trust_env=False)


@in_loop
async def test_an_answer_before_the_end_of_the_request_stops_the_upload_without_error() -> None:
    async with serving() as served, raw_client(served) as client:
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, [*CHAT, ("content-length", "99999999")])
        client.h2.send_data(stream, b"x" * 1000)
        client.flush()
        reset = await client.until(h2.events.StreamReset, stream)
        assert isinstance(reset, h2.events.StreamReset)
        assert reset.error_code == ErrorCodes.NO_ERROR
        assert b"request_too_large" in client.data(stream)


@pytest.mark.parametrize(
    "frame",
    [
        b"\x00\x00\x04\x00\x00\x00\x00\x00\x00abcd",  # DATA on stream 0
        b"\x00\x00\x01\x01\x04\x00\x00\x00\x01\xff",  # HEADERS whose block is broken HPACK
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",  # WINDOW_UPDATE by 0
        b"\x00\x50\x00\x00\x00\x00\x00\x00\x01" + bytes(0x5000),  # a frame larger than allowed
    ],
)
@in_loop
async def test_a_broken_frame_is_answered_with_goaway_and_the_connection_closed(
    frame: bytes,
) -> None:
    async with serving() as served, raw_client(served) as client:
        client.writer.write(frame)
        goaway = await client.until(h2.events.ConnectionTerminated)
        assert isinstance(goaway, h2.events.ConnectionTerminated)
        assert goaway.error_code != ErrorCodes.NO_ERROR
        assert await client.reader.read() == b""


@in_loop
async def test_headers_beyond_the_limit_end_the_connection() -> None:
    async with serving(max_head_bytes=2000) as served, raw_client(served) as client:
        client.ask([*HEADERS, ("x-long", "a" * 3000)])
        goaway = await client.until(h2.events.ConnectionTerminated)
        assert isinstance(goaway, h2.events.ConnectionTerminated)


@in_loop
async def test_a_client_that_resets_without_end_is_told_to_calm_down() -> None:
    async with serving() as served, raw_client(served) as client:
        goaway = None
        for _ in range(60):
            for _ in range(20):
                stream = client.ask(HEADERS)
                client.h2.reset_stream(stream, ErrorCodes.CANCEL)
            client.flush()
            await client.writer.drain()
        goaway = await client.until(h2.events.ConnectionTerminated)
        assert isinstance(goaway, h2.events.ConnectionTerminated)
        assert goaway.error_code == ErrorCodes.ENHANCE_YOUR_CALM


@in_loop
async def test_a_stop_lets_the_stream_end_and_then_closes() -> None:
    async with serving(settings=FAST) as served, raw_client(served) as client:
        stream = client.ask(CHAT, _body(50))
        await client.until(h2.events.DataReceived, stream)
        stopping = asyncio.ensure_future(served.listener.stop(grace_s=10))
        # As bytes: h2 as a client reads nothing more after a GOAWAY.
        rest = await client.reader.read()
        before, goaway, after = rest.partition(b"\x00\x00\x08\x07\x00" + bytes(4))
        assert goaway and b"[DONE]" not in before and b"[DONE]" in after
        assert after[:8] == struct.pack(">II", stream, ErrorCodes.NO_ERROR)
        await stopping


@in_loop
async def test_an_idle_connection_is_closed_with_goaway() -> None:
    async with serving(keepalive_timeout_s=0.05) as served, raw_client(served) as client:
        await client.until(h2.events.StreamEnded, client.ask(HEADERS))
        await client.until(h2.events.ConnectionTerminated)
        assert await client.reader.read() == b""


@in_loop
async def test_a_head_request_has_no_body() -> None:
    async with serving() as served, raw_client(served) as client:
        stream = client.ask([(":method", "HEAD"), *HEADERS[1:]])
        await client.until(h2.events.StreamEnded, stream)
        assert client.data(stream) == b""


@pytest.mark.parametrize(
    ("how", "kind"), [("reset", h2.events.StreamReset), ("close", None), ("truncate", None)]
)
@in_loop
async def test_a_stream_breaks_off_as_asked(how: str, kind: type[Event] | None) -> None:
    async with serving() as served, raw_client(served) as client:
        path = f"/promptpath/fault/break?how={how}&events=2"
        stream = client.ask([(":method", "GET"), (":path", path), *HEADERS[2:]])
        if kind is not None:
            await client.until(kind, stream)
        else:
            with pytest.raises(ConnectionError):
                await client.until(h2.events.StreamEnded, stream)
        assert client.data(stream).count(b"event: tick") == (3 if how == "truncate" else 2)
