"""Which HTTP a connection speaks: by ALPN, or by its first bytes."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
from typing import Any

import httpx
import pytest

from reference_server.clock import monotonic_ns
from reference_server.settings import PaceSettings, ServiceSettings, Settings
from tests.peers.certs import Certificates
from tests.reference_server.harness import chat, in_loop, raw_exchange, serving

CLOSING = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


async def _alpn(port: int, certs: Certificates, offered: list[str]) -> str | None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    if offered:
        context.set_alpn_protocols(offered)
    _, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    chosen: str | None = writer.get_extra_info("ssl_object").selected_alpn_protocol()
    writer.close()
    return chosen


@pytest.mark.parametrize(
    ("listen", "offered", "chosen"),
    [
        ({}, ["h2", "http/1.1"], "h2"),
        ({}, ["http/1.1"], "http/1.1"),
        ({}, [], None),
        ({"http2": False}, ["h2", "http/1.1"], "http/1.1"),
        ({"http1": False}, ["http/1.1", "h2"], "h2"),
    ],
)
@in_loop
async def test_alpn_chooses_what_both_speak(
    certs: Certificates, listen: dict[str, Any], offered: list[str], chosen: str | None
) -> None:
    async with serving(leaf=certs.good, **listen) as served:
        assert await _alpn(served.port, certs, offered) == chosen


@in_loop
async def test_under_tls_too_a_client_that_does_not_read_stops_the_stamps(
    certs: Certificates,
) -> None:
    flood = Settings(
        pace=PaceSettings(base_ms=0, itl_ms=0, tokens_per_step=2000),
        service=ServiceSettings(max_output_tokens=10**8),
    )
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with serving(settings=flood, leaf=certs.good) as served:
        # Small kernel buffers on both sides; the accepted socket inherits the listening one's.
        assert served.listener._server is not None
        listening = served.listener._server.sockets[0]
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", served.port))
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=context, server_hostname="localhost", limit=100_000
        )
        body = json.dumps(chat(max_tokens=400_000)).encode()
        head = f"Host: x\r\nX-Promptpath-Timing: 1\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(f"POST /v1/chat/completions HTTP/1.1\r\n{head}".encode() + body)
        await reader.read(1)
        await asyncio.sleep(0.1)
        resumed_ns = monotonic_ns()
        got = bytearray()
        while b"[DONE]" not in got[-40:]:
            got += await reader.read(1_000_000)
        stamps = list(map(int, re.findall(rb'"sent_ns":(\d+)', got)))
        assert len(stamps) == 200 + 2
        # About 10 kB an event: the buffers on the way hold some 50 of them at most.
        assert sum(stamp > resumed_ns for stamp in stamps) > 100
        writer.close()


@pytest.mark.parametrize("http2", [False, True])
@in_loop
async def test_both_versions_are_served_over_tls(certs: Certificates, http2: bool) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with (
        serving(leaf=certs.good) as served,
        httpx.AsyncClient(http2=http2, verify=context, trust_env=False) as client,
    ):
        answer = await client.get(served.url + "/healthz")
        assert answer.http_version == ("HTTP/2" if http2 else "HTTP/1.1")
        assert answer.json() == {"status": "ok"}


@in_loop
async def test_tls_without_alpn_is_told_apart_by_the_first_bytes(certs: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with serving(leaf=certs.good) as served:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", served.port, ssl=context, server_hostname="localhost"
        )
        writer.write(CLOSING)
        assert b" 200 " in await reader.read()
        writer.close()


@in_loop
async def test_in_clear_text_the_preface_makes_it_http2_however_it_is_cut() -> None:
    async with serving() as served:
        for cut in range(len(PREFACE)):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(PREFACE[:cut])
            await writer.drain()
            writer.write(PREFACE[cut:] + SETTINGS)
            frame = await reader.readexactly(9)
            assert frame[3] == 4  # the server's SETTINGS
            writer.close()


@in_loop
async def test_what_only_begins_like_the_preface_is_http1() -> None:
    async with serving() as served:
        assert b" 400 " in await raw_exchange(served.port, b"PRI * HTTP/1.1\r\n\r\n")
        assert b" 405 " in await raw_exchange(
            served.port, b"PRINT / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )


@in_loop
async def test_the_version_that_is_switched_off_is_refused() -> None:
    async with serving(http2=False) as served:
        assert b"HTTP/1.1 4" in await raw_exchange(served.port, PREFACE + SETTINGS)
    async with serving(http1=False) as served:
        got = await raw_exchange(served.port, CLOSING)
        assert b"HTTP/1.1" not in got and got[3] == 4


@in_loop
async def test_a_client_that_says_nothing_is_let_go_and_so_is_half_a_preface() -> None:
    async with serving(head_timeout_s=0.05) as served:
        assert await raw_exchange(served.port, b"") == b""
        assert await raw_exchange(served.port, PREFACE[:10]) == b""
