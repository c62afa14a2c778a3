"""The edge in front of real listeners on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import httpx
import pytest

from reference_server.app import create_app
from reference_server.asgi import App, Message, Receive, Scope, Send
from reference_server.edge.app import EdgeApp
from reference_server.edge.balance import Backend
from reference_server.settings import EngineSettings, PaceSettings, Settings
from tests.peers.certs import Certificates
from tests.peers.process import free_port
from tests.reference_server.harness import Served, chat, in_loop, raw_exchange, serving

CHAT = "/v1/chat/completions"
FAST = Settings(pace=PaceSettings(base_ms=5, prefill_ms_per_token=0, itl_ms=5))


@contextlib.asynccontextmanager
async def edge(*ports: int, delay_ms: float = 0, **listen: Any) -> AsyncIterator[Served]:
    """An edge before these ports."""
    backends = [Backend(f"b{port}", "127.0.0.1", port) for port in ports]
    app = EdgeApp(backends, round(delay_ms * 1e6))
    await app.start()
    async with serving(app, FAST, **listen) as served:
        yield served
    await app.close()


def http(served: Served, **more: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=served.url, trust_env=False, **more)


@in_loop
async def test_a_request_passes_with_via_its_own_time_and_the_backends() -> None:
    async with serving(settings=FAST) as behind, edge(behind.port, delay_ms=5) as front:
        async with http(front) as client:
            answer = await client.post(CHAT, json=chat())
    assert answer.status_code == 200 and answer.text.endswith("data: [DONE]\n\n")
    assert answer.headers["via"] == "1.1 promptpath-edge"
    own, behind_times = answer.headers.get_list("server-timing")
    name, _, duration = own.partition(";dur=")
    assert name == "edge" and 5 <= float(duration) < 50
    assert behind_times.startswith("auth;dur=")
    assert len(answer.headers.get_list("date")) == 1


@in_loop
async def test_each_event_passes_before_the_next_one_exists() -> None:
    slow = replace(FAST, pace=replace(FAST.pace, itl_ms=60))
    async with serving(settings=slow) as behind, edge(behind.port) as front, http(front) as client:
        stamps: list[tuple[float, int]] = []
        head = {"x-promptpath-timing": "1"}
        async with client.stream("POST", CHAT, json=chat(max_tokens=6), headers=head) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    sent_ns = json.loads(line[6:])["promptpath"]["sent_ns"]
                    stamps.append((time.monotonic_ns(), sent_ns))
    assert len(stamps) == 8
    # Less than one gap: nothing was held for the next event. A buffer would hold hundreds of ms.
    assert max(at_ns - sent_ns for at_ns, sent_ns in stamps) < 60_000_000


@in_loop
async def test_connections_to_the_backend_are_used_again() -> None:
    async with serving(settings=FAST) as behind, edge(behind.port) as front, http(front) as client:
        for _ in range(5):
            assert (await client.post(CHAT, json=chat())).status_code == 200
        (status,) = (await client.get("/promptpath/edge")).json()["backends"]
    assert status["served"] == 5 and status["connections_opened"] == 1
    assert status["outstanding"] == 0


@in_loop
async def test_requests_under_way_are_spread() -> None:
    async with serving(settings=FAST) as one, serving(settings=FAST) as two:
        async with edge(one.port, two.port) as front, http(front) as client:
            await asyncio.gather(*(client.post(CHAT, json=chat()) for _ in range(8)))
            rows = (await client.get("/promptpath/edge")).json()["backends"]
    assert [row["served"] for row in rows] == [4, 4]


@in_loop
async def test_the_same_prompt_goes_to_the_same_replica_and_the_answer_names_it() -> None:
    async with serving(settings=FAST) as one, serving(settings=FAST) as two:
        async with edge(one.port, two.port) as front, http(front) as client:
            names = {}
            for word in ("one ", "two "):
                long = chat(messages=[{"role": "user", "content": word * 200}])
                answers = [await client.post(CHAT, json=long) for _ in range(3)]
                names[word] = {answer.headers["x-promptpath-replica"] for answer in answers}
    assert sorted(map(len, names.values())) == [1, 1] and names["one "] != names["two "]


@in_loop
async def test_a_dead_backend_is_passed_over_and_comes_back_when_it_lives() -> None:
    port = free_port()
    async with serving(settings=FAST) as living, edge(port, living.port) as front:
        async with http(front) as client:
            for _ in range(3):
                assert (await client.post(CHAT, json=chat())).status_code == 200
            rows = (await client.get("/promptpath/edge")).json()["backends"]
            assert [row["healthy"] for row in rows] == [False, True]
            async with serving(settings=FAST, port=port):
                while not rows[0]["healthy"]:
                    await asyncio.sleep(0.1)
                    rows = (await client.get("/promptpath/edge")).json()["backends"]
                served = rows[0]["served"]
                for _ in range(2):
                    await client.post(CHAT, json=chat())
                rows = (await client.get("/promptpath/edge")).json()["backends"]
                assert rows[0]["served"] > served


@in_loop
async def test_without_any_backend_it_is_a_503_that_may_be_tried_again() -> None:
    async with edge(free_port()) as front, http(front) as client:
        answer = await client.post(CHAT, json=chat())
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["code"] == "no_backend"


@in_loop
async def test_errors_and_large_bodies_pass_unchanged() -> None:
    small = replace(FAST, service=replace(FAST.service, max_body_bytes=300_000))
    async with serving(settings=small) as behind, edge(behind.port) as front, http(front) as client:
        big = chat(messages=[{"role": "user", "content": "x" * 200_000}])
        assert (await client.post(CHAT, json=big)).status_code == 200

        async def pieces() -> AsyncIterator[bytes]:
            for start in range(0, 200_000, 50_000):
                yield json.dumps(big).encode()[start : start + 50_000]
            yield json.dumps(big).encode()[200_000:]

        assert (await client.post(CHAT, content=pieces())).status_code == 200
        assert (await client.post(CHAT, content=b"x" * 400_000)).status_code == 413
        assert (await client.post(CHAT, content=b"{")).status_code == 400
        assert (await client.get("/nothing")).status_code == 404
        head = await client.head("/v1/models")
        assert head.status_code == 200 and head.content == b""


@in_loop
async def test_a_client_that_leaves_is_gone_for_the_backend_too() -> None:
    app = create_app(FAST)
    async with serving(app, FAST) as behind, edge(behind.port) as front, http(front) as client:
        async with client.stream("POST", CHAT, json=chat(max_tokens=100_000)) as answer:
            async for _ in answer.aiter_lines():
                break
        for _ in range(200):
            text = (await client.get("/metrics")).text
            label = f'{{replica="b{behind.port}",model_name="promptpath-paced"}}'
            if f"vllm:num_requests_running{label} 0" in text:
                break
            await asyncio.sleep(0.01)
        else:
            pytest.fail("the request still runs")


@in_loop
async def test_a_client_that_reads_nothing_fills_no_memory_and_loses_its_request() -> None:
    # Tokens of 3 KB, so that the kernel's buffers are full soon.
    pace = replace(FAST.pace, itl_ms=0, text="x" * 3000)
    fast = replace(FAST, pace=pace, engine=EngineSettings(backlog_steps=64))
    async with serving(settings=fast) as behind, edge(behind.port) as front:
        body = json.dumps(chat(max_tokens=1_000_000)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        label = f'replica="b{behind.port}",model_name="promptpath-paced"'
        with socket.create_connection(("127.0.0.1", front.port)) as silent:
            silent.sendall(head.encode() + body)
            async with http(front) as client:
                for running in (1, 0):
                    wanted = f"num_requests_running{{{label}}} {running}"
                    while wanted not in (await client.get("/metrics")).text:
                        await asyncio.sleep(0.01)


@in_loop
async def test_the_metrics_are_those_of_all_replicas() -> None:
    async with serving(settings=FAST) as one, serving(settings=FAST) as two:
        async with edge(one.port, two.port, free_port()) as front, http(front) as client:
            text = (await client.get("/metrics")).text
    assert text.count("# TYPE vllm:num_requests_running gauge") == 1
    for port in (one.port, two.port):
        label = f'{{replica="b{port}",model_name="promptpath-paced"}}'
        assert f"vllm:num_requests_running{label} 0" in text


@in_loop
async def test_a_timeline_is_found_on_whichever_replica_it_is() -> None:
    async with serving(settings=FAST) as one, serving(settings=FAST) as two:
        async with edge(one.port, two.port) as front, http(front) as client:
            for _ in range(3):
                request_id = (await client.post(CHAT, json=chat())).headers["x-request-id"]
                answer = await client.get(f"/promptpath/requests/{request_id}")
                assert answer.json()["id"] == request_id
            assert (await client.get("/promptpath/requests/none")).status_code == 404


@in_loop
async def test_it_ends_tls_and_speaks_http_2_before_a_clear_text_backend(
    certs: Certificates,
) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    async with serving(settings=FAST) as behind, edge(behind.port, leaf=certs.good) as front:
        async with http(front, verify=context, http2=True) as client:
            answers = await asyncio.gather(*(client.post(CHAT, json=chat()) for _ in range(4)))
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)


async def _breaks(scope: Scope, receive: Receive, send: Send) -> None:
    head: Message = {"type": "http.response.start", "status": 200, "headers": []}
    await send(head)
    await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
    await send({"type": "promptpath.abort", "how": "close"})


async def _never_answers(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "promptpath.abort", "how": "close"})


@in_loop
async def test_a_stream_that_the_backend_breaks_off_never_ends_cleanly() -> None:
    broken: App = _breaks
    async with serving(broken, FAST) as behind, edge(behind.port) as front:
        raw = await raw_exchange(front.port, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b"data: 1" in raw and not raw.endswith(b"0\r\n\r\n")
        async with http(front, http1=False, http2=True) as client:
            with pytest.raises(httpx.RemoteProtocolError):
                await client.get("/")


@in_loop
async def test_a_backend_that_says_nothing_is_a_502() -> None:
    silent: App = _never_answers
    async with serving(silent, FAST) as behind, edge(behind.port) as front, http(front) as client:
        answer = await client.post(CHAT, json=chat())
    assert answer.status_code == 502 and answer.json()["error"]["code"] == "backend_failed"


@in_loop
async def test_a_backend_that_speaks_no_http_is_a_502() -> None:
    async def garbage(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"\x00\xff garbage\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(garbage, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with edge(port) as front, http(front) as client:
        assert (await client.get("/v1/models")).status_code == 502
    server.close()


@in_loop
async def test_what_cannot_be_said_in_http_1_is_a_400() -> None:
    async with serving(settings=FAST) as behind, edge(behind.port) as front:
        asked = [{"type": "http.request", "body": b"", "more_body": False}]
        sent: list[Message] = []

        async def receive() -> Message:
            return asked.pop() if asked else await asyncio.Future()

        async def send(message: Message) -> None:
            sent.append(message)

        scope: Scope = {"type": "http", "http_version": "2", "method": "GET", "scheme": "https"}
        scope["path"], scope["raw_path"], scope["query_string"] = "/a b", b"/a b", b""
        scope["headers"] = [(b"host", b"x")]
        await front.app(scope, receive, send)
    assert sent[0]["status"] == 400
