"""(c) The same application under servers that are not ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.trip import CHAT, MESSAGES, ask, check_answer
from tests.peers.asgi import hypercorn, uvicorn
from tests.peers.certs import Certificates


@pytest.mark.parametrize(
    ("http", "version", "path"), [("auto", "2", CHAT), ("1.1", "1.1", MESSAGES)]
)
def test_hypercorn_over_tls(
    http: str,
    version: str,
    path: str,
    tmp_path: Path,
    certs: Certificates,
    trust: tuple[str, str],
) -> None:
    with hypercorn(tmp_path, tls=certs.good) as url:
        found = ask(url + path, *trust, "--http", http)
    check_answer(found, "dns", "tcp", "tls", "request")
    assert found.fact("http.version") == version
    assert found.headers["server"].startswith("hypercorn")
    assert {"queue", "prefill", "decode"} <= found.inside


def test_hypercorn_over_http3(tmp_path: Path, certs: Certificates, trust: tuple[str, str]) -> None:
    with hypercorn(tmp_path, tls=certs.good) as url:
        found = ask(url + CHAT, *trust, "--http", "3")
    check_answer(found, "dns", "quic", "request")
    assert found.fact("quic.handshake")["round_trips"] == 1
    assert found.fact("tls.resumed")["accepted"] is False


@pytest.mark.parametrize("tls", [True, False])
def test_uvicorn(tls: bool, tmp_path: Path, certs: Certificates, trust: tuple[str, str]) -> None:
    with uvicorn(tmp_path, tls=certs.good if tls else None) as url:
        found = ask(url + CHAT, *trust)
    check_answer(found, "dns", "tcp", *(["tls"] if tls else []), "request")
    assert (found.fact("http.version"), found.headers["server"]) == ("1.1", "uvicorn")
    # HTTP/2 was offered and not taken.
    assert not tls or found.fact("tls.alpn_offered") == ["h2", "http/1.1"]
