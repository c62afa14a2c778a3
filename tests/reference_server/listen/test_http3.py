"""HTTP/3 on real sockets, asked by aioquic as a client."""

from __future__ import annotations

import json

from reference_server.settings import PaceSettings, Settings
from tests.peers.certs import Certificates
from tests.peers.h3_client import GET, h3_client
from tests.reference_server.harness import chat, data_lines, in_loop, serving

FAST = Settings(pace=PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1))


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
