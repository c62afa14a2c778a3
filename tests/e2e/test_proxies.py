"""(d) Through forward proxies: CONNECT, TLS in TLS, SOCKS5, absolute-form; from the option and from
the environment."""

from __future__ import annotations

import base64
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pytest

from tests.e2e.reference import Server
from tests.e2e.trip import CHAT, Trip, ask, check_answer, prompt, trips
from tests.peers.certs import Certificates
from tests.peers.forward import squid, tinyproxy
from tests.peers.proxies import ForwardProxy
from tests.peers.socks5 import Socks5Server

LOGIN = ("ada", "s3cret-word")
SECURE = ("dns", "proxy", "tls", "request")
CLEAR = ("dns", "proxy", "request")


class Program(Protocol):
    """squid or tinyproxy."""

    def __call__(
        self, directory: Path, *, credentials: tuple[str, str] | None = None
    ) -> AbstractContextManager[str]: ...


def with_login(url: str) -> str:
    """The proxy's URL with the credentials inside."""
    return url.replace("://", "://{}:{}@".format(*LOGIN))


def outcomes(trip: Trip, *names: str) -> list[str]:
    """How the spans of these names ended, in the order given; each must be there once."""
    return [trip.spans(name)[0]["outcome"] for name in names]


@pytest.mark.peer
@pytest.mark.parametrize("program", [squid, tinyproxy])
@pytest.mark.parametrize("login", [False, True])
def test_connect_through_a_real_proxy(
    program: Program, login: bool, tmp_path: Path, secure: Server, trust: tuple[str, str]
) -> None:
    with program(tmp_path, credentials=LOGIN if login else None) as url:
        found = ask(secure.url + CHAT, *trust, proxy=with_login(url) if login else url)
    check_answer(found, *SECURE)
    assert outcomes(found, "proxy-dial", "tunnel", "handshake") == ["ok"] * 3
    address = url.removeprefix("http://")
    expected = {"kind": "http", "address": address, "source": "option", "mode": "tunnel"}
    assert found.fact("proxy") == {**expected, "status": 200, "credentials": login}
    assert found.fact("tls.sni") == "localhost" and found.fact("tls.alpn") == "h2"
    assert LOGIN[1] not in str(found.trace)


@pytest.mark.peer
@pytest.mark.parametrize("program", [squid, tinyproxy])
def test_plain_http_through_a_real_proxy_is_asked_in_absolute_form(
    program: Program, tmp_path: Path, clear: Server
) -> None:
    with program(tmp_path) as url:
        found = ask(clear.url + CHAT, proxy=url)
    check_answer(found, *CLEAR)
    assert found.fact("proxy")["mode"] == "absolute-form"
    assert "via" in found.headers and not found.spans("tunnel")


@pytest.mark.parametrize("http", ["2", "1.1"])
def test_our_forward_proxy(http: str, secure: Server, trust: tuple[str, str]) -> None:
    with ForwardProxy(credentials=LOGIN) as proxy:
        found = ask(secure.url + CHAT, *trust, "--http", http, proxy=proxy.url(*LOGIN))
        assert proxy.request_lines == [f"CONNECT localhost:{secure.port} HTTP/1.1"]
        login = base64.b64encode(":".join(LOGIN).encode()).decode()
        assert proxy.authorizations == [f"Basic {login}"]
    check_answer(found, *SECURE)
    assert found.fact("http.version") == http


def test_an_https_proxy_is_tls_in_tls(
    certs: Certificates, secure: Server, trust: tuple[str, str]
) -> None:
    with ForwardProxy(tls=certs.good.server_context(alpn=("http/1.1",))) as proxy:
        found = ask(secure.url + CHAT, *trust, proxy=proxy.url())
    check_answer(found, *SECURE)
    assert outcomes(found, "proxy-dial", "proxy-tls", "tunnel", "handshake") == ["ok"] * 4
    assert (found.fact("proxy.tls.version"), found.fact("tls.version")) == ("TLSv1.3", "TLSv1.3")
    assert (found.fact("proxy.tls.alpn"), found.fact("tls.alpn")) == ("http/1.1", "h2")
    assert found.fact("proxy")["kind"] == "https"


def test_a_warm_run_through_tls_in_tls(
    certs: Certificates, secure: Server, trust: tuple[str, str]
) -> None:
    with ForwardProxy(tls=certs.good.server_context(alpn=("http/1.1",))) as proxy:
        cold, warm = trips(*prompt(secure.url + CHAT, *trust, "--warm", proxy=proxy.url()))
        assert len(proxy.request_lines) == 1
    check_answer(cold, *SECURE)
    check_answer(warm, "request")


@pytest.mark.parametrize("login", [False, True])
def test_socks5_with_the_name_left_to_the_proxy(
    login: bool, secure: Server, trust: tuple[str, str]
) -> None:
    name = "api.promptpath.test"
    with Socks5Server(credentials=LOGIN if login else None, hosts={name: "127.0.0.1"}) as proxy:
        url = f"https://{name}:{secure.port}{CHAT}"
        found = ask(url, *trust, proxy=proxy.url(*(LOGIN if login else ())))
        (request,) = proxy.requests
    check_answer(found, *SECURE)
    assert (request.host, request.by_name, request.user) == (
        name,
        True,
        LOGIN[0] if login else None,
    )
    # The only name asked for here is the proxy's own.
    assert found.facts("dns.host") == ["127.0.0.1"]


def test_socks5_with_the_name_resolved_here(secure: Server, trust: tuple[str, str]) -> None:
    with Socks5Server() as proxy:
        found = ask(secure.url + CHAT, *trust, "-4", proxy=proxy.url(remote=False))
        (request,) = proxy.requests
    # Its name is asked for after the proxy was reached.
    check_answer(found, "dns", "proxy", "dns", "proxy", "tls", "request")
    assert (request.host, request.by_name) == ("127.0.0.1", False)
    assert found.facts("dns.host") == ["127.0.0.1", "localhost"]


def test_socks5_for_plain_http_is_a_tunnel_too(clear: Server) -> None:
    with Socks5Server() as proxy:
        found = ask(clear.url + CHAT, proxy=proxy.url())
    check_answer(found, *CLEAR)
    assert found.fact("proxy")["mode"] == "tunnel"


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "ALL_PROXY"])
def test_the_environment_names_the_proxy(
    variable: str, secure: Server, trust: tuple[str, str]
) -> None:
    with ForwardProxy() as proxy:
        found = ask(secure.url + CHAT, *trust, proxy="env", environ={variable: proxy.url()})
        assert len(proxy.request_lines) == 1
    check_answer(found, *SECURE)
    assert found.fact("proxy")["source"] == "environment"


def test_no_proxy_exempts_the_host(secure: Server, trust: tuple[str, str]) -> None:
    with ForwardProxy() as proxy:
        environ = {"HTTPS_PROXY": proxy.url(), "NO_PROXY": "example.com,localhost"}
        found = ask(secure.url + CHAT, *trust, proxy="env", environ=environ)
        assert not proxy.request_lines
    check_answer(found, "dns", "tcp", "tls", "request")
    assert "NO_PROXY" in found.fact("proxy.bypassed")["why"]


def test_proxy_none_wins_over_the_environment(secure: Server, trust: tuple[str, str]) -> None:
    with ForwardProxy() as proxy:
        found = ask(secure.url + CHAT, *trust, environ={"HTTPS_PROXY": proxy.url()})
        assert not proxy.request_lines
    check_answer(found, "dns", "tcp", "tls", "request")
    assert not found.facts("proxy")


def test_the_source_address_is_the_one_asked_for(secure: Server, trust: tuple[str, str]) -> None:
    found = ask(secure.url + CHAT, *trust, "-4", "--source", "127.0.0.2")
    check_answer(found, "dns", "tcp", "tls", "request")
    assert found.fact("tcp.local")["address"] == "127.0.0.2"


def test_the_interface_is_the_one_asked_for(secure: Server, trust: tuple[str, str]) -> None:
    check_answer(
        ask(secure.url + CHAT, *trust, "-4", "--interface", "lo"), "dns", "tcp", "tls", "request"
    )
