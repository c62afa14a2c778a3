"""HTTP/1.1 on real sockets: bytes in, bytes out."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from reference_server.asgi import Receive, Scope, Send
from reference_server.clock import monotonic_ns
from reference_server.settings import PaceSettings, ServiceSettings, Settings
from tests.reference_server.harness import Served, chat, in_loop, raw_exchange, serving

GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HALF = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"
FAST = Settings(pace=PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1))


def _post(body: dict[str, Any], *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: x", f"Content-Length: {len(data)}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + data


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with what was sent."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


async def _status_of(port: int, request: bytes) -> int:
    got = await raw_exchange(port, request)
    return int(got.split(b" ", 2)[1]) if got else 0


@in_loop
async def test_requests_on_one_connection_are_answered_in_order() -> None:
    async with serving() as served:
        got = await raw_exchange(served.port, GET + GET + LAST)
        assert got.count(b"HTTP/1.1 200") == 3
        assert got.count(b'{"status": "ok"}') == 3


@in_loop
async def test_a_request_that_comes_byte_by_byte_is_understood() -> None:
    async with serving(settings=FAST) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for byte in _post(chat(max_tokens=1), "Connection: close"):
            writer.write(bytes([byte]))
            await writer.drain()
        got = await reader.read()
        writer.close()
        assert b"200" in got.splitlines()[0] and b"[DONE]" in got


@in_loop
async def test_each_event_is_one_chunk() -> None:
    async with serving(settings=FAST) as served:
        got = await raw_exchange(served.port, _post(chat(max_tokens=3), "Connection: close"))
        body = got.partition(b"\r\n\r\n")[2]
        chunks = re.split(rb"\r\n(?=[0-9a-f]+\r\n)", b"\r\n" + body)[1:]
        assert len(chunks) == 1 + 3 + 1 + 1 + 1  # role, tokens, finish, [DONE], the last chunk
        for chunk in chunks[:-1]:
            size, _, data = chunk.partition(b"\r\n")
            assert len(data) == int(size, 16) and data.endswith(b"\n\n")


@in_loop
async def test_the_head_arrives_before_the_first_token_is_made() -> None:
    slow = Settings(pace=PaceSettings(base_ms=60_000))
    async with serving(settings=slow) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(_post(chat()))
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"server-timing: auth;dur=" in head
        writer.close()


@in_loop
async def test_http_1_0_gets_a_body_that_ends_with_the_connection() -> None:
    async with serving(settings=FAST) as served:
        request = _post(chat(max_tokens=1)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        got = await raw_exchange(served.port, request)
        assert b"transfer-encoding" not in got.lower() and got.endswith(b"data: [DONE]\n\n")


@in_loop
async def test_head_gets_the_headers_of_get_and_no_body() -> None:
    async with serving() as served:
        got = await raw_exchange(served.port, LAST.replace(b"GET", b"HEAD"))
        assert b"content-length: 16" in got.lower() and got.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"NONSENSE\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n", 400),
        (b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 8000 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
    ],
)
@in_loop
async def test_what_is_not_http_is_refused_and_the_connection_closed(
    request_bytes: bytes, status: int
) -> None:
    async with serving(app=_echo) as served:
        assert await _status_of(served.port, request_bytes) == status


@in_loop
async def test_a_body_is_asked_for_when_the_client_waits_to_be_asked() -> None:
    async with serving(app=_echo) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
        )
        assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        writer.write(b"abc")
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        writer.close()


@in_loop
async def test_a_body_that_is_refused_is_not_asked_for() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n"
            b"Expect: 100-continue\r\n\r\n"
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 413 " in head.splitlines()[0]
        assert b"connection: close" in head.lower()
        writer.close()


@in_loop
async def test_a_client_that_sends_too_much_still_reads_why() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        size = 17 * 1024 * 1024
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(17):
            writer.write(bytes(1024 * 1024))
            await writer.drain()
        assert b" 413 " in (await reader.readuntil(b"\r\n\r\n")).splitlines()[0]
        writer.close()


@in_loop
async def test_a_large_body_comes_whole_through_the_bounded_window() -> None:
    async with serving(app=_echo, body_window_bytes=10_000) as served:
        body = bytes(range(256)) * 8000
        request = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
        got = await raw_exchange(served.port, request % len(body) + body)
        chunks = got.partition(b"\r\n\r\n")[2]
        assert body in chunks


@pytest.mark.parametrize(
    ("first", "limits", "answer"),
    [
        (b"GET / HT", {"head_timeout_s": 0.05}, b" 408 "),
        (b"", {"head_timeout_s": 0.05}, b""),
        (GET, {"keepalive_timeout_s": 0.05}, b" 200 "),
        (HALF, {"body_timeout_s": 0.05}, b" 408 "),
    ],
)
@in_loop
async def test_a_client_that_stops_sending_is_let_go(
    first: bytes, limits: dict[str, Any], answer: bytes
) -> None:
    async with serving(**limits) as served:
        got = await raw_exchange(served.port, first)
        assert answer in got.partition(b"\r\n")[0]


async def _metric(served: Served, name: str) -> int:
    got = await raw_exchange(served.port, LAST.replace(b"/healthz", b"/metrics"))
    line = re.search(rf"{name}.* (\d+)\n".encode(), got)
    return int(line[1]) if line else 0


@in_loop
async def test_a_client_that_closes_frees_its_slot_within_a_step() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(_post(chat(max_tokens=1000)))
        await reader.readuntil(b"BGP")
        assert await _metric(served, "num_requests_running{") == 1
        writer.close()
        await writer.wait_closed()
        closed_ns = monotonic_ns()
        while await _metric(served, "num_requests_running{"):
            assert monotonic_ns() - closed_ns < 1_000_000_000, "the generation goes on"
        assert await _metric(served, 'finished_reason="abort"') == 1


@in_loop
async def test_a_client_that_reads_nothing_is_dropped_and_its_slot_freed() -> None:
    flood = Settings(
        pace=PaceSettings(base_ms=0, itl_ms=0, tokens_per_step=10_000),
        service=ServiceSettings(max_output_tokens=10**8),
    )
    async with serving(settings=flood, send_timeout_s=0.05) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1)
        writer.write(_post(chat(max_tokens=10**8)))
        await reader.read(1)
        while not await _metric(served, 'finished_reason="abort"'):
            await asyncio.sleep(0.01)
        assert await _metric(served, "num_requests_running{") == 0
        writer.close()


@pytest.mark.parametrize("how", ["reset", "close", "truncate"])
@in_loop
async def test_a_stream_breaks_off_as_asked(how: str) -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        path = f"/promptpath/fault/break?how={how}&events=2"
        writer.write(GET.replace(b"/healthz", path.encode()))
        if how == "reset":
            with pytest.raises(ConnectionResetError):
                while await reader.read(65536):
                    pass
        else:
            got = await reader.read()
            assert b"\r\n0\r\n\r\n" not in got
            assert got.count(b"event: tick") == (2 if how == "close" else 3)
        writer.close()
