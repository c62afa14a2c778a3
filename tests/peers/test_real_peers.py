"""The real programs start, do what their module says, and are gone afterwards."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from pathlib import Path

import dns.message
import dns.query
import dns.rcode
import httpx
import pytest

from tests.peers import asgi, tls_server
from tests.peers.capture import FIN, SYN, can_capture, capture, dropped, segments
from tests.peers.certs import Certificates
from tests.peers.forward import squid, tinyproxy
from tests.peers.haproxy import haproxy
from tests.peers.nginx import nginx
from tests.peers.process import accepts
from tests.peers.require import require, unavailable
from tests.peers.scripted import ReadRequest, ScriptedOrigin, Step, Wait, head, sse_stream
from tests.peers.unbound import Unbound, unbound

pytestmark = [pytest.mark.peer, pytest.mark.slow]
BODY = b"data: a\n\ndata: b\n\n"


def get(
    url: str, certs: Certificates, proxy: str | None = None, *, http2: bool = False
) -> httpx.Response:
    context = ssl.create_default_context(cafile=certs.ca)
    with httpx.Client(verify=context, proxy=proxy, http2=http2, trust_env=False, timeout=9) as http:
        return http.get(url)


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_nginx_passes_a_stream(tmp_path: Path, certs: Certificates, tls: bool) -> None:
    with ScriptedOrigin(sse_stream([BODY])) as origin:
        with nginx(tmp_path, origin.url(""), tls=certs.good if tls else None) as url:
            answer = get(url, certs, http2=True)
            assert (answer.content, answer.http_version) == (BODY, "HTTP/2" if tls else "HTTP/1.1")
    assert not accepts(httpx.URL(url).port or 0)


@pytest.mark.parametrize(("extra", "held"), [("", True), ("proxy_buffering off;", False)])
def test_nginx_holds_events_only_when_it_buffers(
    tmp_path: Path, certs: Certificates, extra: str, held: bool
) -> None:
    script: list[Step] = [
        ReadRequest(),
        head(chunked=False),
        b"data: a\n\n",
        Wait(300),
        b"data: b\n\n",
    ]
    with ScriptedOrigin(script) as origin, nginx(tmp_path, origin.url(""), extra=extra) as url:
        with httpx.stream("GET", url, trust_env=False) as answer:
            pieces = list(answer.iter_raw())
    assert (len(pieces) == 1) == held


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_haproxy_passes_a_stream(tmp_path: Path, certs: Certificates, tls: bool) -> None:
    with ScriptedOrigin(sse_stream([BODY])) as origin:
        with haproxy(tmp_path, origin.url(""), tls=certs.good if tls else None) as url:
            answer = get(url, certs, http2=True)
            assert (answer.content, answer.http_version) == (BODY, "HTTP/2" if tls else "HTTP/1.1")


@pytest.mark.parametrize("program", [squid, tinyproxy])
def test_forward_proxy_asks_for_its_login(
    tmp_path: Path, certs: Certificates, program: object
) -> None:
    start = squid if program is squid else tinyproxy
    context = certs.good.server_context()
    with ScriptedOrigin(sse_stream([BODY]), tls=context) as origin:
        with start(tmp_path, credentials=("ada", "s3cret")) as proxy:
            with pytest.raises(httpx.ProxyError, match=r"40[17]"):
                get(origin.url(), certs, proxy)
            known = proxy.replace("//", "//ada:s3cret@")
            assert get(origin.url(), certs, known).content == BODY


@pytest.mark.parametrize("program", [squid, tinyproxy])
def test_forward_proxy_tunnels(tmp_path: Path, certs: Certificates, program: object) -> None:
    start = squid if program is squid else tinyproxy
    with ScriptedOrigin(sse_stream([BODY]), tls=certs.good.server_context()) as origin:
        with start(tmp_path) as proxy:
            assert get(origin.url(), certs, proxy).content == BODY


def ask(server: Unbound, name: str, kind: str = "A", *, tcp: bool = False) -> dns.message.Message:
    query = dns.message.make_query(name, kind, use_edns=0)
    send = dns.query.tcp if tcp else dns.query.udp
    return send(query, server.host, port=server.port, timeout=5)


def test_unbound_answers_each_way(tmp_path: Path) -> None:
    with unbound(tmp_path) as server:
        assert len(ask(server, server.dual).answer[0]) == 1
        assert "h2,h3" in str(ask(server, server.https, "HTTPS").answer[0])
        assert ask(server, server.nxdomain).rcode() == dns.rcode.NXDOMAIN
        assert ask(server, server.refused).rcode() == dns.rcode.REFUSED
        assert ask(server, server.servfail).rcode() == dns.rcode.SERVFAIL
        assert ask(server, server.nodata).answer == []
        assert ask(server, server.truncated).flags & dns.flags.TC
        assert len(ask(server, server.truncated, tcp=True).answer[0]) == 200
        with pytest.raises(dns.exception.Timeout):
            dns.query.udp(
                dns.message.make_query(server.silent, "A"),
                server.host,
                port=server.port,
                timeout=0.2,
            )


def test_openssl_speaks_only_tls12(tmp_path: Path, certs: Certificates) -> None:
    with tls_server.openssl_server(tmp_path, certs.good, tls_server.TLS12_ONLY) as server:
        context = ssl.create_default_context(cafile=certs.ca)
        with socket.create_connection((server.host, server.port)) as raw:
            with context.wrap_socket(raw, server_hostname="localhost") as sock:
                assert sock.version() == "TLSv1.2"


def s_client(server: tls_server.TlsServer, *options: str) -> str:
    line = [require("openssl"), "s_client", "-connect", f"{server.host}:{server.port}", *options]
    return subprocess.run(line, input=b"", capture_output=True, timeout=9).stdout.decode()


def test_openssl_asks_for_another_group(tmp_path: Path, certs: Certificates) -> None:
    with tls_server.openssl_server(tmp_path, certs.good, tls_server.RETRY_GROUP) as server:
        said = s_client(server, "-msg")
        assert said.count("ClientHello") == 2


def test_openssl_offers_early_data(tmp_path: Path, certs: Certificates) -> None:
    with tls_server.openssl_server(tmp_path, certs.good, tls_server.EARLY_DATA) as server:
        line = [require("openssl"), "s_client", "-connect", f"{server.host}:{server.port}"]
        with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
            time.sleep(0.3)  # tickets come after the handshake, and Q ends s_client at once
            said, _ = client.communicate(b"Q\n", timeout=5)
        assert b"Max Early Data: 16384" in said


def test_openssl_asks_for_a_client_certificate(tmp_path: Path, certs: Certificates) -> None:
    with tls_server.openssl_server(
        tmp_path, certs.good, tls_server.ASK_CLIENT_CERTIFICATE
    ) as server:
        assert "CertificateRequest" in s_client(server, "-msg")


TRIVIAL_APP = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})
"""


@pytest.mark.parametrize("tls", [False, True], ids=["clear", "tls"])
def test_foreign_asgi_servers_host_an_app(
    tmp_path: Path, certs: Certificates, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trivial.py").write_text(TRIVIAL_APP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    leaf = certs.good if tls else None
    with asgi.hypercorn(tmp_path, tls=leaf, app="trivial:app") as url:
        assert get(url, certs, http2=True).text == "hello"
    with asgi.uvicorn(tmp_path, tls=leaf, app="trivial:app") as url:
        assert get(url, certs).text == "hello"


def test_capture_sees_every_segment_in_order(tmp_path: Path, certs: Certificates) -> None:
    if not can_capture():
        unavailable("a packet capture needs root", "run as root")
    with ScriptedOrigin(sse_stream([b"data: a\n\n", b"data: b\n\n"], gap_ms=5)) as origin:
        with capture(tmp_path / "lo.pcap", "lo", f"tcp port {origin.port}") as path:
            get(origin.url(), certs)
    seen = segments(path)
    assert seen[0].flags & SYN
    assert seen[-1].flags & (FIN | 0x10)
    payload = b"".join(s.payload for s in seen if s.source[1] == origin.port)
    assert payload.endswith(b"data: b\n\n\r\n0\r\n\r\n")
    assert [s.at_ns for s in seen] == sorted(s.at_ns for s in seen)
    assert dropped(path) == 0
