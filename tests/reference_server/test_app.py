"""The application under ASGI servers that are not ours, and its own edges."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import Any

import httpx
import pytest

from reference_server.app import create_app
from reference_server.settings import Settings
from tests.peers.asgi import hypercorn, uvicorn
from tests.peers.certs import Certificates
from tests.reference_server.harness import chat, data_lines, in_loop

TIMED = {"x-promptpath-timing": "1"}


def _check_stream(client: httpx.Client, url: str) -> None:
    with client.stream("POST", url + "/v1/chat/completions", json=chat(), headers=TIMED) as answer:
        assert answer.headers["server-timing"].startswith("auth;dur=")
        body = answer.read()
    events = [json.loads(line) for line in data_lines(body) if line != b"[DONE]"]
    assert [event["promptpath"]["seq"] for event in events] == list(range(6))
    assert events[-1]["timings"]["predicted_n"] == 4
    assert data_lines(body)[-1] == b"[DONE]"


@pytest.mark.slow
def test_hypercorn_hosts_it_over_http2_with_tls(tmp_path: Path, certs: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certs.ca))
    with (
        hypercorn(tmp_path, tls=certs.good) as url,
        httpx.Client(http2=True, verify=context, trust_env=False) as client,
    ):
        assert client.get(url + "/healthz").http_version == "HTTP/2"
        _check_stream(client, url)
    assert "Traceback" not in (tmp_path / "hypercorn.log").read_text()


@pytest.mark.slow
def test_uvicorn_hosts_it_over_http1(tmp_path: Path) -> None:
    with uvicorn(tmp_path) as url, httpx.Client(trust_env=False) as client:
        _check_stream(client, url)
        broken = client.get(url + "/promptpath/fault/status?status=503&retry_after_s=7")
        assert (broken.status_code, broken.headers["retry-after"]) == (503, "7")
    assert "Traceback" not in (tmp_path / "uvicorn.log").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("host", [hypercorn, uvicorn])
def test_under_another_server_too_a_client_that_leaves_frees_its_slot(
    host: Any, tmp_path: Path
) -> None:
    with host(tmp_path) as url, httpx.Client(trust_env=False) as client:
        with client.stream(
            "POST", url + "/v1/chat/completions", json=chat(max_tokens=100_000)
        ) as answer:
            next(answer.iter_raw())
        for _ in range(200):
            metrics = client.get(url + "/metrics").text
            if 'finished_reason="abort"} 1' in metrics:
                return
        raise AssertionError("the generation goes on")


@in_loop
async def test_the_lifespan_is_answered_and_ends_with_the_engine_closed() -> None:
    app = create_app()
    inbox: list[dict[str, Any]] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        return inbox.pop(0)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    await app({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def test_a_send_log_that_cannot_be_written_is_an_oserror() -> None:
    with pytest.raises(OSError, match="no/such"):
        create_app(Settings(send_log="no/such/folder/log"))
