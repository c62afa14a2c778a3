"""Through a proxy: HTTP CONNECT, HTTPS proxy (TLS to the proxy first), SOCKS5 with local or remote
names.

Each step is a span of its own (proxy-dial, proxy-tls, tunnel), so that a slow proxy is not taken
for a slow endpoint.
"""

from __future__ import annotations

import base64

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import PROXY, SPAN_PROXY_TUNNEL
from promptpath.model.plan import Plan, ProxyKind, ProxyPlan
from promptpath.model.rows import Json
from promptpath.model.units import Ns
from promptpath.probe.dial import dial
from promptpath.probe.link import Chunk, Closed, Link, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.resolve import resolve
from promptpath.probe.tls import handshake
from promptpath.wire.h1 import H1Connection
from promptpath.wire.http import Broken, Head, HttpRequest
from promptpath.wire.socks import SocksConnect, SocksFailure, SocksState

_ALPN = ("http/1.1",)
"""CONNECT over HTTP/1.1: every HTTPS proxy speaks it (RFC 9110, 9.3.6)."""


async def dial_proxy(recorder: Recorder, plan: Plan, proxy: ProxyPlan, deadline_ns: Ns) -> Link:
    """A connection to the proxy itself, through TLS for an HTTPS proxy. Raises MeasureError."""
    addresses = await resolve(recorder, plan, proxy.host, proxy.port)
    link = await dial(
        recorder,
        [(address, proxy.port) for address in addresses],
        deadline_ns=deadline_ns,
        source=plan.source_address,
        interface=plan.interface,
        stage=Stage.PROXY,
    )
    if proxy.kind is not ProxyKind.HTTPS:
        return link
    try:
        return await handshake(
            recorder,
            link,
            host=proxy.host,
            sni=None,
            alpn=_ALPN,
            ca_file=plan.ca_file,
            insecure=plan.insecure,
            keylog_file=plan.keylog_file,
            deadline_ns=deadline_ns,
            stage=Stage.PROXY,
            prefix="proxy.tls.",
        )
    except BaseException:
        link.abort()
        raise


async def open_tunnel(
    recorder: Recorder, plan: Plan, proxy: ProxyPlan, link: Link, deadline_ns: Ns
) -> Link:
    """Ask the proxy for a tunnel to the target; the link then speaks to the target itself.

    Raises MeasureError (stage proxy: refused, credentials, closed, not-a-proxy, connect-timeout).
    """
    target = plan.target
    host = target.host
    if proxy.kind is ProxyKind.SOCKS5:
        host = (await resolve(recorder, plan, target.host, target.port))[0]
    with recorder.span(Stage.PROXY, SPAN_PROXY_TUNNEL, conn=link.conn) as span:
        try:
            if proxy.kind in (ProxyKind.SOCKS5, ProxyKind.SOCKS5H):
                leftover = await _socks(link, proxy, host, target.port, deadline_ns)
                record_proxy(recorder, proxy, "tunnel", None, span)
            else:
                leftover = await _connect(recorder, link, proxy, plan, span, deadline_ns)
        except TimeoutError as error:
            raise _failed(
                proxy,
                "the proxy did not answer the request for a tunnel in time",
                "connect-timeout",
                "raise --connect-timeout, or try without the proxy: --proxy none",
            ) from error
    return PrefixedLink(link, leftover) if leftover.data else link


def record_proxy(
    recorder: Recorder, proxy: ProxyPlan, mode: str, status: int | None, span: int | None
) -> None:
    """The `proxy` fact."""
    value: dict[str, Json] = {
        "kind": proxy.kind.value,
        "address": f"{proxy.host}:{proxy.port}",
        "source": proxy.source,
        "mode": mode,
        "status": status,
        "credentials": proxy.username is not None,
    }
    recorder.observed(PROXY, value, span)


def proxy_authorization(proxy: ProxyPlan) -> tuple[tuple[str, str], ...]:
    """The Proxy-Authorization header where credentials were given (RFC 7617)."""
    if proxy.username is None:
        return ()
    pair = f"{proxy.username}:{proxy.password or ''}".encode()
    return (("proxy-authorization", "Basic " + base64.b64encode(pair).decode("ascii")),)


async def _connect(
    recorder: Recorder, link: Link, proxy: ProxyPlan, plan: Plan, span: int, deadline_ns: Ns
) -> Chunk:
    host = plan.target.host
    authority = f"[{host}]:{plan.target.port}" if ":" in host else f"{host}:{plan.target.port}"
    http = H1Connection()
    http.request(
        HttpRequest(
            method="CONNECT",
            scheme="http",
            authority=authority,
            target=authority,
            headers=proxy_authorization(proxy),
        )
    )
    link.write(http.data_to_send(), "connect")
    while True:
        for item in await link.receive(deadline_ns):
            if isinstance(item, Closed):
                raise _closed(proxy, item)
            for event in http.receive(item.data, item.stamp):
                if isinstance(event, Broken):
                    raise _failed(
                        proxy,
                        f"the proxy did not answer in HTTP: {event.what}",
                        "not-a-proxy",
                        "check the proxy's scheme and port (http://, https:// or socks5://)",
                    )
                if isinstance(event, Head):
                    record_proxy(recorder, proxy, "tunnel", event.status, span)
                    if not 200 <= event.status < 300:
                        raise _refused(proxy, event)
                    return Chunk(http.tunnel_bytes(), item.stamp)


def _refused(proxy: ProxyPlan, head: Head) -> MeasureError:
    if head.status == 407:
        schemes = ", ".join(
            value.split(" ")[0] for name, value in head.headers if name == "proxy-authenticate"
        )
        given = "rejected the credentials" if proxy.username else "demands credentials"
        return _failed(
            proxy,
            f"the proxy {given} (407, schemes offered: {schemes or 'none'})",
            "credentials",
            "put them in the proxy URL: http://USER:PASSWORD@HOST:PORT (only Basic is spoken)",
        )
    return _failed(
        proxy,
        f"the proxy refused the tunnel with status {head.status}",
        "refused",
        "ask the proxy's owner to allow CONNECT to this host and port, or try --proxy none",
    )


async def _socks(link: Link, proxy: ProxyPlan, host: str, port: int, deadline_ns: Ns) -> Chunk:
    exchange = SocksConnect(host, port, proxy.username, proxy.password)
    link.write(exchange.hello(), "socks-hello")
    while True:
        for item in await link.receive(deadline_ns):
            if isinstance(item, Closed):
                raise _closed(proxy, item)
            try:
                reply = exchange.feed(item.data)
            except SocksFailure as error:
                hint = {
                    "credentials": "put them in the proxy URL: socks5://USER:PASSWORD@HOST:PORT",
                    "not-socks": "check the proxy's scheme and port",
                }.get(error.code, "socks5h:// lets the proxy resolve the name; or --proxy none")
                raise _failed(proxy, str(error), error.code, hint) from error
            if reply:
                link.write(reply)
            if exchange.state is SocksState.DONE:
                return Chunk(exchange.leftover, item.stamp)


def _closed(proxy: ProxyPlan, closed: Closed) -> MeasureError:
    how = {"rst": "reset the connection", "fin": "closed the connection"}
    return _failed(
        proxy,
        f"the proxy {how.get(closed.how, 'ended the connection')} instead of opening a tunnel",
        "closed",
        "its log says why; try without it: --proxy none",
    )


def _failed(proxy: ProxyPlan, what: str, code: str, hint: str) -> MeasureError:
    return MeasureError(
        what,
        stage=Stage.PROXY.value,
        code=code,
        expected="a tunnel to the target",
        where=f"proxy {proxy.kind.value}://{proxy.host}:{proxy.port}",
        hint=hint,
    )


class PrefixedLink:
    """A link whose first bytes came together with the proxy's answer."""

    def __init__(self, link: Link, first: Chunk) -> None:
        self._link = link
        self._first: Chunk | None = first
        self.conn = link.conn

    @property
    def below(self) -> Link:
        """The tunnel."""
        return self._link

    def rebind(self, recorder: Recorder) -> None:
        """As the link below."""
        self._link.rebind(recorder)
        self.conn = self._link.conn

    def write(self, data: bytes, mark: str | None = None) -> None:
        """As the link below."""
        self._link.write(data, mark)

    async def drain(self) -> None:
        """As the link below."""
        await self._link.drain()

    async def receive(self, deadline_ns: Ns | None = None) -> list[Chunk | Closed]:
        """The bytes left over, then as the link below."""
        if self._first is not None:
            first, self._first = self._first, None
            return [first]
        return await self._link.receive(deadline_ns)

    def sent(self, mark: str) -> Sent:
        """As the link below."""
        return self._link.sent(mark)

    async def sent_wire(self, mark: str, deadline_ns: Ns) -> Sent:
        """As the link below."""
        return await self._link.sent_wire(mark, deadline_ns)

    def info(self) -> dict[str, int] | None:
        """As the link below."""
        return self._link.info()

    async def close(self) -> None:
        """As the link below."""
        await self._link.close()

    def abort(self) -> None:
        """As the link below."""
        self._link.abort()
