"""Broken bytes of every kind: the server stays up, logs no failure and leaks no task."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import Any

import h2.config
import h2.connection
import pytest

from reference_server.settings import PaceSettings, Settings
from tests.reference_server.harness import chat, in_loop, raw_exchange, serving

FAST = Settings(pace=PaceSettings(base_ms=0, prefill_ms_per_token=0, itl_ms=0))
GOOD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def _http1() -> bytes:
    body = json.dumps(chat(max_tokens=2)).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body + GOOD


def _http1_chunked() -> bytes:
    head = b"POST /v1/messages HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b'5\r\n{"a":\r\n2;x=y\r\n1}\r\n0\r\nTrailer: t\r\n\r\n' + GOOD


def _http2() -> bytes:
    client = h2.connection.H2Connection(h2.config.H2Configuration())
    client.initiate_connection()
    headers = [(":method", "POST"), (":path", "/v1/messages"), (":scheme", "http")]
    client.send_headers(1, [*headers, (":authority", "x"), ("content-length", "2")])
    client.send_data(1, b"{}", end_stream=True)
    client.ping(b"12345678")
    client.reset_stream(1)
    client.send_headers(3, [*headers, (":authority", "x")], end_stream=True)
    client.increment_flow_control_window(1000)
    client.close_connection()
    return client.data_to_send()


def _mutate(data: bytes, rng: random.Random) -> bytes:
    broken = bytearray(data)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(broken))
        match rng.randrange(5):
            case 0:
                broken[at] = rng.randrange(256)
            case 1:
                del broken[at : at + rng.randint(1, 20)]
            case 2:
                broken[at:at] = rng.randbytes(rng.randint(1, 20))
            case 3:
                broken[at:at] = broken[at : at + rng.randint(1, 60)]
            case _:
                broken = broken[: at + 1]
        if not broken:
            return data
    return bytes(broken)


@pytest.mark.slow
@pytest.mark.parametrize("make", [_http1, _http1_chunked, _http2])
@in_loop
async def test_broken_requests_never_break_the_server(
    make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rng = random.Random(make.__name__)
    failures: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    limits: dict[str, Any] = dict.fromkeys(
        ("head_timeout_s", "body_timeout_s", "keepalive_timeout_s"), 0.05
    )
    async with serving(settings=FAST, lingering_timeout_s=0.05, **limits) as served:
        for _ in range(10):
            inputs = [_mutate(make(), rng) for _ in range(20)]
            await asyncio.gather(*(_send(served.port, data, rng) for data in inputs))
        assert b" 200 " in await raw_exchange(served.port, GOOD)
    assert failures == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    left = [task for task in asyncio.all_tasks() if "_answer" in repr(task)]
    assert left == []


async def _send(port: int, data: bytes, rng: random.Random) -> None:
    cut = rng.randrange(len(data) + 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data[:cut])
        await writer.drain()
        writer.write(data[cut:])
        while await reader.read(65536):
            pass
    except ConnectionError:
        pass  # A reset is a fair answer to nonsense.
    finally:
        writer.close()
