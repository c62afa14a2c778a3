"""Proxies that refuse, demand or close: exit 3 at proxy, the target never blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, KEY, trace, trusting
from tests.peers.certs import Certificates
from tests.peers.process import free_port
from tests.peers.proxies import ForwardProxy, ProxyFault
from tests.peers.scripted import HOLD, ScriptedOrigin
from tests.peers.socks5 import NOT_ALLOWED, REFUSED, Socks5Server

TARGET = "https://localhost:1" + CHAT

FAULTS = {
    ProxyFault.FORBID: ("refused", "403"),
    ProxyFault.BAD_GATEWAY: ("refused", "502"),
    ProxyFault.CLOSE: ("closed", "closed"),
    ProxyFault.RESET: ("closed", "reset"),
    ProxyFault.CUT_IN_HEAD: ("closed", "closed"),
    ProxyFault.GARBAGE: ("not-a-proxy", "HTTP"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.value)
def test_a_proxy_that_fails_is_named_and_not_the_target(tmp_path: Path, fault: ProxyFault) -> None:
    code, said = FAULTS[fault]
    with ForwardProxy(fault=fault) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url())
    result.failed_at("proxy", code)
    assert said in result.out
    assert any(found.startswith("PP4") for found in result.codes())
    assert result.stages()[0] == "dns"
    assert "tls" not in result.stages()


def test_a_proxy_that_never_answers_connect_ends_at_the_connect_timeout(tmp_path: Path) -> None:
    with ForwardProxy(fault=ProxyFault.HANG) as proxy:
        options = ("--proxy", proxy.url(), "--connect-timeout", "400ms")
        result = trace(tmp_path, TARGET, *options, limit_s=10)
    result.failed_at("proxy", "connect-timeout")
    assert "proxy" in result.spans("timed-out")


def test_a_proxy_that_closes_the_tunnel_shows_in_the_tls_handshake(tmp_path: Path) -> None:
    with ScriptedOrigin([HOLD]) as origin, ForwardProxy(fault=ProxyFault.CLOSE_TUNNEL) as proxy:
        url = f"https://{origin.authority}{CHAT}"
        result = trace(tmp_path, url, "--proxy", proxy.url())
    result.failed_at("tls", "closed")
    assert result.fact("proxy")["status"] == 200
    assert result.stages()[:3] == ["dns", "proxy", "tls"]


def test_a_proxy_that_demands_credentials_says_how_to_give_them(tmp_path: Path) -> None:
    with ForwardProxy(credentials=("me", KEY)) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url())
    hint = result.failed_at("proxy", "credentials")
    assert "USER:PASSWORD" in hint
    assert "demands" in result.out
    assert "Basic" in result.out
    assert result.advice("PP405")


def test_rejected_proxy_credentials_are_told_from_missing_ones_and_not_shown(
    tmp_path: Path,
) -> None:
    with ForwardProxy(credentials=("me", "right")) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url("me", KEY))
        assert proxy.authorizations[0] is not None
    result.failed_at("proxy", "credentials")
    assert "rejected" in result.out
    assert result.fact("proxy")["credentials"] is True


def test_a_407_to_a_plain_request_is_explained(tmp_path: Path) -> None:
    with ForwardProxy(credentials=("me", "right")) as proxy:
        result = trace(tmp_path, f"http://localhost:1{CHAT}", "--proxy", proxy.url())
    assert result.code == 1
    assert result.fact("http.status") == 407
    assert "PASSWORD" in result.advice("PP405")


def test_an_https_proxy_whose_certificate_fails_stops_at_proxy(
    tmp_path: Path, certs: Certificates
) -> None:
    with ForwardProxy(tls=certs.expired.server_context()) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url(), *trusting(certs))
    result.failed_at("proxy", "cert-expired")
    assert result.fact("proxy.tls.chain")
    assert result.fact("tls.chain") is None


def test_an_https_proxy_that_refuses_stops_at_proxy(tmp_path: Path, certs: Certificates) -> None:
    context = certs.good.server_context()
    with ForwardProxy(tls=context, fault=ProxyFault.FORBID) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url(), *trusting(certs))
    result.failed_at("proxy", "refused")
    assert result.fact("proxy.tls.version")


def test_a_proxy_that_is_not_there_is_named(tmp_path: Path) -> None:
    port = free_port()
    result = trace(tmp_path, TARGET, "--proxy", f"http://127.0.0.1:{port}")
    result.failed_at("proxy", "refused")
    assert f"127.0.0.1:{port}" in result.out


def test_a_proxy_from_the_environment_that_is_not_there_is_named_too(tmp_path: Path) -> None:
    port = free_port()
    result = trace(tmp_path, TARGET, https_proxy=f"http://me:{KEY}@127.0.0.1:{port}")
    result.failed_at("proxy", "refused")
    assert f"127.0.0.1:{port}" in result.out


@pytest.mark.parametrize(
    ("reply", "said"),
    [(NOT_ALLOWED, "not allowed"), (REFUSED, "refused")],
    ids=["rules", "refused"],
)
def test_a_socks_proxy_that_refuses_says_why(tmp_path: Path, reply: int, said: str) -> None:
    with Socks5Server(reply=reply) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url())
    result.failed_at("proxy")
    assert said in result.out


@pytest.mark.parametrize("login", [None, KEY], ids=["none given", "wrong"])
def test_a_socks_proxy_that_demands_credentials_is_told(tmp_path: Path, login: str | None) -> None:
    with Socks5Server(credentials=("me", "right")) as proxy:
        url = proxy.url() if login is None else proxy.url("me", login)
        result = trace(tmp_path, TARGET, "--proxy", url)
    hint = result.failed_at("proxy", "credentials")
    assert "USER:PASSWORD" in hint


def test_a_socks_proxy_that_closes_after_the_greeting_is_told(tmp_path: Path) -> None:
    with Socks5Server(close_after_greeting=True) as proxy:
        result = trace(tmp_path, TARGET, "--proxy", proxy.url())
    result.failed_at("proxy", "closed")


def test_an_http_server_taken_for_a_socks_proxy_is_told(tmp_path: Path) -> None:
    with ScriptedOrigin([b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as origin:
        result = trace(tmp_path, TARGET, "--proxy", f"socks5h://{origin.authority}")
    result.failed_at("proxy", "not-socks")
