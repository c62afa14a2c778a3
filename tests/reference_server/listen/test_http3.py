"""HTTP/3 on real sockets, asked by aioquic as a client."""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl

import httpx
import pytest
from aioquic.buffer import encode_uint_var
from aioquic.quic.events import PingAcknowledged

from reference_server.asgi import Receive, Scope, Send
from reference_server.clock import monotonic_ns
from reference_server.settings import PaceSettings, Settings
from tests.peers.certs import Certificates
from tests.peers.h3_client import GET, H3Client, h3_client
from tests.reference_server.harness import chat, data_lines, in_loop, serving

FAST = Settings(pace=PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1))
STREAM = (b"GET", b"/promptpath/calibrate?events=40&max_gap_ms=6")
CHAT = (b"POST", b"/v1/chat/completions")


def _body(tokens: int) -> bytes:
    return json.dumps(chat(max_tokens=tokens)).encode()


@in_loop
async def test_a_request_is_answered_and_the_scope_says_http_3(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        answer = await client.until_ended(client.ask(*GET))
        assert (answer.status, answer.body) == (200, b'{"status": "ok"}')
        assert b"date" in answer.headers


@in_loop
async def test_streams_of_one_connection_run_side_by_side(certs: Certificates) -> None:
    async with (
        serving(settings=FAST, leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        streams = [client.ask(b"POST", b"/v1/chat/completions", _body(20)) for _ in range(10)]
        for stream in streams:
            answer = await client.until_ended(stream)
            assert answer.status == 200
            lines = data_lines(answer.body)
            assert lines[-1] == b"[DONE]" and len(lines) == 20 + 3


async def _count(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that answers with the size of the request's body."""
    size, more = 0, True
    while more:
        message = await receive()
        size += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@in_loop
async def test_more_streams_than_aioquic_grants_run_at_once_from_the_start(
    certs: Certificates,
) -> None:
    waiting, go = 0, asyncio.Event()

    async def together(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 300:
            go.set()
        await go.wait()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with (
        serving(app=together, leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        assert client.quic._remote_max_streams_bidi == 1000
        streams = [client.ask(*GET) for _ in range(300)]
        for stream in streams:
            assert (await client.until_ended(stream)).status == 204


@in_loop
async def test_streams_that_end_make_room_for_others(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True, quic_streams=5) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        for _ in range(8):
            streams = [client.ask(*GET) for _ in range(5)]
            for stream in streams:
                assert (await client.until_ended(stream)).status == 200


@in_loop
async def test_a_large_upload_goes_through_windows_that_open_as_it_is_read(
    certs: Certificates,
) -> None:
    async with (
        serving(app=_count, leaf=certs.good, http3=True, body_window_bytes=20_000) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        # Two hundred times the window of the stream, fifty times that of the connection.
        answer = await client.until_ended(client.ask(b"POST", b"/", bytes(4_000_000)))
        assert answer.body == b"4000000"


@in_loop
async def test_an_upload_that_nobody_reads_stops_at_the_window(certs: Certificates) -> None:
    read = asyncio.Event()

    async def late(scope: Scope, receive: Receive, send: Send) -> None:
        await read.wait()
        await _count(scope, receive, send)

    async with (
        serving(app=late, leaf=certs.good, http3=True, body_window_bytes=20_000) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        stream = client.ask(b"POST", b"/", bytes(200_000))
        client.flush()
        sender = client.quic._streams[stream].sender
        await client.until(lambda: sender.highest_offset >= 20_000)
        client.quic.send_ping(1)
        client.flush()
        await client.until(lambda: any(isinstance(e, PingAcknowledged) for e in client.seen))
        assert sender.highest_offset == 20_000
        read.set()
        assert (await client.until_ended(stream)).body == b"200000"


@in_loop
async def test_a_client_that_does_not_read_holds_its_stream_and_loses_nothing(
    certs: Certificates,
) -> None:
    async with (
        serving(settings=FAST, leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca, max_stream_data=600) as client,
    ):
        # aioquic opens the window as data comes; here it is kept shut by hand.
        client.quic._write_stream_limits = lambda **_: None  # type: ignore[method-assign]
        held = client.ask(*CHAT, _body(30), [(b"x-promptpath-timing", b"1")])
        client.flush()
        await client.until(lambda: len(client.answers[held].body) > 300)
        other = await client.until_ended(client.ask(*GET))
        assert other.body == b'{"status": "ok"}'
        assert not client.answers[held].ended
        opened_ns = monotonic_ns()
        del client.quic._write_stream_limits
        client.quic._streams[held].max_stream_data_local = 1_000_000
        answer = await client.until_ended(held)
        lines = data_lines(answer.body)
        assert len(lines) == 30 + 3 and lines[-1] == b"[DONE]"
        stamps = [json.loads(line)["promptpath"]["sent_ns"] for line in lines[:-1]]
        # Stamped after the wait for the window: only what fitted before was written before.
        assert 0 < sum(stamp < opened_ns for stamp in stamps) < 10


@in_loop
async def test_a_window_that_stays_closed_ends_its_stream_only(certs: Certificates) -> None:
    async with (
        serving(settings=FAST, leaf=certs.good, http3=True, send_timeout_s=0.05) as served,
        h3_client(served.port, certs.ca, max_stream_data=600) as client,
    ):
        client.quic._write_stream_limits = lambda **_: None  # type: ignore[method-assign]
        held = client.ask(*CHAT, _body(30))
        assert (await client.until_ended(held)).reset == 0x10C
        assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_a_stream_that_the_client_resets_ends_its_generation(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        stream = client.ask(*CHAT, _body(1000))
        client.flush()
        await client.until(lambda: client.answers[stream].pieces)
        assert await _running(client) == 1
        client.quic.stop_stream(stream, 0x10C)
        client.flush()
        while await _running(client):
            pass


async def _running(client: H3Client) -> int:
    answer = await client.until_ended(client.ask(b"GET", b"/metrics"))
    for line in answer.body.decode().splitlines():
        if line.startswith("vllm:num_requests_running{"):
            return int(line.rpartition(" ")[2])
    raise AssertionError("no such metric")


@in_loop
async def test_a_client_that_goes_away_ends_its_generations(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as watcher,
    ):
        async with h3_client(served.port, certs.ca) as client:
            stream = client.ask(*CHAT, _body(1000))
            client.flush()
            await client.until(lambda: client.answers[stream].pieces)
            assert await _running(watcher) == 1
        while await _running(watcher):
            pass


@in_loop
async def test_a_head_request_has_no_body(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        # aioquic's client does not know that a HEAD answer's length is of what is not sent.
        client.h3._check_content_length = lambda stream: None  # type: ignore[method-assign]
        answer = await client.until_ended(client.ask(b"HEAD", b"/healthz"))
        assert (answer.status, answer.body) == (200, b"")


@in_loop
async def test_a_stop_lets_the_stream_end_and_then_closes_without_error(
    certs: Certificates,
) -> None:
    async with (
        serving(settings=FAST, leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        stream = client.ask(*STREAM)
        client.flush()
        await client.until(lambda: len(client.answers[stream].pieces) > 3)
        stopping = asyncio.ensure_future(served.listener.stop(grace_s=10))
        answer = await client.until_ended(stream)
        assert answer.ended and b"event: end" in answer.body
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x100
        await stopping


@in_loop
async def test_a_stream_that_does_not_end_in_time_is_broken_off(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        stream = client.ask(b"GET", b"/promptpath/silence?silence_ms=60000")
        client.flush()
        await client.until(lambda: client.answers[stream].pieces)
        await served.listener.stop(grace_s=0.01)
        await client.until(lambda: client.closed)
        assert not client.answers[stream].ended
        assert client.closed is not None
        assert (client.closed.error_code, client.closed.reason_phrase) == (
            0x100,
            "the server stops",
        )


@in_loop
async def test_an_idle_connection_is_closed(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True, keepalive_timeout_s=0.05) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        await client.until_ended(client.ask(*GET))
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x100


@in_loop
async def test_heads_beyond_the_limit_are_refused(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True, max_head_bytes=2000) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        many = [(b"x-%d" % number, b"") for number in range(70)]
        assert (await client.until_ended(client.ask(*GET, headers=many))).status == 431
        assert (await client.until_ended(client.ask(*GET))).status == 200
        client.ask(*GET, headers=[(b"x-long", os.urandom(5000).hex().encode())])
        client.flush()
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x107


@in_loop
async def test_a_client_that_resets_without_end_is_sent_away(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        for _ in range(60):
            for _ in range(20):
                stream = client.ask(*CHAT, None)
                client.quic.reset_stream(stream, 0x10C)
            client.flush()
            await asyncio.sleep(0)
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x107


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x04abcd",  # DATA before HEADERS
        b"\x04\x00",  # SETTINGS on a request stream
        b"\x01\x03\xff\xff\xff",  # a head that is no QPACK
    ],
)
@in_loop
async def test_a_broken_frame_closes_the_connection_with_its_code(
    certs: Certificates, data: bytes
) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        client.quic.send_stream_data(client.quic.get_next_available_stream_id(), data, True)
        client.flush()
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code > 0x100


@in_loop
async def test_a_frame_that_never_ends_is_not_kept(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True, max_head_bytes=2000) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        frame = b"\x01" + encode_uint_var(1 << 30) + bytes(4000)
        client.quic.send_stream_data(client.quic.get_next_available_stream_id(), frame)
        client.flush()
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x107


@in_loop
async def test_alt_svc_names_the_port_over_tcp_and_only_with_http_3(certs: Certificates) -> None:
    for http3 in (True, False):
        async with serving(leaf=certs.good, http3=http3) as served:
            for http2 in (True, False):
                context = ssl.create_default_context(cafile=str(certs.ca))
                async with httpx.AsyncClient(
                    http2=http2, verify=context, trust_env=False
                ) as client:
                    answer = await client.get(served.url + "/healthz")
                wanted = f'h3=":{served.port}"; ma=600' if http3 else None
                assert answer.headers.get("alt-svc") == wanted


@in_loop
async def test_random_bytes_on_streams_of_every_kind_do_no_harm(
    certs: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(11)
    starts = [b"", b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"\x21", b"\x01\x10", b"\x00\x08"]
    async with serving(leaf=certs.good, http3=True, max_head_bytes=4000) as served:
        for _ in range(25):
            async with h3_client(served.port, certs.ca) as client:
                data = dice.choice(starts) + dice.randbytes(dice.randrange(1, 3000))
                one_way = dice.random() < 0.5
                stream = client.quic.get_next_available_stream_id(is_unidirectional=one_way)
                while data and client.closed is None:
                    cut = dice.randrange(1, 200)
                    client.quic.send_stream_data(stream, data[:cut], len(data) <= cut)
                    data = data[cut:]
                    client.flush()
                client.quic.send_ping(1)
                client.flush()
                await client.until(
                    lambda: (
                        client.closed or any(isinstance(e, PingAcknowledged) for e in client.seen)
                    )
                )
        async with h3_client(served.port, certs.ca) as client:
            assert (await client.until_ended(client.ask(*GET))).status == 200
        assert not [each for each in caplog.records if each.name == "reference_server"]
