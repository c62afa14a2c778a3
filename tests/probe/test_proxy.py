"""Tunnels through proxies: each way they open, and each way they fail, told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from promptpath.errors import MeasureError
from promptpath.model.plan import Plan, ProxyKind, ProxyPlan
from promptpath.model.stamp import user_stamp
from promptpath.model.units import NS_PER_MS
from promptpath.model.urls import parse_url
from promptpath.probe.clock import RunClock
from promptpath.probe.link import Chunk, Link
from promptpath.probe.proxy import PrefixedLink, dial_proxy, open_tunnel, proxy_authorization
from promptpath.probe.recorder import Recorder
from tests.peers.certs import Certificates
from tests.peers.proxies import ForwardProxy, ProxyFault
from tests.peers.scripted import ReadRequest, ScriptedOrigin, Step
from tests.peers.socks5 import HOST_UNREACHABLE, NOT_ALLOWED, REFUSED, Socks5Server
from tests.probe.loopback import PATIENCE_NS
from tests.probe.scripted_link import At, scene

LOGIN = ("ada", "s3cret")


def through(kind: ProxyKind, port: int, *, login: tuple[str, str] | None = None) -> ProxyPlan:
    user, password = login or (None, None)
    host = "localhost" if kind is ProxyKind.HTTPS else "127.0.0.1"
    return ProxyPlan(kind=kind, host=host, port=port, username=user, password=password)


def tunnel(
    proxy: ProxyPlan,
    origin: ScriptedOrigin,
    then: Callable[[Link], Awaitable[Any]] | None = None,
    *,
    budget_ns: int = PATIENCE_NS,
    host: str = "127.0.0.1",
    **changes: Any,
) -> Recorder:
    """Open a tunnel to the origin, use it, and let it go."""
    plan = replace(Plan(target=parse_url(f"http://{host}:{origin.port}/"), proxy=proxy), **changes)
    recorder = Recorder(RunClock.start())

    async def opened() -> None:
        deadline_ns = recorder.clock.deadline(budget_ns)
        link = await dial_proxy(recorder, plan, proxy, deadline_ns)
        try:
            link = await open_tunnel(recorder, plan, proxy, link, deadline_ns)
            if then is not None:
                await then(link)
        finally:
            link.abort()

    asyncio.run(opened())
    return recorder


def failing(proxy: ProxyPlan, **options: Any) -> MeasureError:
    """Why the tunnel does not open; the origin behind it hears nothing."""
    with ScriptedOrigin([ReadRequest()]) as origin:
        with pytest.raises(MeasureError) as caught:
            tunnel(proxy, origin, **options)
        assert not origin.requests
    error = caught.value
    assert error.stage == "proxy" and error.hint
    assert LOGIN[1] not in f"{error.what}{error.where}{error.hint}"
    return error


async def exchange(link: Link) -> None:
    """A request and its answer through the tunnel."""
    link.write(b"GET / HTTP/1.1\r\n\r\n")
    data = b""
    while b"hello" not in data:
        for item in await link.receive():
            assert isinstance(item, Chunk) or b"hello" in data, item
            data += item.data if isinstance(item, Chunk) else b""


ANSWER: list[Step] = [ReadRequest(), b"hello"]


@pytest.mark.parametrize("login", [None, LOGIN])
def test_connect_opens_a_tunnel(login: tuple[str, str] | None) -> None:
    with ForwardProxy(credentials=login) as server, ScriptedOrigin(ANSWER) as origin:
        proxy = through(ProxyKind.HTTP, server.port, login=login)
        recorder = tunnel(proxy, origin, exchange)
        assert server.request_lines == [f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1"]
    spans = [(span.name, span.outcome.value) for span in recorder.log.spans if not span.parent]
    assert spans == [("resolve", "ok"), ("proxy-dial", "ok"), ("tunnel", "ok")]
    (fact,) = [fact.value for fact in recorder.log.facts if fact.key == "proxy"]
    assert (fact["status"], fact["credentials"]) == (200, login is not None)
    assert LOGIN[1] not in str(fact)


def test_an_https_proxy_is_spoken_to_through_tls(certs: Certificates) -> None:
    context = certs.good.server_context(alpn=("http/1.1",))
    with ForwardProxy(tls=context) as server, ScriptedOrigin(ANSWER) as origin:
        proxy = through(ProxyKind.HTTPS, server.port)
        recorder = tunnel(proxy, origin, exchange, ca_file=str(certs.ca))
    assert "proxy-tls" in [span.name for span in recorder.log.spans]
    assert any(fact.key == "proxy.tls.version" for fact in recorder.log.facts)


def test_an_https_proxy_that_is_not_trusted_is_let_go(certs: Certificates) -> None:
    with ForwardProxy(tls=certs.good.server_context()) as server:
        error = failing(through(ProxyKind.HTTPS, server.port))
    assert error.code == "cert-unknown-ca"


@pytest.mark.parametrize("login", [None, LOGIN])
@pytest.mark.parametrize("kind", [ProxyKind.SOCKS5, ProxyKind.SOCKS5H])
def test_socks5_opens_a_tunnel_with_the_name_or_the_address(
    kind: ProxyKind, login: tuple[str, str] | None
) -> None:
    with Socks5Server(credentials=login) as server, ScriptedOrigin(ANSWER) as origin:
        proxy = through(kind, server.port, login=login)
        tunnel(proxy, origin, exchange, host="localhost")
        (request,) = server.requests
    assert request.by_name is (kind is ProxyKind.SOCKS5H)
    assert request.user == (login[0] if login else None)


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (ProxyFault.FORBID, "refused"),
        (ProxyFault.BAD_GATEWAY, "refused"),
        (ProxyFault.CLOSE, "closed"),
        (ProxyFault.RESET, "closed"),
        (ProxyFault.CUT_IN_HEAD, "closed"),
        (ProxyFault.GARBAGE, "not-a-proxy"),
    ],
)
def test_each_way_a_proxy_fails_has_its_code(fault: ProxyFault, code: str) -> None:
    with ForwardProxy(fault=fault) as server:
        assert failing(through(ProxyKind.HTTP, server.port)).code == code


def test_a_proxy_that_never_answers_ends_at_the_deadline() -> None:
    with ForwardProxy(fault=ProxyFault.HANG) as server:
        error = failing(through(ProxyKind.HTTP, server.port), budget_ns=100 * NS_PER_MS)
    assert error.code == "connect-timeout"


@pytest.mark.parametrize(("login", "word"), [(None, "demands"), (("eve", "guess"), "rejected")])
def test_407_says_whether_credentials_were_missing_or_wrong(
    login: tuple[str, str] | None, word: str
) -> None:
    with ForwardProxy(credentials=LOGIN) as server:
        error = failing(through(ProxyKind.HTTP, server.port, login=login))
    assert error.code == "credentials" and word in error.what and "Basic" in error.what


@pytest.mark.parametrize("reply", [NOT_ALLOWED, HOST_UNREACHABLE, REFUSED])
def test_a_socks_refusal_is_told(reply: int) -> None:
    with Socks5Server(reply=reply) as server:
        error = failing(through(ProxyKind.SOCKS5H, server.port))
    assert error.code and str(server.port) in (error.where or "")


@pytest.mark.parametrize("login", [None, ("eve", "guess")])
def test_socks_credentials_missing_or_wrong(login: tuple[str, str] | None) -> None:
    with Socks5Server(credentials=LOGIN) as server:
        error = failing(through(ProxyKind.SOCKS5H, server.port, login=login))
    assert error.code == "credentials"


def test_a_socks_server_that_hangs_up() -> None:
    with Socks5Server(close_after_greeting=True) as server:
        assert failing(through(ProxyKind.SOCKS5H, server.port)).code == "closed"


def test_http_where_socks_was_expected_is_told() -> None:
    with ScriptedOrigin([b"HTTP/1.1 400 Bad Request\r\n\r\n"]) as server:
        assert failing(through(ProxyKind.SOCKS5H, server.port)).code == "not-socks"


def test_an_ipv6_target_is_named_in_brackets() -> None:
    made = scene(At(1, b"HTTP/1.1 200 OK\r\n\r\n"))
    plan = Plan(target=parse_url("https://[::1]:8443/"))
    proxy = through(ProxyKind.HTTP, 3128)
    asyncio.run(open_tunnel(made.recorder, plan, proxy, made.link, 10 * NS_PER_MS))
    head = bytes(made.link.written).lower()
    assert head.startswith(b"connect [::1]:8443 http/1.1\r\nhost: [::1]:8443\r\n")


def test_bytes_that_came_with_the_proxys_answer_are_the_tunnels_first() -> None:
    made = scene(At(5, b"HTTP/1.1 200 OK\r\n\r\nearly"), At(9, b"later"))

    async def both() -> list[bytes]:
        plan = Plan(target=parse_url("https://far.example/"))
        proxy = through(ProxyKind.HTTP, 3128)
        link = await open_tunnel(made.recorder, plan, proxy, made.link, 10**9)
        found = []
        for _ in range(2):
            (item,) = await link.receive()
            assert isinstance(item, Chunk)
            found.append(item.data)
        return found

    assert asyncio.run(both()) == [b"early", b"later"]
    assert made.span("tunnel") == (0, 5, "ok")


def test_a_prefixed_link_is_the_link_below_in_all_else() -> None:
    made = scene()
    link = PrefixedLink(made.link, Chunk(b"x", user_stamp(0)))
    link.write(b"data", "mark")
    assert bytes(made.link.written) == b"data" and link.sent("mark").written is not None
    assert link.below is made.link and link.conn == made.link.conn and link.info() is None
    asyncio.run(link.close())
    assert made.link.ended == "close"
    link.abort()
    assert made.link.ended == "abort"


def test_no_user_no_authorization() -> None:
    assert proxy_authorization(through(ProxyKind.HTTP, 1)) == ()
    header = proxy_authorization(through(ProxyKind.HTTP, 1, login=("ada", "pä")))
    assert header == (("proxy-authorization", "Basic YWRhOnDDpA=="),)  # UTF-8
