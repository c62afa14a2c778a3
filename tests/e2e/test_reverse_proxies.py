"""(b) nginx and haproxy in front of the server: streaming, and as nginx comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.reference import ITL_MS, Server
from tests.e2e.trip import CHAT, CLAIMS_TOO_MUCH, MESSAGES, TOKENS, ask, check_answer, prompt, trips
from tests.peers.certs import Certificates
from tests.peers.haproxy import haproxy
from tests.peers.nginx import nginx

pytestmark = pytest.mark.peer
TLS_HOPS = ("dns", "tcp", "tls", "request")
SPREAD_MS = (TOKENS - 1) * ITL_MS
"""First to last token as the server sends them."""
HOLD_ANYWAY = "proxy_ignore_headers X-Accel-Buffering;"
"""The server's X-Accel-Buffering: no would switch nginx's buffering off; without this line no
test sees nginx as it is for servers that do not send it."""


@pytest.mark.parametrize(("http", "path"), [("auto", CHAT), ("1.1", MESSAGES)])
def test_nginx_that_streams(
    http: str,
    path: str,
    tmp_path: Path,
    certs: Certificates,
    clear: Server,
    trust: tuple[str, str],
) -> None:
    with nginx(tmp_path, clear.url, tls=certs.good) as url:
        found = ask(url + path, *trust, "--http", http)
    check_answer(found, *TLS_HOPS)
    assert found.fact("http.version") == ("1.1" if http == "1.1" else "2")
    assert found.headers["server"].startswith("nginx/")
    assert found.hop_ms("generation") >= SPREAD_MS / 2
    assert {"queue", "prefill", "decode"} <= found.inside


def test_nginx_before_a_tls_server(
    tmp_path: Path, certs: Certificates, secure: Server, trust: tuple[str, str]
) -> None:
    with nginx(tmp_path, secure.url, tls=certs.good) as url:
        found = ask(url + CHAT, *trust)
    check_answer(found, *TLS_HOPS)
    assert found.fact("tls.alpn") == "h2"


def test_nginx_that_holds_the_stream_moves_the_time_from_generation_to_wait(
    tmp_path: Path, certs: Certificates, clear: Server, trust: tuple[str, str]
) -> None:
    with nginx(tmp_path, clear.url, tls=certs.good, extra=HOLD_ANYWAY) as url:
        found = ask(url + CHAT, *trust, "--http", "1.1")
    check_answer(found, *TLS_HOPS)
    # All tokens arrive when the stream is over: nobody may report the server's pace as seen.
    assert found.hop_ms("wait") >= SPREAD_MS
    assert found.hop_ms("generation") < SPREAD_MS / 2
    assert max(found.delays_ms()) >= SPREAD_MS / 2
    # What the server says of its decoding does not fit into the generation that was seen.
    assert found.report["server"]["decode_ms"] > found.hop_ms("generation")
    assert CLAIMS_TOO_MUCH in found.codes


def test_nginx_with_buffering_on_streams_over_http_2_all_the_same(
    tmp_path: Path, certs: Certificates, clear: Server, trust: tuple[str, str]
) -> None:
    # Over TLS, nginx fills 16 KB records for HTTP/1.1 and flushes frames for HTTP/2.
    with nginx(tmp_path, clear.url, tls=certs.good, extra=HOLD_ANYWAY) as url:
        found = ask(url + CHAT, *trust, "--http", "2")
    check_answer(found, *TLS_HOPS)
    assert found.hop_ms("generation") >= SPREAD_MS / 2


def test_nginx_obeys_the_servers_wish_not_to_be_held(tmp_path: Path, clear: Server) -> None:
    with nginx(tmp_path, clear.url, extra="") as url:
        found = ask(url + CHAT)
    check_answer(found, "dns", "tcp", "request")
    assert found.hop_ms("generation") >= SPREAD_MS / 2


@pytest.mark.parametrize("http", ["2", "1.1"])
def test_haproxy_with_tls(
    http: str, tmp_path: Path, certs: Certificates, clear: Server, trust: tuple[str, str]
) -> None:
    with haproxy(tmp_path, clear.url, tls=certs.good) as url:
        found = ask(url + CHAT, *trust, "--http", http)
    check_answer(found, *TLS_HOPS)
    assert found.fact("http.version") == http
    assert found.hop_ms("generation") >= SPREAD_MS / 2


def test_via_and_server_headers_of_a_chain_are_kept(
    tmp_path: Path, certs: Certificates, clear: Server, trust: tuple[str, str]
) -> None:
    via = 'proxy_buffering off; add_header Via "1.1 edge (nginx)" always;'
    with nginx(tmp_path, clear.url, extra=via) as inner:
        with haproxy(tmp_path, inner, tls=certs.good) as url:
            found = ask(url + CHAT, *trust)
    check_answer(found, *TLS_HOPS)
    assert found.headers["via"] == "1.1 edge (nginx)"
    assert found.headers["server"].startswith("nginx/")


def test_a_warm_run_through_nginx(
    tmp_path: Path, certs: Certificates, clear: Server, trust: tuple[str, str]
) -> None:
    with nginx(tmp_path, clear.url, tls=certs.good) as url:
        cold, warm = trips(*prompt(url + CHAT, *trust, "--warm"))
    check_answer(cold, *TLS_HOPS)
    check_answer(warm, "request")


def test_a_dead_upstream_is_a_502_with_its_hops(
    tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    with nginx(tmp_path, "http://127.0.0.1:1", tls=certs.good) as url:
        found = ask(url + CHAT, *trust, code=1)
    assert found.stages == [*TLS_HOPS, "wait"]
    assert found.fact("http.status") == 502
    assert found.headers["server"].startswith("nginx/")
