"""PP1xx: name resolution."""

from __future__ import annotations

from promptpath.analysis.facts import Record
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity, Stage
from promptpath.model.names import DNS_DIFFERS, DNS_QUERY, FAILURE
from promptpath.model.units import NS_PER_MS, format_duration

SLOW_NS = 50 * NS_PER_MS
"""RFC 8305, section 3: 50 ms is the Resolution Delay, the longest a client is told to hold up a
connection for a late answer."""


def _slow(measured: Measured) -> Because:
    legs = measured.breakdown.of(Stage.DNS)
    slowest = max(legs, key=lambda leg: leg.duration_ns, default=None)
    if slowest is None or slowest.failed or slowest.duration_ns - slowest.error_ns <= SLOW_NS:
        return NO
    took, limit = format_duration(slowest.duration_ns), format_duration(SLOW_NS)
    spans = tuple(span.id for span in slowest.spans)
    return because(f"the name took {took} to resolve (more than {limit})", spans=spans)


def _differs(measured: Measured) -> Because:
    record = measured.facts.record(DNS_DIFFERS)
    if not record:
        return NO
    return because(
        f"the system says {_join(record.get('system'))},"
        f" the resolver says {_join(record.get('resolver'))}",
        facts=(DNS_DIFFERS,),
    )


def _join(values: object) -> str:
    items = [str(value) for value in values] if isinstance(values, list) else []
    return ", ".join(items[:8]) or "nothing"


def _failed(measured: Measured, *codes: str) -> Because:
    """The DNS stage failed for one of these causes."""
    if measured.failure_stage != Stage.DNS.value or _cause(measured) not in codes:
        return NO
    said = str(measured.facts.record(FAILURE).get("what"))
    own = ", ".join(f"{r.get('type')} {_answer(r)}" for r in _address_queries(measured))
    return because(f"{said}; our own queries: {own}" if own else said, facts=(FAILURE, DNS_QUERY))


def _cause(measured: Measured) -> str | None:
    """The failure's code. The system's resolver only says that it failed; where our own queries
    agree on why, that is the cause."""
    code = measured.failure_code
    answers = {_answer(record) for record in _address_queries(measured)}
    if code != "resolver-failed" or len(answers) != 1:
        return code
    return _CAUSES.get(answers.pop(), code)


_CAUSES = {
    "NXDOMAIN": "no-such-name",
    "REFUSED": "resolver-refused",
    "refused": "resolver-refused",
    "timed-out": "resolver-timeout",
}


def _address_queries(measured: Measured) -> list[Record]:
    return [r for r in measured.facts.records(DNS_QUERY) if r.get("type") in ("A", "AAAA")]


def _answer(query: Record) -> str:
    """What came of a query: its RCODE where it was answered, else how it went."""
    return str(query.get("rcode") or query.get("outcome"))


def _no_such_name(measured: Measured) -> Because:
    return _failed(measured, "no-such-name", "bad-name")


def _no_address(measured: Measured) -> Because:
    return _failed(measured, "no-address")


def _server_failure(measured: Measured) -> Because:
    return _failed(measured, "resolver-failed")


def _refused(measured: Measured) -> Because:
    return _failed(measured, "resolver-refused")


def _timed_out(measured: Measured) -> Because:
    return _failed(measured, "resolver-timeout")


def _half_broken(measured: Measured) -> Because:
    """One record type fails where another answers: clients that ask for both wait for it."""
    queries = measured.facts.records(DNS_QUERY)
    answered = {str(r.get("type")) for r in queries if r.get("outcome") == "answered"}
    bad = [
        f"{r.get('type')}: {r.get('rcode') or r.get('outcome')}"
        for r in queries
        if r.get("type") in ("A", "AAAA")
        and (r.get("outcome") != "answered" or r.get("rcode") in ("SERVFAIL", "REFUSED"))
    ]
    fine = answered & {"A", "AAAA"} and len(bad) == 1
    return because(f"{bad[0]}, the other answers", facts=(DNS_QUERY,)) if fine else NO


def _truncated(measured: Measured) -> Because:
    cut = [r for r in measured.facts.records(DNS_QUERY) if r.get("truncated") is True]
    if not cut:
        return NO
    kinds = ", ".join(str(record.get("type")) for record in cut)
    return because(f"the UDP answer for {kinds} was cut and asked for again over TCP")


RULES = (
    Rule(
        code="PP101",
        title="The resolver is slow",
        severity=Severity.WARNING,
        asks="Did name resolution cost more than a client should wait for it?",
        decided="The dns hop, less its error, is longer than 50 ms: the Resolution Delay of RFC"
        " 8305, section 3, the longest a client is told to hold up a connection for a late"
        " answer.",
        advice="Use a resolver that is near and caches: compare with --resolver ADDR. A second"
        " run that is fast means a cold cache or a short TTL; a second run that is as slow means"
        " the resolver.",
        is_not="Not the name server's fault alone: a cold recursive lookup walks several servers.",
        condition=_slow,
    ),
    Rule(
        code="PP102",
        title="The system and the resolver give different addresses",
        severity=Severity.INFO,
        asks="Would another program on this machine, or on this network, dial another address?",
        decided="The address set of getaddrinfo and that of our own query share no, or not"
        " every, address. No threshold.",
        advice="Look at /etc/hosts, nsswitch.conf, split-horizon DNS and local caches. Load"
        " balancers that rotate their answers differ from query to query and are harmless.",
        is_not="Not an error: rotating answers and a hosts file are usual.",
        condition=_differs,
    ),
    Rule(
        code="PP103",
        title="The name does not exist",
        severity=Severity.ERROR,
        asks="Does the name resolve at all?",
        decided="NXDOMAIN (RFC 1035, 4.1.1, RCODE 3; RFC 8020), or getaddrinfo's EAI_NONAME.",
        advice="Check the spelling and the search domain; inside a VPN, check that its resolver"
        " is asked.",
        is_not="Not a dead server: nobody was dialled.",
        condition=_no_such_name,
    ),
    Rule(
        code="PP104",
        title="The resolver failed",
        severity=Severity.ERROR,
        asks="Did the resolver itself fail, whatever the name?",
        decided="SERVFAIL (RFC 1035, 4.1.1, RCODE 2), a malformed answer, or getaddrinfo's"
        " EAI_AGAIN where our own queries do not agree on another cause.",
        advice="Ask another resolver with --resolver ADDR. If that works, yours cannot reach the"
        " zone or rejects its DNSSEC signatures.",
        is_not="Not a missing name: the resolver did not find out.",
        condition=_server_failure,
    ),
    Rule(
        code="PP105",
        title="The resolver refuses",
        severity=Severity.ERROR,
        asks="Does the resolver serve this client?",
        decided="REFUSED (RFC 1035, 4.1.1, RCODE 5), or ICMP port unreachable: nothing answers"
        " DNS there.",
        advice="Check that this is the resolver meant for this network and that it allows this"
        " client.",
        is_not="Not a missing name.",
        condition=_refused,
    ),
    Rule(
        code="PP106",
        title="The resolver does not answer",
        severity=Severity.ERROR,
        asks="Did the question or the answer get lost?",
        decided="No answer within the connect limit, all attempts included; or the system's"
        " resolver failed and none of our own queries was answered.",
        advice="Check the nameserver lines of /etc/resolv.conf and whether UDP and TCP port 53"
        " pass; --resolver ADDR asks another one.",
        is_not="Not a missing name.",
        condition=_timed_out,
    ),
    Rule(
        code="PP107",
        title="The name has no address of the family asked for",
        severity=Severity.ERROR,
        asks="Is there an address to dial?",
        decided="The name exists and has no A or AAAA record that -4, -6 or neither allows"
        " (NODATA, RFC 2308, section 2.2).",
        advice="Leave out -4 or -6, or publish the record.",
        is_not="Not NXDOMAIN: the name exists.",
        condition=_no_address,
    ),
    Rule(
        code="PP108",
        title="One of A and AAAA fails while the other answers",
        severity=Severity.WARNING,
        asks="Does every program that asks for both families wait for a broken answer?",
        decided="Our own queries: exactly one of the two got no answer, SERVFAIL or REFUSED."
        " Resolver libraries wait for both: 5 s per attempt by default (resolv.conf(5),"
        " timeout).",
        advice="Fix the zone or the box that drops AAAA questions; RFC 4074 names these"
        " misbehaviours.",
        is_not="Not a host without IPv6: that is an empty answer, which is fine.",
        condition=_half_broken,
    ),
    Rule(
        code="PP109",
        title="A DNS answer did not fit into UDP",
        severity=Severity.INFO,
        asks="Did the question cost further round trips over TCP?",
        decided="The TC bit was set and the question was asked again over TCP (RFC 7766, section"
        " 5).",
        advice="Usual for long answers. Where TCP port 53 is blocked such names do not resolve.",
        is_not="Not a loss.",
        condition=_truncated,
    ),
)
