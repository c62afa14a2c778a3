"""From addresses to an HTTP/3 connection: each address an attempt of its own, 250 ms apart as over
TCP (RFC 8305), the first handshake completed and judged wins.

The quic span runs from the first datagram written to the instant at which the certificate was
judged and a request may go. What an address did (Retry, Version Negotiation, silence, ICMP) is
marked within its attempt.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TextIO

from promptpath.errors import MeasureError, UsageError
from promptpath.model.enums import Stage
from promptpath.model.names import (
    QUIC_HANDSHAKE,
    QUIC_PEER,
    SPAN_HANDSHAKE,
    SPAN_QUIC,
    SPAN_QUIC_SECOND,
    TLS_ALPN,
    TLS_ALPN_OFFERED,
    TLS_CIPHER,
    TLS_SNI,
    TLS_VERIFY,
    TLS_VERSION,
)
from promptpath.model.plan import Plan
from promptpath.model.rows import Json
from promptpath.model.stamp import user_stamp
from promptpath.model.units import Ns
from promptpath.probe import quic_failure
from promptpath.probe.certificates import OK, verdict_fact
from promptpath.probe.dial import ATTEMPT_DELAY_NS, interleave
from promptpath.probe.link import Closed
from promptpath.probe.quic import QuicLink
from promptpath.probe.quic_trust import as_ssl_error, judge_chain, trust_store
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls_context import TlsSettings
from promptpath.probe.udp import UdpLink
from promptpath.wire.h3 import H3Connection
from promptpath.wire.quic import BAD_CERTIFICATE, CRYPTO_ERROR, VERSIONS, QuicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicOptions:
    """What a handshake needs of the plan."""

    name: str
    """Whom the certificate must name, and SNI unless it is an address."""
    tls: TlsSettings
    settings: QuicSettings
    aside: bool = False
    """A second connection, which only explains the first: its facts are not the trip's."""


def options_of(plan: Plan) -> QuicOptions:
    """Raises UsageError for a key log that cannot be written."""
    name = (plan.sni or plan.target.host).removesuffix(".")
    tls = TlsSettings(plan.ca_file, plan.insecure, None)
    settings = QuicSettings(server_name=name, keylog=_keylog(plan.keylog_file))
    return QuicOptions(name=name, tls=tls, settings=settings)


def prepare(plan: Plan) -> None:
    """Read the trust store before t0."""
    trust_store(options_of(plan).tls)


def ready_connection(plan: Plan) -> H3Connection:
    """A connection whose ClientHello is made: before t0, for it takes a millisecond of Python."""
    http = H3Connection(options_of(plan).settings)
    http.quic.connect(0)
    return http


def _keylog(path: str | None) -> TextIO | None:
    if path is None:
        return None
    try:
        return open(path, "a", buffering=1, encoding="ascii")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", where="--keylog") from None


async def dial_quic(
    recorder: Recorder,
    plan: Plan,
    addresses: Sequence[tuple[str, int]],
    *,
    deadline_ns: Ns,
    ready: H3Connection | None = None,
    options: QuicOptions | None = None,
    parent: int | None = None,
) -> QuicLink:
    """A connection to the first address that completes a handshake. `ready` is used for the first
    attempt. Raises MeasureError (stage quic) with a code of `quic_failure`, or cert-*."""
    options = options or options_of(plan)
    order = interleave(addresses)
    if not order:
        raise quic_failure.no_address()
    first = ready or H3Connection(options.settings)
    name = SPAN_HANDSHAKE if parent is None else SPAN_QUIC_SECOND
    with recorder.span(Stage.QUIC, name, parent=parent) as span:
        race = _Race(recorder, plan, options, span, deadline_ns)
        link = await race.run(order, first)
        recorder.log.set_conn(span, link.conn)
    return link


class _Race:
    """The attempts of one dial."""

    def __init__(
        self, recorder: Recorder, plan: Plan, options: QuicOptions, span: int, deadline_ns: Ns
    ) -> None:
        self._recorder = recorder
        self._plan = plan
        self._options = options
        self._span = span
        self._deadline_ns = deadline_ns

    async def run(self, order: list[tuple[str, int]], first: H3Connection) -> QuicLink:
        tasks: set[asyncio.Task[QuicLink]] = set()
        errors: list[MeasureError] = []
        left = list(order)
        spare: H3Connection | None = first
        try:
            while True:
                if left:
                    peer = left.pop(0)
                    http, spare = spare or H3Connection(self._options.settings), None
                    tasks.add(asyncio.create_task(self._attempt(peer, http)))
                # The loop itself is the timer: the attempts have the run's deadline.
                delay = ATTEMPT_DELAY_NS / 1e9 if left else None
                done, tasks = await asyncio.wait(
                    tasks, timeout=delay, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    with suppress(MeasureError):
                        return task.result()
                    error = task.exception()
                    if isinstance(error, MeasureError):
                        errors.append(error)
                if not tasks and not left:
                    raise errors[0]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _attempt(self, peer: tuple[str, int], http: H3Connection) -> QuicLink:
        recorder, plan = self._recorder, self._plan
        with recorder.span(Stage.QUIC, SPAN_QUIC, parent=self._span) as span:
            try:
                udp = UdpLink.open(
                    recorder,
                    peer,
                    span=span,
                    source=plan.source_address,
                    interface=plan.interface,
                )
            except OSError as error:
                raise quic_failure.cannot_send(error, peer, plan) from None
            link = QuicLink(recorder, udp, http, span)
            recorder.log.set_conn(span, link.conn)
            try:
                await shake_hands(recorder, link, self._options, peer, self._deadline_ns)
            except BaseException:
                link.abort()
                raise
            return link


async def shake_hands(
    recorder: Recorder,
    link: QuicLink,
    options: QuicOptions,
    peer: tuple[str, int],
    deadline_ns: Ns,
) -> None:
    """The handshake on an open link, its certificate judged. Raises MeasureError."""
    quic = link.http.quic
    quic.connect(recorder.now_ns())
    started_ns = recorder.now_ns()
    link.flush()
    while quic.handshake is None:
        try:
            items = await link.receive_any(deadline_ns)
        except TimeoutError:
            raise quic_failure.timed_out(
                link, peer, recorder.now_ns() - started_ns, options.name
            ) from None
        ends = [item for item in items if isinstance(item, Closed)]
        if ends and quic.handshake is None:
            raise quic_failure.ended(link, peer, ends[-1], options)
        if link.last_error is not None and quic.log.counts.received == 0:
            raise quic_failure.refused(link.last_error, peer)
    link.confirm_by_ns = deadline_ns
    link.mark_step("completed", link.last_stamp or user_stamp(recorder.now_ns()))
    _judge(recorder, link, options)
    if not options.aside:
        _record(recorder, link, peer, options)
    link.flush()


def _judge(recorder: Recorder, link: QuicLink, options: QuicOptions) -> None:
    quic = link.http.quic
    if quic.handshake is not None and quic.handshake.session_resumed:
        return
    verdict = judge_chain(quic.chain, options.tls, options.name)
    if not options.aside:
        recorder.observed(TLS_VERIFY, verdict_fact(verdict))
    if options.tls.insecure or (verdict is not None and verdict.code == OK):
        return
    quic.close(CRYPTO_ERROR + BAD_CERTIFICATE, "certificate not trusted", application=False)
    link.flush()
    if not options.aside:
        quic_failure.record_chain(recorder, link)
    error = None if verdict is None else as_ssl_error(verdict)
    raise quic_failure.untrusted(error, options.name)


def _record(
    recorder: Recorder, link: QuicLink, peer: tuple[str, int], options: QuicOptions
) -> None:
    quic, span = link.http.quic, link.span
    done = quic.handshake
    if done is None:
        return
    family = "ipv6" if ":" in peer[0] else "ipv4"
    recorder.observed(QUIC_PEER, {"address": peer[0], "port": peer[1], "family": family}, span)
    recorder.observed(TLS_VERSION, "TLSv1.3", span)
    recorder.observed(TLS_CIPHER, quic.cipher, span)
    recorder.observed(TLS_ALPN, done.alpn_protocol, span)
    recorder.observed(TLS_ALPN_OFFERED, list(options.settings.alpn), span)
    recorder.observed(TLS_SNI, None if _is_address(options.name) else options.name, span)
    recorder.observed(QUIC_HANDSHAKE, handshake_fact(link, options), span)
    link.record_parameters()


def handshake_fact(link: QuicLink, options: QuicOptions) -> Json:
    """`quic.handshake` of a completed handshake. One round trip brings the server's flight (RFC
    9001, 4.1); Retry and Version Negotiation cost one each (RFC 9000, 8.1.2 and 6)."""
    quic = link.http.quic
    done = quic.handshake
    retry, versions = "retry" in link.steps, quic.log.server_versions
    ticket = options.settings.ticket
    offered = ticket is not None and bool(ticket.max_early_data_size)
    accepted = done is not None and done.early_data_accepted
    return {
        "version": quic.version,
        "round_trips": 1 + retry + bool(versions),
        "retry": retry,
        "version_negotiation": [VERSIONS.get(each, f"0x{each:08x}") for each in versions[:16]]
        if versions
        else None,
        "initials": link.initials_out,
        "resumed": done is not None and done.session_resumed,
        "early_data": ("accepted" if accepted else "rejected") if offered else "not-offered",
        "alpn": None if done is None else done.alpn_protocol,
    }


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
