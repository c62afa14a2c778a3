"""PP22x and PP23x: QUIC, where transport and TLS are one handshake over UDP."""

from __future__ import annotations

from promptpath.analysis.facts import Record, number, text, whole
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.cause import failed
from promptpath.analysis.rules.transport import LOSS_SHARE
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity, Stage
from promptpath.model.names import (
    HTTP_END,
    MARK_QUIC,
    QUIC_CLOSE,
    QUIC_EARLY_DATA,
    QUIC_ECN,
    QUIC_HANDSHAKE,
    QUIC_PACKETS,
    QUIC_PARAMETERS,
    QUIC_PEER,
    QUIC_RACE,
    QUIC_UDP,
)
from promptpath.model.units import NS_PER_MS, format_duration

COMMON_IDLE_MS = 60_000
"""The idle timers that cut thinking models most often are 60 s (nginx' proxy_read_timeout and AWS'
ALB by default): a QUIC timeout no longer than that does what those do."""
MIN_LOST = 2
"""One lost packet says nothing of a path."""


def _own(measured: Measured, key: str) -> Record:
    """The last record of a key that belongs to the prompt's connection."""
    for record in reversed(measured.facts.records(key)):
        if record.get("conn") in (None, measured.conn):
            return record
    return {}


def _round_trip(measured: Measured) -> str:
    return f", {format_duration(measured.rtt_ns)} here" if measured.rtt_ns else ""


def _retry(measured: Measured) -> Because:
    if measured.facts.record(QUIC_HANDSHAKE).get("retry") is not True:
        return NO
    said = "the server answered the first Initial with a Retry: one more round trip"
    return because(said + _round_trip(measured), facts=(QUIC_HANDSHAKE,))


def _version_negotiation(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_HANDSHAKE)
    offered = record.get("version_negotiation")
    if not isinstance(offered, list) or not offered:
        return NO
    names = ", ".join(str(each) for each in offered[:8])
    said = f"the server does not speak v1 and offered {names}: one more round trip"
    return because(said + _round_trip(measured), facts=(QUIC_HANDSHAKE,))


def _initial_again(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_HANDSHAKE)
    sent, trips = whole(record.get("initials")), whole(record.get("round_trips"))
    if sent is None or trips is None or sent <= trips:
        return NO
    again = sent - trips
    said = (
        f"the ClientHello was sent {again} more time{'s' if again > 1 else ''} than was asked for"
    )
    return because(f"{said}; the first probe goes after 0.7 to 1 s", facts=(QUIC_HANDSHAKE,))


def _idle(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_PARAMETERS)
    ms = number(record.get("effective_idle_ms"))
    if ms is None or ms <= 0 or ms > COMMON_IDLE_MS:
        return NO
    said = f"max_idle_timeout is {format_duration(round(ms * NS_PER_MS))}"
    return because(f"{said}: a silence as long ends the connection", facts=(QUIC_PARAMETERS,))


def _loss(measured: Measured) -> Because:
    record = _own(measured, QUIC_PACKETS)
    lost, sent = whole(record.get("lost")), whole(record.get("sent"))
    if lost is None or not sent or lost < MIN_LOST or lost / sent < LOSS_SHARE:
        return NO
    return because(f"{lost} of {sent} packets we sent were lost", facts=(QUIC_PACKETS,))


def _silent(measured: Measured) -> Because:
    return failed(measured, Stage.QUIC, "udp-silent")


def _rejected(measured: Measured) -> Because:
    return failed(measured, Stage.QUIC, "udp-rejected")


def _no_h3(measured: Measured) -> Because:
    return failed(measured, Stage.QUIC, "alpn-mismatch", "version", "not-quic")


def _unconfirmed(measured: Measured) -> Because:
    found = failed(measured, Stage.QUIC, "unconfirmed")
    if found or _own(measured, QUIC_CLOSE).get("how") != "unconfirmed":
        return found
    said = "our side of the handshake was done, and no packet said that the server's was"
    return because(f"{said} until the connect timeout", facts=(QUIC_CLOSE,))


_NAMED = (
    "unconfirmed",
    "udp-silent",
    "udp-rejected",
    "alpn-mismatch",
    "version",
    "not-quic",
    "cert-unknown-ca",
    "cert-self-signed",
    "cert-invalid",
    "cert-not-yet-valid",
    "cert-wrong-host",
    "cert-expired",
)


def _handshake_failed(measured: Measured) -> Because:
    return failed(measured, Stage.QUIC, but=_NAMED)


def _cut(measured: Measured) -> Record:
    """How the connection ended, where it ended within the response."""
    if measured.status is None or measured.facts.record(HTTP_END).get("complete") is True:
        return {}
    return _own(measured, QUIC_CLOSE)


def _closed(measured: Measured) -> Because:
    record = _cut(measured)
    if record.get("how") not in ("close", "malformed"):
        return NO
    who = "the server" if record.get("by") == "peer" else "this end"
    kind = "HTTP/3" if record.get("application") is True else "QUIC"
    code = whole(record.get("code"))
    reason = text(record.get("reason"))
    shown = f"{code:#x}" if code is not None else "unknown"
    said = f"{who} closed the connection with {kind} code {shown}"
    return because(f"{said} ({reason})" if reason else said, facts=(QUIC_CLOSE,))


def _forgotten(measured: Measured) -> Because:
    record = _cut(measured)
    if record.get("how") == "stateless-reset":
        return because("a stateless reset came within the response", facts=(QUIC_CLOSE,))
    if record.get("how") == "icmp":
        said = f"UDP is answered by ICMP since then ({text(record.get('reason')) or 'no reason'})"
        return because(said, facts=(QUIC_CLOSE,))
    return NO


def _timed_out(measured: Measured) -> Because:
    if _cut(measured).get("how") != "idle":
        return NO
    ms = number(measured.facts.record(QUIC_PARAMETERS).get("effective_idle_ms"))
    after = f" of {format_duration(round(ms * NS_PER_MS))}" if ms else ""
    return because(f"nothing came for the idle timeout{after}", facts=(QUIC_CLOSE,))


def _udp_blocked(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_UDP)
    what = record.get("what")
    if what not in ("silence", "icmp"):
        return NO
    how = "nothing answered" if what == "silence" else "ICMP rejected it"
    port = whole(record.get("port"))
    return because(f"h3 is on offer at UDP port {port}, and {how}", facts=(QUIC_UDP,))


def _congestion(measured: Measured) -> Because:
    record = _own(measured, QUIC_ECN)
    marked = whole(record.get("ce"))
    if not marked:
        return NO
    said = f"{marked} datagrams came marked CE (congestion experienced)"
    return because(said, facts=(QUIC_ECN,))


def _rebound(measured: Measured) -> Because:
    for mark in measured.trace.marks_of(MARK_QUIC):
        if mark.detail.get("step") == "path-challenge" and mark.conn in (None, measured.conn):
            return because("the server sent PATH_CHALLENGE", facts=(QUIC_PEER,))
    return NO


def _lost_race(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_RACE)
    cost = whole(record.get("cost_ns"))
    if cost is None:
        return NO
    ended = "TCP won" if record.get("winner") == "tcp" else "QUIC won all the same"
    said = f"waiting for QUIC cost {format_duration(cost)} before TCP was tried; {ended}"
    return because(f"{said} ({text(record.get('why')) or 'no reason'})", facts=(QUIC_RACE,))


def _early_taken(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_EARLY_DATA)
    if record.get("accepted") is not True or record.get("status") == 425:
        return NO
    saved = whole(record.get("saved_ns"))
    gain = f" and left {format_duration(saved)} before the handshake ended" if saved else ""
    return because(
        f"{record.get('request')} was taken as early data{gain}", facts=(QUIC_EARLY_DATA,)
    )


def _early_refused(measured: Measured) -> Because:
    record = measured.facts.record(QUIC_EARLY_DATA)
    if not record or (record.get("accepted") is True and record.get("status") != 425):
        return NO
    if record.get("status") == 425:
        return because("the server answered 425 Too Early", facts=(QUIC_EARLY_DATA,))
    why = text(record.get("why")) if record.get("offered") is False else "the server rejected it"
    return because(f"no early data: {why or 'the server allows none'}", facts=(QUIC_EARLY_DATA,))


RULES: tuple[Rule, ...] = (
    Rule(
        code="PP220",
        title="The server asked for address validation (Retry)",
        severity=Severity.INFO,
        asks="Why does the QUIC handshake take two round trips?",
        decided="A Retry packet with a valid integrity tag answered the first Initial (RFC 9000,"
        " 8.1.2 and 17.2.5).",
        advice="A server under load or attack does this. If it always does, let it validate"
        " addresses only above a threshold.",
        is_not="Not loss: nothing was sent in vain.",
        condition=_retry,
    ),
    Rule(
        code="PP221",
        title="QUIC version negotiation cost a round trip",
        severity=Severity.WARNING,
        asks="Why does the QUIC handshake take two round trips?",
        decided="A Version Negotiation packet answered the first Initial (RFC 9000, 6).",
        advice="Enable QUIC v1 (RFC 9000) at the server: it is what clients try first.",
        is_not="Not a Retry.",
        condition=_version_negotiation,
    ),
    Rule(
        code="PP222",
        title="The first QUIC packets were not answered at once",
        severity=Severity.WARNING,
        asks="Was the ClientHello or its answer lost?",
        decided="More Initials with our ClientHello were sent than Retry and Version Negotiation"
        " account for. A probe goes after the initial probe timeout (RFC 9002, 6.2.2).",
        advice="Look for UDP loss or policing on the path, or a server that is slow to answer.",
        is_not="Not a blocked port: the handshake succeeded.",
        condition=_initial_again,
    ),
    Rule(
        code="PP223",
        title="The QUIC idle timeout is short enough to cut a thinking model",
        severity=Severity.WARNING,
        asks="How long may the stream be silent?",
        decided="The lower of both ends' max_idle_timeout (RFC 9000, 10.1) is 60 s or less, the"
        " default of the idle timers that most often cut such streams.",
        advice="Raise max_idle_timeout at the server, or send keepalive events more often.",
        is_not="Not a cut: it tells of one before it happens.",
        condition=_idle,
    ),
    Rule(
        code="PP224",
        title="QUIC packets were lost on the way to the server",
        severity=Severity.WARNING,
        asks="Is UDP lossy on this path?",
        decided="At least 2 packets, and 1 %, of those we sent were declared lost (RFC 9002, 6.1):"
        " where loss-based congestion control is held to about 12 packets a round trip (Mathis et"
        " al. 1997).",
        advice="Compare with TCP (promptpath matrix --vary http): networks police UDP more often.",
        is_not="Not loss towards us, which an acknowledging receiver cannot count exactly.",
        condition=_loss,
    ),
    Rule(
        code="PP225",
        title="UDP gets no answer",
        severity=Severity.ERROR,
        asks="Is HTTP/3 blocked on this network?",
        decided="No datagram came back for any Initial until the connect timeout.",
        advice="Try --http auto; ask for UDP to that port to be let through."
        " Another network tells whether it is this one.",
        is_not="Not a refused port: that answers by ICMP.",
        condition=_silent,
    ),
    Rule(
        code="PP226",
        title="UDP is rejected",
        severity=Severity.ERROR,
        asks="Who refuses HTTP/3?",
        decided="An ICMP unreachable answered our Initial (RFC 792, RFC 4443).",
        advice="Nothing listens on that UDP port, or a firewall rejects it. --http auto goes over"
        " TCP.",
        is_not="Not a silent drop.",
        condition=_rejected,
    ),
    Rule(
        code="PP227",
        title="The connection was closed within the response",
        severity=Severity.ERROR,
        asks="Who ended the QUIC connection, and why?",
        decided="CONNECTION_CLOSE (RFC 9000, 19.19) before the response was whole; codes of HTTP/3"
        " are in RFC 9114, 8.1, those of QUIC in RFC 9000, 20.1.",
        advice="Look for that code and reason in the server's log.",
        is_not="Not a lost path: somebody said goodbye.",
        condition=_closed,
    ),
    Rule(
        code="PP228",
        title="The server no longer knows the connection",
        severity=Severity.ERROR,
        asks="Did the server restart, or another one take over?",
        decided="A stateless reset (RFC 9000, 10.3), or ICMP errors alone, within the response.",
        advice="Look for a restart, a crash, or a load balancer that does not route by connection"
        " id (RFC 9000, 5.2).",
        is_not="Not an orderly close.",
        condition=_forgotten,
    ),
    Rule(
        code="PP229",
        title="The QUIC idle timeout cut the stream",
        severity=Severity.ERROR,
        asks="Why did the stream end in silence?",
        decided="Nothing came for the lower of both ends' max_idle_timeout (RFC 9000, 10.1).",
        advice="Raise max_idle_timeout, or have the server send keepalives. If it was to have sent"
        " something, the path is gone.",
        is_not="Not a close by the server: it sends none for an idle timeout.",
        condition=_timed_out,
    ),
    Rule(
        code="PP230",
        title="HTTP/3 is on offer, and UDP does not get through",
        severity=Severity.WARNING,
        asks="Would clients that believe Alt-Svc run into a wall?",
        decided="Alt-Svc (RFC 7838) names h3, and a QUIC Initial to that port got silence for 3 s"
        " or an ICMP error.",
        advice="Let UDP through, or take the Alt-Svc header away: clients lose time on it.",
        is_not="Not an error of this run, which went over TCP.",
        condition=_udp_blocked,
    ),
    Rule(
        code="PP231",
        title="Early data is accepted",
        severity=Severity.INFO,
        asks="What does 0-RTT save here?",
        decided="A second connection offered the first one's ticket and sent a replay-safe request"
        " with its ClientHello; the server took it (RFC 9001, 4.6).",
        advice="Use it for safe requests only: a prompt can be replayed, and each replay costs"
        " tokens (RFC 8470).",
        is_not="Not measured with your prompt.",
        condition=_early_taken,
    ),
    Rule(
        code="PP232",
        title="Early data is not accepted",
        severity=Severity.INFO,
        asks="Why does 0-RTT save nothing here?",
        decided="--early-data was asked for; the ticket allows none, the server rejected it, or it"
        " answered 425 (RFC 8470).",
        advice="Nothing to repair: many servers refuse it on purpose.",
        is_not="Not a failed resumption: see tls.resumed.",
        condition=_early_refused,
    ),
    Rule(
        code="PP233",
        title="The port speaks QUIC, but not HTTP/3 as we do",
        severity=Severity.ERROR,
        asks="Is there an HTTP/3 server at all?",
        decided="The TLS alert no_application_protocol (RFC 7301), no common QUIC version, or"
        " datagrams that are no QUIC.",
        advice="Use --http auto; enable h3 at the server if it should have it.",
        is_not="Not a blocked port: something answered.",
        condition=_no_h3,
    ),
    Rule(
        code="PP234",
        title="The QUIC handshake failed",
        severity=Severity.ERROR,
        asks="Why is there no connection?",
        decided="The quic stage failed for a reason that has no finding of its own; its words say"
        " which.",
        advice="See the reason; --http auto tells whether TCP works.",
        is_not="Not a certificate: those are PP3xx.",
        condition=_handshake_failed,
    ),
    Rule(
        code="PP235",
        title="QUIC did not stand within its head start",
        severity=Severity.WARNING,
        asks="What does it cost to try HTTP/3 first here?",
        decided="--http race: no handshake completed 250 ms after QUIC started (the Connection"
        " Attempt Delay of RFC 8305), or QUIC failed before; TCP was started then.",
        advice="Let UDP through, or stop advertising h3 on this network: every new connection of a"
        " client that tries QUIC first pays this.",
        is_not="Not a slow server, unless the quic hop of --http 3 is as long.",
        condition=_lost_race,
    ),
    Rule(
        code="PP236",
        title="A queue on the path is filling up (ECN)",
        severity=Severity.INFO,
        asks="Is there congestion towards us?",
        decided="Datagrams arrived with the ECN codepoint CE (RFC 3168, 5), which only a router"
        " whose queue grows sets.",
        advice="Look for the narrow link; gaps in the stream that coincide are its doing.",
        is_not="Not loss: marking is what such a router does instead.",
        condition=_congestion,
    ),
    Rule(
        code="PP237",
        title="The server validated our path again",
        severity=Severity.INFO,
        asks="Did our address or port change as the server sees it?",
        decided="A PATH_CHALLENGE arrived (RFC 9000, 8.2 and 9): servers send it when a client's"
        " datagrams come from a new address or port, as after a NAT's rebinding.",
        advice="If streams stall at such moments, look at the NAT's UDP timeout.",
        is_not="Not a new connection: its id carried on.",
        condition=_rebound,
    ),
    Rule(
        code="PP238",
        title="The server never confirmed the QUIC handshake",
        severity=Severity.ERROR,
        asks="Why is there a connection and no answer?",
        decided="Our side of the handshake was complete, and until the connect timeout neither"
        " HANDSHAKE_DONE nor an ACK of a 1-RTT packet came (RFC 9001, 4.1.2).",
        advice="What we send is lost or ignored from there on: look for a firewall or load balancer"
        " that lets only the first flight through; --http auto tells whether TCP works.",
        is_not="Not a slow server: it would have confirmed at once.",
        condition=_unconfirmed,
    ),
)
