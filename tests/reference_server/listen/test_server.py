"""Start and orderly stop."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest

from reference_server.app import create_app
from reference_server.clock import monotonic_ns
from reference_server.listen.server import Listener
from reference_server.settings import ListenSettings, PaceSettings, Settings
from tests.peers.certs import Certificates
from tests.reference_server.harness import in_loop, serving

STREAM = b"GET /promptpath/silence?silence_ms=60000 HTTP/1.1\r\nHost: x\r\n\r\n"


@in_loop
async def test_a_port_that_is_taken_is_an_oserror() -> None:
    async with serving() as served:
        listener = Listener(create_app(), ListenSettings(port=served.port))
        with pytest.raises(OSError, match="in use"):
            await listener.start()
        await listener.stop()


@in_loop
async def test_a_stop_closes_idle_connections_at_once() -> None:
    async with serving() as served:
        reader, first = await asyncio.open_connection("127.0.0.1", served.port)
        other, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await other.readuntil(b"}")
        began_ns = monotonic_ns()
        await served.listener.stop(grace_s=10)
        assert monotonic_ns() - began_ns < 5_000_000_000
        assert await reader.read() == await other.read() == b""
        first.close()
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", served.port)


@in_loop
async def test_an_idle_tls_client_that_never_says_goodbye_does_not_hold_the_stop(
    certs: Certificates,
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with serving(leaf=certs.good) as served:
        with socket.create_connection(("localhost", served.port)) as plain:
            plain.settimeout(10)
            secure = await asyncio.to_thread(
                context.wrap_socket, plain, server_hostname="localhost"
            )
            began_ns = monotonic_ns()
            await served.listener.stop(grace_s=20)
            assert monotonic_ns() - began_ns < 10_000_000_000
            secure.close()


@in_loop
async def test_a_running_stream_may_end_within_the_grace() -> None:
    fast = Settings(pace=PaceSettings(base_ms=1, itl_ms=1))
    async with serving(settings=fast) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        path = b"/promptpath/calibrate?events=20&max_gap_ms=6"
        writer.write(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        await reader.readuntil(b"tick")
        await served.listener.stop(grace_s=10)
        rest = await reader.read()
        assert b"event: end" in rest and rest.endswith(b"0\r\n\r\n")
        writer.close()


@in_loop
async def test_a_stream_that_does_not_end_in_time_is_broken_off() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(STREAM)
        await reader.readuntil(b"tick")
        await served.listener.stop(grace_s=0.01)
        assert not (await reader.read()).endswith(b"0\r\n\r\n")
        names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
        assert "Http1Connection._answer" not in names
        writer.close()
