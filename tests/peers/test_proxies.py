"""The proxies work, and fail, as curl (an independent client) sees it."""

from __future__ import annotations

import subprocess

import pytest

from tests.peers.certs import Certificates
from tests.peers.proxies import ForwardProxy, ProxyFault
from tests.peers.require import require
from tests.peers.scripted import ScriptedOrigin, sse_stream
from tests.peers.socks5 import REFUSED, Socks5Server

BODY = b"data: a\n\n"


def curl(
    proxy: str, url: str, certs: Certificates, *more: str
) -> subprocess.CompletedProcess[bytes]:
    line = [require("curl"), "-sS", "-m", "5", "--noproxy", "", "-x", proxy, *more]
    line += ["--cacert", str(certs.ca), "--proxy-cacert", str(certs.ca), url]
    return subprocess.run(line, capture_output=True, timeout=20)


@pytest.mark.parametrize("proxy_tls", [False, True], ids=["http-proxy", "https-proxy"])
@pytest.mark.parametrize("origin_tls", [False, True], ids=["http", "https"])
def test_request_goes_through(certs: Certificates, proxy_tls: bool, origin_tls: bool) -> None:
    context = certs.good.server_context()
    with ScriptedOrigin(sse_stream([BODY]), tls=context if origin_tls else None) as origin:
        with ForwardProxy(tls=context if proxy_tls else None) as proxy:
            done = curl(proxy.url(), origin.url("/v1?x=1"), certs)
            assert done.stdout == BODY, done.stderr
            method = "CONNECT" if origin_tls else "GET"
            assert [line.split()[0] for line in proxy.request_lines] == [method]
        assert origin.requests[0].startswith(b"GET /v1?x=1 HTTP/1.1\r\n")


def test_credentials_are_asked_for_and_checked(certs: Certificates) -> None:
    with ScriptedOrigin(sse_stream([BODY])) as origin:
        with ForwardProxy(credentials=("ada", "s3cret")) as proxy:
            assert curl(proxy.url(), origin.url(), certs).stdout == b"log in"
            assert curl(proxy.url("ada", "s3cret"), origin.url(), certs).stdout == BODY


@pytest.mark.parametrize("fault", list(ProxyFault))
def test_every_fault_keeps_the_answer_away(certs: Certificates, fault: ProxyFault) -> None:
    context = certs.good.server_context()
    with ScriptedOrigin(sse_stream([BODY]), tls=context) as origin:
        with ForwardProxy(fault=fault) as proxy:
            done = curl(proxy.url(), origin.url(), certs, "-m", "0.3")
            assert done.returncode != 0
            assert BODY not in done.stdout
        assert origin.requests == []


def test_name_only_the_proxy_knows_is_reached(certs: Certificates) -> None:
    with ScriptedOrigin(sse_stream([BODY])) as origin:
        url = f"http://inside.test:{origin.port}/"
        with ForwardProxy(hosts={"inside.test": "127.0.0.1"}) as proxy:
            assert curl(proxy.url(), url, certs).stdout == BODY
        with Socks5Server(hosts={"inside.test": "127.0.0.1"}) as socks:
            assert curl(socks.url(), url, certs).stdout == BODY
            assert (socks.requests[0].host, socks.requests[0].by_name) == ("inside.test", True)


def test_socks_login_is_checked(certs: Certificates) -> None:
    with (
        ScriptedOrigin(sse_stream([BODY])) as origin,
        Socks5Server(credentials=("u", "p")) as socks,
    ):
        assert curl(socks.url("u", "wrong"), origin.url(), certs).returncode == 97
        assert curl(socks.url(), origin.url(), certs).returncode == 97
        assert curl(socks.url("u", "p", remote=False), origin.url(), certs).stdout == BODY
        assert [request.user for request in socks.requests] == ["u"]


def test_socks_reply_code_is_given(certs: Certificates) -> None:
    with ScriptedOrigin(sse_stream([BODY])) as origin, Socks5Server(reply=REFUSED) as socks:
        done = curl(socks.url(), origin.url(), certs)
        assert done.returncode == 97
        assert b"(5)" in done.stderr
