"""Our own DNS queries, kernel-timed: A, AAAA and HTTPS in parallel, TCP when the answer was cut.

With --resolver they give the addresses and lie on the critical path; otherwise they run after the
stream and only explain what the system's resolver did in one opaque call.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    DNS_DIFFERS,
    DNS_HTTPS,
    DNS_QUERY,
    MARK_DNS_ANSWER,
    MARK_DNS_QUERY,
    SPAN_QUERY,
)
from promptpath.model.plan import Family
from promptpath.model.stamp import Stamp
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns
from promptpath.probe.dial import dial
from promptpath.probe.link import Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.resolve import no_address
from promptpath.probe.udp import UdpLink
from promptpath.wire.dns import (
    Answer,
    MalformedAnswer,
    NotOurAnswer,
    Question,
    https_name,
    question,
    read_answer,
)

RESOLV_CONF = Path("/etc/resolv.conf")
ATTEMPT_NS = 1 * NS_PER_S
"""One UDP try. RFC 1536 and resolv.conf(5) start at 5 s; dig's default of 5 s would hold the
report back, and a resolver slower than 1 s is itself the finding."""
ATTEMPTS = 2
RESOLUTION_DELAY_NS = 50 * NS_PER_MS
"""How long the A answer waits for the AAAA one (RFC 8305, section 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """What became of one question."""

    type: str
    transport: str
    outcome: str
    """answered | timed-out | refused | malformed (see names.DNS_QUERY)."""
    answer: Answer | None = None
    rtt_ns: Ns | None = None
    rtt_error_ns: Ns | None = None
    truncated: bool = False
    attempts: int = 1
    addresses: tuple[str, ...] = field(default=())
    end_ns: Ns | None = None
    """When the answer came."""


def configured_resolver() -> tuple[str, int] | None:
    """The first nameserver of resolv.conf(5); None when there is none."""
    try:
        lines = RESOLV_CONF.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            try:
                ipaddress.ip_address(words[1].partition("%")[0])
            except ValueError:
                continue
            return words[1], 53
    return None


async def resolve_by_query(
    recorder: Recorder,
    server: tuple[str, int],
    host: str,
    family: Family,
    *,
    parent: int,
    deadline_ns: Ns,
) -> tuple[str, ...]:
    """Addresses from that resolver, IPv6 first as RFC 8305 orders them. The HTTPS record is asked
    for after the run (`explain_service`). Raises MeasureError (stage dns)."""
    types = {Family.ANY: ("AAAA", "A"), Family.IPV4: ("A",), Family.IPV6: ("AAAA",)}[family]
    tasks = [
        asyncio.create_task(lookup(recorder, server, host, kind, parent, deadline_ns))
        for kind in types
    ]
    try:
        lookups = await _with_resolution_delay(tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    addresses = tuple(address for item in lookups for address in item.addresses)
    if not addresses:
        raise _no_addresses(host, family, server, lookups)
    return addresses


async def _with_resolution_delay(tasks: Sequence[asyncio.Task[Lookup]]) -> list[Lookup]:
    """The lookups that ended; once one has addresses the others get only the resolution delay."""
    pending = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        if any(task.result().addresses for task in done) and pending:
            _, pending = await asyncio.wait(pending, timeout=RESOLUTION_DELAY_NS / NS_PER_S)
            break
    return [task.result() for task in tasks if task.done()]


def _no_addresses(
    host: str, family: Family, server: tuple[str, int], lookups: Sequence[Lookup]
) -> MeasureError:
    where = f"dns, resolver {server[0]}:{server[1]}, name {host}"
    rcodes = {item.answer.rcode for item in lookups if item.answer is not None}
    outcomes = {item.outcome for item in lookups}
    if "NXDOMAIN" in rcodes:
        what, code = f"the name {host} does not exist (NXDOMAIN)", "no-such-name"
        hint = "check the spelling"
    elif rcodes & {"SERVFAIL", "REFUSED"}:
        rcode = min(rcodes & {"SERVFAIL", "REFUSED"})
        what = f"the resolver answered {rcode} for {host}"
        code = {"SERVFAIL": "resolver-failed", "REFUSED": "resolver-refused"}[rcode]
        hint = "ask another resolver with --resolver ADDR"
    elif "answered" in outcomes:
        return no_address(host, family)
    elif "refused" in outcomes:
        what, code = "nothing answers DNS there (port unreachable)", "resolver-refused"
        hint = "check the address and port of --resolver"
    elif "malformed" in outcomes:
        what, code = "the resolver answered with something that is not DNS", "resolver-failed"
        hint = "check the address and port of --resolver"
    else:
        what, code = "the resolver did not answer", "resolver-timeout"
        hint = "check that UDP and TCP port 53 reach it, or use another --resolver"
    return MeasureError(
        what,
        stage=Stage.DNS.value,
        code=code,
        expected=f"addresses of {host}",
        where=where,
        hint=hint,
    )


async def explain_resolution(
    recorder: Recorder,
    server: tuple[str, int],
    host: str,
    port: int,
    *,
    system: Sequence[str],
) -> None:
    """Ask A, AAAA and HTTPS after the run, record each, and note where the system's addresses
    differ."""
    deadline_ns = recorder.now_ns() + ATTEMPTS * ATTEMPT_NS + ATTEMPT_NS
    names = {"A": host, "AAAA": host, "HTTPS": https_name(host, port)}
    lookups = await asyncio.gather(
        *(lookup(recorder, server, name, kind, None, deadline_ns) for kind, name in names.items())
    )
    by_type = {item.type: item for item in lookups}
    asked = [by_type[kind] for kind in ("A", "AAAA") if by_type[kind].outcome == "answered"]
    versions = {4 if item.type == "A" else 6 for item in asked}
    theirs = {address for item in asked for address in item.addresses}
    ours = {
        address
        for address in system
        if ipaddress.ip_address(address.partition("%")[0]).version in versions
    }
    if ours and theirs and ours != theirs:
        recorder.observed(
            DNS_DIFFERS,
            {
                "system": sorted(ours),
                "resolver": sorted(theirs),
                "disjoint": ours.isdisjoint(theirs),
            },
        )


async def explain_service(
    recorder: Recorder, server: tuple[str, int], host: str, port: int
) -> None:
    """Ask for the HTTPS record after a run whose addresses came from that resolver."""
    deadline_ns = recorder.now_ns() + ATTEMPTS * ATTEMPT_NS + ATTEMPT_NS
    await lookup(recorder, server, https_name(host, port), "HTTPS", None, deadline_ns)


async def lookup(
    recorder: Recorder,
    server: tuple[str, int],
    name: str,
    rdtype: str,
    parent: int | None,
    deadline_ns: Ns,
) -> Lookup:
    """Ask one question, again over TCP when the answer was cut, and record it. Never raises for
    what the resolver does."""
    span = recorder.start(Stage.DNS, SPAN_QUERY, parent=parent)
    try:
        asked = question(name, rdtype)
    except ValueError as error:
        recorder.fail(span, Outcome.FAILED, str(error))
        return Lookup(type=rdtype, transport="udp", outcome="malformed")
    try:
        found = await _over_udp(recorder, server, asked, span, deadline_ns)
        if found.answer is not None and found.answer.truncated:
            over_tcp = await _over_tcp(recorder, server, asked, span, deadline_ns)
            found = replace(over_tcp, truncated=True) if over_tcp.answer else found
    except asyncio.CancelledError:
        recorder.fail(span, Outcome.CANCELLED, "not waited for")
        raise
    _record(recorder, server, found, span)
    return found


def _record(recorder: Recorder, server: tuple[str, int], found: Lookup, span: int) -> None:
    if found.outcome == "answered":
        recorder.end(span, found.end_ns)
    else:
        timed_out = found.outcome == "timed-out"
        recorder.fail(span, Outcome.TIMED_OUT if timed_out else Outcome.FAILED, found.outcome)
    answer = found.answer
    recorder.observed(
        DNS_QUERY,
        {
            "type": found.type,
            "server": f"{server[0]}:{server[1]}",
            "transport": found.transport,
            "outcome": found.outcome,
            "rcode": answer.rcode if answer else None,
            "answers": [recorder.clean(text) for text in answer.answers[:32]] if answer else [],
            "ttl_s": answer.ttl_s if answer else None,
            "cname": [recorder.clean(text) for text in answer.cname[:16]] if answer else [],
            "rtt_ns": found.rtt_ns,
            "rtt_error_ns": found.rtt_error_ns,
            "truncated": found.truncated,
            "attempts": found.attempts,
        },
        span,
    )
    for record in answer.https if answer else ():
        recorder.observed(DNS_HTTPS, record, span)


def _found(
    asked: Question, transport: str, answer: Answer, sent: Stamp, got: Stamp, attempts: int
) -> Lookup:
    is_address = asked.type in ("A", "AAAA")
    return Lookup(
        type=asked.type,
        transport=transport,
        outcome="answered",
        answer=answer,
        rtt_ns=max(0, got.at_ns - sent.at_ns),
        rtt_error_ns=got.error_ns + sent.error_ns,
        truncated=answer.truncated,
        attempts=attempts,
        addresses=answer.answers if is_address else (),
        end_ns=got.at_ns,
    )


async def _over_udp(
    recorder: Recorder, server: tuple[str, int], asked: Question, span: int, deadline_ns: Ns
) -> Lookup:
    try:
        link = UdpLink.open(recorder, server, span=span)
    except OSError:
        return Lookup(type=asked.type, transport="udp", outcome="refused")
    try:
        for attempt in range(1, ATTEMPTS + 1):
            mark = f"query-{attempt}"
            until_ns = min(deadline_ns, recorder.now_ns() + ATTEMPT_NS)
            outcome = await _one_udp_try(recorder, link, asked, span, mark, until_ns)
            if isinstance(outcome, tuple):
                answer, got = outcome
                sent = link.sent(mark)
                at = sent.wire or sent.written or got
                return _found(asked, "udp", answer, at, got, attempt)
            if outcome != "timed-out":
                return Lookup(type=asked.type, transport="udp", outcome=outcome, attempts=attempt)
        return Lookup(type=asked.type, transport="udp", outcome="timed-out", attempts=ATTEMPTS)
    finally:
        link.close()


async def _one_udp_try(
    recorder: Recorder, link: UdpLink, asked: Question, span: int, mark: str, until_ns: Ns
) -> tuple[Answer, Stamp] | str:
    link.send(asked.wire, mark)
    recorder.mark(
        Stage.DNS,
        MARK_DNS_QUERY,
        recorder.clock.user_stamp(),
        span=span,
        detail={"type": asked.type, "transport": "udp"},
    )
    while True:
        try:
            items = await link.receive(until_ns)
        except TimeoutError:
            return "timed-out"
        for item in items:
            if isinstance(item, Closed):
                return "refused"
            try:
                answer = read_answer(asked, item.data)
            except NotOurAnswer:
                continue
            except MalformedAnswer:
                return "malformed"
            recorder.mark(
                Stage.DNS,
                MARK_DNS_ANSWER,
                item.stamp,
                span=span,
                detail={"type": asked.type, "rcode": answer.rcode},
            )
            return answer, item.stamp


async def _over_tcp(
    recorder: Recorder, server: tuple[str, int], asked: Question, span: int, deadline_ns: Ns
) -> Lookup:
    """RFC 7766: the same message behind a two-byte length."""
    failed = Lookup(type=asked.type, transport="tcp", outcome="timed-out")
    try:
        link = await dial(recorder, [server], deadline_ns=deadline_ns, parent=span, stage=Stage.DNS)
    except MeasureError as error:
        return replace(failed, outcome="timed-out" if "timeout" in error.code else "refused")
    try:
        link.write(len(asked.wire).to_bytes(2, "big") + asked.wire, "query")
        buffer = b""
        while True:
            for item in await link.receive(deadline_ns):
                if isinstance(item, Closed):
                    return replace(failed, outcome="refused")
                buffer += item.data
                if len(buffer) >= 2 and len(buffer) >= 2 + int.from_bytes(buffer[:2], "big"):
                    size = int.from_bytes(buffer[:2], "big")
                    answer = read_answer(asked, buffer[2 : 2 + size])
                    sent = link.sent("query")
                    at = sent.wire or sent.written or item.stamp
                    return _found(asked, "tcp", answer, at, item.stamp, 1)
    except (MalformedAnswer, NotOurAnswer):
        return replace(failed, outcome="malformed")
    except (TimeoutError, MeasureError):
        return failed
    finally:
        link.abort()
