"""What only explains a run, done after it and off its critical path: DNS in detail, certificates,
whether a second connection resumes, token counts."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import (
    DNS_ADDRESSES,
    DNS_HOST,
    DNS_HTTPS,
    DNS_SOURCE,
    HTTP_ALT_SVC,
    SPAN_SECOND,
    TCP_PEER,
)
from promptpath.model.plan import HttpChoice, Plan
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S
from promptpath.probe.connect import Connection
from promptpath.probe.dial import dial
from promptpath.probe.link import Settling
from promptpath.probe.recorder import Recorder
from promptpath.probe.response import ResponseReader
from promptpath.probe.tls import record_certificates_of
from promptpath.probe.tls_resumption import resume_check

RESUME_NS = 5 * NS_PER_S
"""Budget of the second connection: the first one just worked, so more than the 3 s of a lost SYN
(RFC 6298: 1 s, then 2 s) means that something else is wrong, which is not this question."""


async def explain_run(
    recorder: Recorder,
    plan: Plan,
    connection: Connection | None,
    reader: ResponseReader | None,
) -> None:
    """Everything that explains this run. Never raises for what the far side does."""
    facts = {fact.key: fact.value for fact in recorder.log.facts}
    if connection is not None and not connection.http.reusable():
        # A server that takes one connection at a time would not take the second one before.
        await connection.link.close()
    await asyncio.gather(
        _explain_dns(recorder, plan, connection, facts),
        _try_resumption(recorder, plan, connection, facts),
    )
    await _explain_quic(recorder, plan, connection)
    if connection is not None:
        record_certificates_of(connection.link)
        if isinstance(connection.link, Settling):
            connection.link.settle()
    if reader is not None and reader.body is not None:
        reader.body.count_tokens()


async def _explain_quic(recorder: Recorder, plan: Plan, connection: Connection | None) -> None:
    """Over QUIC what a second connection tells; over TCP, where h3 is on offer, whether UDP gets
    through. aioquic is loaded only then."""
    if connection is None or plan.proxy is not None:
        return
    if connection.http.version == "3":
        from promptpath.probe.quic_aftermath import explain_quic

        await explain_quic(recorder, plan, connection)
    elif plan.udp_probe and plan.http is HttpChoice.AUTO and connection.target.scheme == "https":
        offers = (HTTP_ALT_SVC, DNS_HTTPS)
        services = [fact.value for fact in recorder.log.facts if fact.key in offers]
        if any("'h3'" in repr(value) for value in services):
            from promptpath.probe.quic_aftermath import probe_udp

            await probe_udp(recorder, plan, connection)


async def _explain_dns(
    recorder: Recorder, plan: Plan, connection: Connection | None, facts: dict[str, Json]
) -> None:
    """Ask the configured resolver what the system's call hid, and the one of --resolver for what
    the run did not need. A name from the hosts file, a literal and an override were never asked
    for."""
    source, host = facts.get(DNS_SOURCE), facts.get(DNS_HOST)
    failed = source is None and plan.resolver is None
    if not plan.dns_detail or host is None or not (failed or source in ("system", "resolver")):
        return
    from promptpath.probe.dns import configured_resolver, explain_resolution, explain_service

    target = plan.target if connection is None else connection.target
    proxied = plan.proxy is not None and plan.proxy.host == host
    port = plan.proxy.port if plan.proxy is not None and proxied else target.port
    if source == "resolver" and plan.resolver is not None:
        await explain_service(recorder, plan.resolver, host, port)
    elif (server := configured_resolver()) is not None:
        system = facts.get(DNS_ADDRESSES) or []
        await explain_resolution(recorder, server, host, port, system=system)


async def _try_resumption(
    recorder: Recorder, plan: Plan, connection: Connection | None, facts: dict[str, Json]
) -> None:
    """A second connection with the session of the first: does the server resume it, and how long
    does that handshake take?"""
    if not plan.resume or plan.proxy is not None or connection is None or connection.tls is None:
        return
    if connection.tls.session is None:
        await resume_check(recorder, None, connection.tls, deadline_ns=recorder.now_ns())
        return
    peer = facts.get(TCP_PEER)
    if not isinstance(peer, dict):
        return
    with suppress(MeasureError), recorder.span(Stage.TLS, SPAN_SECOND) as span:
        deadline_ns = recorder.now_ns() + RESUME_NS
        link = await dial(
            recorder,
            [(peer["address"], peer["port"])],
            deadline_ns=deadline_ns,
            source=plan.source_address,
            interface=plan.interface,
            parent=span,
        )
        try:
            await resume_check(recorder, link, connection.tls, deadline_ns=deadline_ns, parent=span)
        except BaseException:
            link.abort()
            raise
