"""What only explains a run over QUIC, or one that could have been: the chain, resumption and early
data on a second connection, and whether UDP gets through at all. Off the critical path."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from aioquic.tls import SessionTicket

from promptpath.errors import MeasureError
from promptpath.model.enums import Stage
from promptpath.model.names import (
    DNS_HTTPS,
    HTTP_ALT_SVC,
    QUIC_EARLY_DATA,
    QUIC_PEER,
    QUIC_UDP,
    SPAN_SECOND,
    TCP_PEER,
    TLS_RESUMED,
)
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S, Ns
from promptpath.probe.connect import Connection
from promptpath.probe.link import Closed
from promptpath.probe.quic import QuicLink
from promptpath.probe.quic_dial import QuicOptions, dial_quic, options_of
from promptpath.probe.quic_failure import record_chain
from promptpath.probe.recorder import Recorder
from promptpath.probe.request import build_request
from promptpath.wire.h3 import H3Connection
from promptpath.wire.http import Head, HttpRequest

SECOND_NS = 5 * NS_PER_S
"""Budget of a second connection, as over TCP (`aftermath.RESUME_NS`)."""
UDP_NS = 3 * NS_PER_S
"""Budget of the UDP try: the first Initial and two repeats, at 1 and 3 s less (RFC 9002, 6.2.1 and
6.2.2: a probe timeout of 1 s where no round trip is known, doubled)."""
_REPLAY_WHY = "a replayed prompt costs tokens twice (RFC 8470): GET / was sent instead"


async def explain_quic(recorder: Recorder, plan: Plan, connection: Connection) -> None:
    """The chain as a fact, then resumption, and early data with --early-data."""
    link = connection.link
    if not isinstance(link, QuicLink):
        return
    record_chain(recorder, link)
    tickets = link.http.quic.tickets
    if not tickets:
        recorder.observed(TLS_RESUMED, {"offered": False, "accepted": False})
        return
    facts = {fact.key: fact.value for fact in recorder.log.facts}
    peer = facts.get(QUIC_PEER)
    if not plan.resume or not isinstance(peer, dict):
        return
    with suppress(MeasureError, TimeoutError), recorder.span(Stage.QUIC, SPAN_SECOND) as span:
        await _second(recorder, plan, tickets[-1], (peer["address"], peer["port"]), span)


async def _second(
    recorder: Recorder, plan: Plan, ticket: SessionTicket, peer: tuple[str, int], span: int
) -> None:
    options = options_of(plan)
    options = replace(options, settings=replace(options.settings, ticket=ticket), aside=True)
    http = H3Connection(options.settings)
    deadline_ns = recorder.now_ns() + SECOND_NS
    early = _early_request(plan) if plan.early_data and ticket.max_early_data_size else None
    http.quic.connect(recorder.now_ns())
    if early is not None:
        http.request(early)
    link = await dial_quic(
        recorder,
        plan,
        [peer],
        deadline_ns=deadline_ns,
        ready=http,
        options=options,
        parent=span,
    )
    try:
        done = http.quic.handshake
        resumed = done is not None and done.session_resumed
        recorder.observed(TLS_RESUMED, {"offered": True, "accepted": resumed}, span)
        if early is not None:
            await _early_data(recorder, plan, link, early, deadline_ns)
        elif plan.early_data:
            recorder.observed(QUIC_EARLY_DATA, _nothing_offered())
    finally:
        link.abort()


def _early_request(plan: Plan) -> HttpRequest:
    """The plan's own request where it is safe (RFC 9110, 9.2.1), else GET /: never a prompt."""
    if plan.method in ("GET", "HEAD"):
        return build_request(plan, plan.target, absolute_form=False)
    safe = replace(plan, method="GET", body=None, headers=(), target=replace(plan.target, path="/"))
    return build_request(safe, safe.target, absolute_form=False)


def _nothing_offered() -> dict[str, Json]:
    return {
        "offered": False,
        "accepted": None,
        "retried": False,
        "why": "the server's ticket allows none",
        "request": None,
        "status": None,
        "head_ns": None,
        "saved_ns": None,
    }


async def _early_data(
    recorder: Recorder, plan: Plan, link: QuicLink, early: HttpRequest, deadline_ns: Ns
) -> None:
    """What came of the request that went with the ClientHello. After a Retry aioquic never sends it
    again (measured), and after a rejection it must be sent anew (RFC 9001, 4.6.2)."""
    http = link.http
    completed_ns = recorder.now_ns()
    done = http.quic.handshake
    accepted = done is not None and done.early_data_accepted
    retried = "retry" in link.steps
    if retried:
        http.request(early)
        link.flush()
    head = await _head(link, deadline_ns)
    out_ns = link.first_out_ns
    in_time = accepted and not retried
    recorder.observed(
        QUIC_EARLY_DATA,
        {
            "offered": True,
            "accepted": accepted,
            "retried": retried,
            "why": _REPLAY_WHY if plan.method not in ("GET", "HEAD") else None,
            "request": f"{early.method} {'/' if plan.method != early.method else 'the same'}",
            "status": None if head is None else head.status,
            "head_ns": None if head is None or out_ns is None else head.stamp.at_ns - out_ns,
            "saved_ns": completed_ns - out_ns if in_time and out_ns is not None else None,
        },
    )


async def _head(link: QuicLink, deadline_ns: Ns) -> Head | None:
    """The first response head; None when none comes."""
    while True:
        # The answer to early data may have come with the handshake.
        items: Sequence[object] = ()
        if not link.http.has_events:
            try:
                items = await link.receive(deadline_ns)
            except TimeoutError:
                return None
        for event in link.http.receive(b"", link.last_stamp or link.stamp()):
            if isinstance(event, Head):
                return event
        if any(isinstance(item, Closed) for item in items):
            return None


async def probe_udp(recorder: Recorder, plan: Plan, connection: Connection) -> None:
    """Whether a QUIC handshake gets through to where h3 is on offer; records `quic.udp`."""
    facts = {fact.key: fact.value for fact in recorder.log.facts}
    peer = facts.get(TCP_PEER)
    records = [fact.value for fact in recorder.log.facts if fact.key == DNS_HTTPS]
    port = _offered_port(facts, connection) or _recorded_port(records, connection)
    if port is None or not isinstance(peer, dict) or not isinstance(peer.get("address"), str):
        return
    address = str(peer["address"])
    record: dict[str, Json] = {"address": address, "port": port, "version": None, "rtt_ns": None}
    options: QuicOptions = replace(options_of(replace(plan, insecure=True)), aside=True)
    with suppress(MeasureError), recorder.span(Stage.QUIC, SPAN_SECOND) as span:
        try:
            link = await dial_quic(
                recorder,
                plan,
                [(address, port)],
                deadline_ns=recorder.now_ns() + UDP_NS,
                options=options,
                parent=span,
            )
        except MeasureError as error:
            what = {"udp-silent": "silence", "udp-rejected": "icmp"}.get(error.code, "failed")
            answered = what == "failed" or None
            recorder.observed(
                QUIC_UDP, {**record, "answered": answered and True, "what": what}, span
            )
            raise
        rtt = link.http.quic.log.rtt
        record |= {"version": link.http.quic.version, "rtt_ns": rtt.min_ns}
        recorder.observed(QUIC_UDP, {**record, "answered": True, "what": "answered"}, span)
        link.abort()


def _offered_port(facts: dict[str, Json], connection: Connection) -> int | None:
    """The port of this host that Alt-Svc names for h3 (RFC 7838)."""
    services = facts.get(HTTP_ALT_SVC)
    for service in services if isinstance(services, list) else ():
        if not isinstance(service, dict) or service.get("protocol") != "h3":
            continue
        host, _, port = str(service.get("authority", "")).rpartition(":")
        if host in ("", connection.target.host) and port.isdigit() and 0 < int(port) < 65536:
            return int(port)
    return None


def _recorded_port(records: Sequence[Json], connection: Connection) -> int | None:
    """The port at which an HTTPS record of this very host offers h3 (RFC 9460, 7.1 and 7.2)."""
    for record in records:
        if not isinstance(record, dict) or record.get("target") not in (None, "", "."):
            continue
        alpn, port = record.get("alpn"), record.get("port")
        if isinstance(alpn, list) and "h3" in alpn:
            return port if isinstance(port, int) else connection.target.port
    return None
