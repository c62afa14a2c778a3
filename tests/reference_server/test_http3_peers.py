"""HTTP/3 as other implementations speak it: curl (ngtcp2 and nghttp3) and Chromium."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from aioquic.tls import Group
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from reference_server.app import create_app
from reference_server.asgi import App, Receive, Scope, Send
from reference_server.listen import quic_hello_retry
from reference_server.listen.quic_faults import QuicFaults
from reference_server.settings import PaceSettings, Settings
from tests.peers.certs import Certificates, Leaf
from tests.peers.require import require
from tests.reference_server.harness import chat, in_loop, serving

FAST = Settings(pace=PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1))


def _noting(seen: list[tuple[str, str]]) -> App:
    """The reference application that notes the HTTP version and path of each request."""
    inner = create_app(FAST)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["http_version"], scope["path"]))
        await inner(scope, receive, send)

    return app


@pytest.mark.parametrize("retry", [False, True])
@in_loop
async def test_curl_streams_a_chat_uploads_and_uses_its_connection_again(
    certs: Certificates, retry: bool
) -> None:
    from curl_cffi import requests

    seen: list[tuple[str, str]] = []

    def ask(url: str) -> list[tuple[int, str]]:
        with requests.Session(http_version="v3only", trust_env=False) as curl:
            curl.verify = str(certs.ca)
            answers = [
                curl.get(url + "/healthz"),
                curl.post(url + "/v1/chat/completions", json=chat(max_tokens=20)),
                curl.post(url + "/v1/chat/completions", data=b"x" * 3_000_000),
            ]
        return [(each.status_code, each.text) for each in answers]

    async with serving(app=_noting(seen), leaf=certs.good, http3=True, quic_retry=retry) as served:
        answers = await asyncio.to_thread(ask, served.url)
    assert [status for status, _ in answers] == [200, 200, 400]
    assert answers[1][1].endswith("data: [DONE]\n\n")
    assert [version for version, _ in seen] == ["3", "3", "3"]


@in_loop
async def test_curl_follows_a_hello_retry_request(
    certs: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    from curl_cffi import requests

    asked: list[int | None] = []
    retry = quic_hello_retry._Retry.retry

    def noted(self: quic_hello_retry._Retry, *given: Any) -> bytes | None:
        answer = retry(self, *given)
        asked.append(self.group)
        return answer

    monkeypatch.setattr(quic_hello_retry._Retry, "retry", noted)

    def ask(url: str) -> int:
        with requests.Session(http_version="v3only", trust_env=False) as curl:
            curl.verify = str(certs.ca)
            return int(curl.get(url + "/healthz").status_code)

    faults = QuicFaults(hello_retry=True)
    async with serving(leaf=certs.good, http3=True, quic_faults=faults) as served:
        assert await asyncio.to_thread(ask, served.url) == 200
    assert asked == [Group.SECP384R1]


@pytest.mark.peer
@pytest.mark.slow
@in_loop
async def test_chromium_loads_the_page_over_http_3(certs: Certificates, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    program = require("chromium")
    async with serving(app=_noting(seen), leaf=certs.good, http3=True) as served:
        where = f"localhost:{served.port}"
        process = await asyncio.create_subprocess_exec(
            *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
            *("--no-proxy-server", "--no-first-run", f"--user-data-dir={tmp_path}"),
            *("--enable-quic", f"--origin-to-force-quic-on={where}"),
            "--host-resolver-rules=MAP localhost 127.0.0.1",
            f"--ignore-certificate-errors-spki-list={_key_hash(certs.good)}",
            *("--dump-dom", f"https://{where}/"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        page, _ = await process.communicate()
    assert b"<html" in page
    assert ("3", "/") in seen and ("3", "/page/page.js") in seen
    assert {version for version, _ in seen} == {"3"}


def _key_hash(leaf: Leaf) -> str:
    """What Chromium takes instead of a CA: the base64 of the key's SHA-256."""
    key = x509.load_pem_x509_certificate(leaf.chain.read_bytes()).public_key()
    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()
