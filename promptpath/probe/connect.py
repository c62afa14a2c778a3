"""From a plan to a connection that takes a request: DNS, proxy or TCP, TLS, then HTTP by ALPN."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, replace

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import PROXY_BYPASSED, TCP_INFO
from promptpath.model.plan import HttpChoice, Plan, ProxyKind, Target
from promptpath.model.units import Ns
from promptpath.probe import tls_context
from promptpath.probe.dial import dial
from promptpath.probe.link import Link
from promptpath.probe.proxy import dial_proxy, open_tunnel, record_proxy
from promptpath.probe.recorder import Recorder
from promptpath.probe.request import QueuedRequest, build_request, queue_request
from promptpath.probe.resolve import resolve
from promptpath.probe.tls import TlsLink, handshake
from promptpath.probe.tls_context import TlsSettings
from promptpath.wire.h1 import H1Connection
from promptpath.wire.h2 import H2Connection
from promptpath.wire.http import HttpConnection

ALPN_OFFERS: dict[HttpChoice, tuple[str, ...]] = {
    HttpChoice.AUTO: ("h2", "http/1.1"),
    HttpChoice.H1: ("http/1.1",),
    HttpChoice.H2: ("h2",),
    HttpChoice.RACE: ("h2", "http/1.1"),
}
"""What is offered in the ClientHello (RFC 7301), by --http."""


@dataclass(slots=True)
class Connection:
    """One connection, ready for a request."""

    target: Target
    link: Link
    http: HttpConnection
    tls: TlsLink | None
    absolute_form: bool
    """Plain http through a proxy: the request names the whole URL (RFC 9112, 3.2.2)."""
    queued: QueuedRequest | None = None
    """The next request, where it was written ahead."""

    @property
    def conn(self) -> int:
        """Its number in the trace."""
        return self.link.conn


def prepare(plan: Plan) -> None:
    """Do before t0 what takes tens of milliseconds: load the trust store, and the DNS codec where
    our own queries are on the critical path. Raises UsageError."""
    if plan.resolver is not None:
        import promptpath.probe.dns  # noqa: F401
    proxy = plan.proxy
    if plan.http in (HttpChoice.H3, HttpChoice.RACE):
        # aioquic takes 0.1 s to load: only for who asks for it.
        from promptpath.probe.quic_dial import prepare as prepare_quic

        prepare_quic(plan)
    if plan.http is HttpChoice.H3:
        return
    if plan.target.scheme == "https" or (proxy is not None and proxy.kind is ProxyKind.HTTPS):
        files = (plan.ca_file, plan.insecure, plan.keylog_file)
        tls_context.prepare(TlsSettings(*files, named=plan.sni != ""))
        if proxy is not None and proxy.kind is ProxyKind.HTTPS:
            tls_context.prepare(TlsSettings(*files))


@dataclass(frozen=True, slots=True)
class Ready:
    """An HTTP connection before there is a peer: what it opens with, and the first request."""

    http: HttpConnection
    opening: bytes
    queued: QueuedRequest | None = None


def ready_for(plan: Plan) -> Ready | None:
    """Where no ALPN decides what is spoken, a connection with the plan's request written: before
    t0, for it takes h11 0.12 ms (measured), which would stand between the connection and the
    request. Over QUIC the ClientHello is made then. None under TLS."""
    if plan.http in (HttpChoice.H3, HttpChoice.RACE):
        from promptpath.probe.quic_dial import ready_connection

        return Ready(ready_connection(plan), b"")
    if plan.target.scheme == "https":
        return None
    ready = _new_http(_protocol(plan, None))
    request = build_request(plan, plan.target, absolute_form=_absolute_form(plan))
    with suppress(MeasureError):  # told when its turn comes
        return replace(ready, queued=queue_request(ready.http, request))
    return ready


def _new_http(name: str) -> Ready:
    http: HttpConnection = H2Connection() if name == "h2" else H1Connection()
    return Ready(http, http.data_to_send())


def _absolute_form(plan: Plan) -> bool:
    proxy = plan.proxy
    plain = plan.target.scheme == "http"
    return plain and proxy is not None and proxy.kind in (ProxyKind.HTTP, ProxyKind.HTTPS)


async def open_connection(
    recorder: Recorder, plan: Plan, deadline_ns: Ns, ready: Ready | None = None
) -> Connection:
    """Every hop up to the request, each recorded; `ready` is what `ready_for` made of this plan,
    good for one connection. Raises MeasureError naming the stage."""
    if plan.http is HttpChoice.H3:
        return await _open_quic(recorder, plan, deadline_ns, ready)
    if plan.http is HttpChoice.RACE:
        return await _race(recorder, plan, deadline_ns, ready)
    link = await _open_transport(recorder, plan, deadline_ns)
    return await _over(recorder, plan, link, deadline_ns, ready)


async def _over(
    recorder: Recorder, plan: Plan, link: Link, deadline_ns: Ns, ready: Ready | None
) -> Connection:
    """TLS, where the URL wants it, and HTTP over a transport that stands."""
    top: Link = link
    try:
        tls = await _open_tls(recorder, plan, link, deadline_ns)
        top = tls or link
        ready = ready or _new_http(_protocol(plan, tls))
        top.write(ready.opening)
    except BaseException:
        top.abort()
        raise
    if tls is not None:
        snapshot(recorder, top, "tls")
    return Connection(
        target=plan.target,
        link=top,
        http=ready.http,
        tls=tls,
        absolute_form=_absolute_form(plan),
        queued=ready.queued,
    )


async def _race(recorder: Recorder, plan: Plan, deadline_ns: Ns, ready: Ready | None) -> Connection:
    from promptpath.probe.race import race
    from promptpath.wire.h3 import H3Connection

    async def over_tcp(addresses: tuple[str, ...]) -> Connection:
        link = await _dial(recorder, plan, addresses, deadline_ns)
        return await _over(recorder, plan, link, deadline_ns, None)

    addresses = await resolve(recorder, plan, plan.target.host, plan.target.port)
    first = ready.http if ready is not None and isinstance(ready.http, H3Connection) else None
    return await race(recorder, plan, addresses, over_tcp, deadline_ns=deadline_ns, ready=first)


async def _open_quic(
    recorder: Recorder, plan: Plan, deadline_ns: Ns, ready: Ready | None
) -> Connection:
    from promptpath.probe.quic_dial import dial_quic
    from promptpath.wire.h3 import H3Connection

    target = plan.target
    addresses = await resolve(recorder, plan, target.host, target.port)
    link = await dial_quic(
        recorder,
        plan,
        [(address, target.port) for address in addresses],
        deadline_ns=deadline_ns,
        ready=ready.http if ready is not None and isinstance(ready.http, H3Connection) else None,
    )
    return Connection(target=target, link=link, http=link.http, tls=None, absolute_form=False)


def snapshot(recorder: Recorder, link: Link, when: str) -> None:
    """Record TCP_INFO as a fact, where the system has it."""
    info = link.info()
    if info is not None:
        recorder.observed(TCP_INFO, {"when": when, "conn": link.conn, **info})


async def _open_transport(recorder: Recorder, plan: Plan, deadline_ns: Ns) -> Link:
    target, proxy = plan.target, plan.proxy
    if plan.proxy_bypassed is not None:
        recorder.observed(PROXY_BYPASSED, {"why": plan.proxy_bypassed})
    if proxy is None:
        addresses = await resolve(recorder, plan, target.host, target.port)
        return await _dial(recorder, plan, addresses, deadline_ns)
    link = await dial_proxy(recorder, plan, proxy, deadline_ns)
    if _absolute_form(plan):
        record_proxy(recorder, proxy, "absolute-form", None, None)
        return link
    try:
        return await open_tunnel(recorder, plan, proxy, link, deadline_ns)
    except BaseException:
        link.abort()
        raise


async def _dial(
    recorder: Recorder, plan: Plan, addresses: tuple[str, ...], deadline_ns: Ns
) -> Link:
    return await dial(
        recorder,
        [(address, plan.target.port) for address in addresses],
        deadline_ns=deadline_ns,
        source=plan.source_address,
        interface=plan.interface,
    )


async def _open_tls(
    recorder: Recorder,
    plan: Plan,
    link: Link,
    deadline_ns: Ns,
    session: ssl.SSLSession | None = None,
) -> TlsLink | None:
    if plan.target.scheme != "https":
        return None
    return await handshake(
        recorder,
        link,
        host=plan.target.host,
        sni=plan.sni,
        alpn=ALPN_OFFERS[plan.http],
        ca_file=plan.ca_file,
        insecure=plan.insecure,
        keylog_file=plan.keylog_file,
        session=session,
        deadline_ns=deadline_ns,
    )


def _protocol(plan: Plan, tls: TlsLink | None) -> str:
    """What is spoken, by its ALPN name. Raises MeasureError when it is not what was asked for."""
    if tls is None:
        return "h2" if plan.http is HttpChoice.H2 else "http/1.1"
    if tls.alpn == "h2":
        return "h2"
    if plan.http is HttpChoice.H2:
        raise MeasureError(
            f"the server agreed on {tls.alpn or 'no protocol'} where only h2 was offered",
            stage=Stage.TLS.value,
            code="alpn-mismatch",
            expected="ALPN h2",
            where=f"tls, {plan.target.authority}",
            hint="use --http auto or --http 1.1",
        )
    return "http/1.1"
