"""PP2xx: TCP, and what HTTP/2 flow control does to an upload."""

from __future__ import annotations

from promptpath.analysis.attempts import dials
from promptpath.analysis.cadence import MIN_GAPS, PERCEIVED_NS
from promptpath.analysis.facts import tcp_counter
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.cause import failed
from promptpath.analysis.rules.windows import (
    initial_window,
    slow_start,
    upload_bound,
    window_stall,
)
from promptpath.analysis.view import Measured
from promptpath.model.enums import Outcome, Severity, Stage
from promptpath.model.names import (
    TCP_INFO,
)
from promptpath.model.rows import Span
from promptpath.model.units import NS_PER_MS, NS_PER_S, format_duration

LONGER_WAY = 2
"""An IPv6 attempt cancelled after less than twice what the winner took may just have had the
longer way; RFC 8305 starts the next attempt after 250 ms whatever the reason."""
SYN_RTO_NS = NS_PER_S
"""RFC 6298, 2.1: the retransmission timer starts at 1 s (and doubles: 1, 3, 7 s)."""
SYN_EARLY_NS = 10 * NS_PER_MS
"""One tick at HZ=100: a timer of whole ticks set within a tick runs that much short of its
length."""
DELACK_LOW_NS, DELACK_HIGH_NS = 38 * NS_PER_MS, 46 * NS_PER_MS
"""Linux' shortest delayed ACK is 40 ms (TCP_DELACK_MIN); measured: 40 to 44 ms as seen by a
client."""
LOSS_SHARE = 0.01
"""Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm" (1997): at
1 % loss Reno carries 1.22 / sqrt(0.01) = 12 segments a round trip, no more than a fresh
connection's first flight."""
MAJORITY = 0.5
"""More than everything else together."""


def _ipv6_hidden(measured: Measured) -> Because:
    for dial in dials(measured.trace):
        winner = dial.winner
        if winner is None or winner.end_ns is None or dial.cost_ns <= 0:
            continue
        losers = [s for s in dial.losers if s.start_ns < winner.start_ns and _is_ipv6(s)]
        broken = [span for span in losers if _went_unanswered(span, winner)]
        if broken and not _is_ipv6(winner):
            cost = format_duration(winner.start_ns - broken[0].start_ns)
            said = f"IPv6 was tried first and another address won: it cost {cost}"
            return because(f"{said} ({broken[0].error})", spans=tuple(s.id for s in broken))
    return NO


def _is_ipv6(span: Span) -> bool:
    """An attempt that was lost names its address first, an IPv6 one in brackets."""
    return (span.error or "").startswith("[")


def _went_unanswered(loser: Span, winner: Span) -> bool:
    """It failed, or nothing came for so long that the way is not merely longer."""
    if loser.outcome is not Outcome.CANCELLED:
        return True
    waited = (winner.end_ns or winner.start_ns) - loser.start_ns
    return waited > LONGER_WAY * (winner.duration_ns or 0)


def _syn_again(measured: Measured) -> Because:
    """The attempt that won took a retransmission timer longer than the round trip."""
    rtt = measured.rtt_ns
    for dial in dials(measured.trace):
        winner = dial.winner
        took = winner.duration_ns if winner else None
        if winner is None or took is None or winner.conn not in (None, measured.conn):
            continue
        if rtt is not None and took - rtt >= SYN_RTO_NS - SYN_EARLY_NS:
            said = f"connecting took {format_duration(took)}, a round trip {format_duration(rtt)}"
            return because(said, spans=(winner.id,), facts=(TCP_INFO,))
    return NO


def _sent_again(measured: Measured) -> Because:
    count = tcp_counter(measured.facts, "total_retrans", measured.conn)
    if not count:
        return NO
    return because(f"the kernel sent {count} segments again", facts=(TCP_INFO,))


def _loss_inbound(measured: Measured) -> Because:
    out_of_order = tcp_counter(measured.facts, "rcv_ooopack", measured.conn)
    segments = tcp_counter(measured.facts, "data_segs_in", measured.conn)
    if not out_of_order or not segments or out_of_order < LOSS_SHARE * segments:
        return NO
    return because(
        f"{out_of_order} of {segments} data segments arrived out of order: ones before them were"
        " lost or overtaken",
        facts=(TCP_INFO,),
    )


def _delayed_ack(measured: Measured) -> Because:
    """Most of the long gaps are 40 ms, which the round trip does not explain."""
    rhythm = measured.rhythm
    if rhythm is None or len(rhythm.gaps) < MIN_GAPS:
        return NO
    usual = rhythm.median_gap_ns or 0
    near_rtt = measured.rtt_ns is not None and measured.rtt_ns > DELACK_LOW_NS * 0.75
    if usual > DELACK_LOW_NS / 2 or near_rtt:
        return NO
    long_gaps = [gap for gap in rhythm.gaps if gap > 1.5 * usual and gap > DELACK_LOW_NS / 2]
    forty = [gap for gap in long_gaps if DELACK_LOW_NS <= gap <= DELACK_HIGH_NS]
    if len(forty) < 3 or 2 * len(forty) < len(long_gaps):
        return NO
    return because(
        f"{len(forty)} of {len(long_gaps)} long gaps last 38 to 46 ms, where the usual gap is"
        f" {format_duration(round(usual))}"
    )


def _path_dominates(measured: Measured) -> Because:
    breakdown = measured.breakdown
    setup = breakdown.total_ns(Stage.DNS, Stage.TCP, Stage.TLS, Stage.QUIC, Stage.REQUEST)
    wait = breakdown.final_wait
    if measured.ttft_ns is None or wait is None or not measured.rtt_ns:
        return NO
    if measured.ttft_ns < PERCEIVED_NS:
        return NO
    path = setup + min(measured.rtt_ns, wait.duration_ns)
    errors = sum(leg.error_ns for leg in breakdown.legs if leg.stage is not Stage.FINISH)
    if path - errors <= MAJORITY * measured.ttft_ns:
        return NO
    return because(
        f"name, connection, upload and one round trip are {format_duration(path)} of the"
        f" {format_duration(measured.ttft_ns)} to the first token (round trip"
        f" {format_duration(measured.rtt_ns)})",
        facts=(TCP_INFO,),
    )


def _refused(measured: Measured) -> Because:
    return failed(measured, Stage.TCP, "refused")


def _unanswered(measured: Measured) -> Because:
    return failed(measured, Stage.TCP, "connect-timeout")


def _unreachable(measured: Measured) -> Because:
    return failed(measured, Stage.TCP, but=("refused", "connect-timeout"))


RULES = (
    Rule(
        code="PP201",
        title="IPv6 does not work, happy eyeballs hides it",
        severity=Severity.WARNING,
        asks="Does every connection first lose time on a family that does not work?",
        decided="An IPv6 attempt that began before the winning IPv4 one failed, or went unanswered"
        " for more than twice what the winner took (less may be a longer way). The cost is the"
        " winner's start less its own: 250 ms by RFC 8305, section 5, where nothing answers.",
        advice="Fix the IPv6 path (route, firewall, the server's listener) or withdraw the AAAA"
        " record. -4 avoids it here; clients without happy eyeballs wait for their connect"
        " time-out.",
        is_not="Not a slow server: it did not see these attempts.",
        condition=_ipv6_hidden,
    ),
    Rule(
        code="PP202",
        title="The connection is refused",
        severity=Severity.ERROR,
        asks="Does anything listen there?",
        decided="The SYN was answered with RST (ECONNREFUSED).",
        advice="Check the port, and that the server runs and listens on this address.",
        is_not="Not a firewall that drops: that gives no answer at all (PP203).",
        condition=_refused,
    ),
    Rule(
        code="PP203",
        title="The connection attempt is not answered",
        severity=Severity.ERROR,
        asks="Do SYN packets, or their answers, get lost?",
        decided="No address answered within --connect-timeout.",
        advice="A firewall that drops, a route that leads nowhere, or a dead host. Try from"
        " another network.",
        is_not="Not a closed port: that is refused at once (PP202).",
        condition=_unanswered,
    ),
    Rule(
        code="PP204",
        title="The address cannot be reached",
        severity=Severity.ERROR,
        asks="Does the network, or this machine, refuse the connection?",
        decided="The connection attempt ended with a reset, an ICMP error or a local error.",
        advice="See the error's words: no route, prohibited by a router, or denied by this"
        " machine's policy.",
        is_not="Not a slow server.",
        condition=_unreachable,
    ),
    Rule(
        code="PP205",
        title="The SYN was sent again",
        severity=Severity.WARNING,
        asks="Did the connection wait for a retransmission timer?",
        decided="The winning attempt took at least 1 s longer than the round trip: the initial"
        " retransmission timer (RFC 6298, 2.1); further ones follow at 3 and 7 s.",
        advice="A SYN or its answer was lost: look for loss, a full accept queue or SYN limiting"
        " at the server. Repeat to see whether it was chance.",
        is_not="Not a long path: the round trip itself is short.",
        condition=_syn_again,
    ),
    Rule(
        code="PP206",
        title="Segments of the request were lost",
        severity=Severity.INFO,
        asks="Did our own sending need retransmissions?",
        decided="TCP_INFO's total_retrans is above 0 on this connection.",
        advice="One costs a round trip or more. Many mean loss on the way to the server, or a"
        " path MTU that a firewall hides.",
        is_not="Not loss on the way back: see PP207.",
        condition=_sent_again,
    ),
    Rule(
        code="PP207",
        title="Segments of the answer were lost or overtaken",
        severity=Severity.WARNING,
        asks="Is the stream's unevenness loss rather than a slow model?",
        decided="At least 1 % of the data segments arrived out of order (TCP_INFO rcv_ooopack"
        " over data_segs_in): where loss-based congestion control is held to about 12 segments a"
        " round trip (Mathis et al. 1997; RFC 5681).",
        advice="Look for a lossy link (Wi-Fi, an overfull queue, a bad cable). Gaps of one to"
        " two and a half round trips in the stream are its doing.",
        is_not="Not a proxy that holds events: those arrive in order.",
        condition=_loss_inbound,
    ),
    Rule(
        code="PP208",
        title="40 ms gaps: Nagle's algorithm meets delayed ACKs",
        severity=Severity.WARNING,
        asks="Does the sender wait for ACKs that the receiver delays?",
        decided="At least 3, and at least half, of the long gaps last 38 to 46 ms while the"
        " usual gap and the round trip are shorter. 40 ms is Linux' shortest delayed ACK;"
        " measured at a client: 40 to 44 ms. Nagle: RFC 896; delayed ACK: RFC 1122, 4.2.3.2.",
        advice="Set TCP_NODELAY at the server or proxy that writes small pieces, or write each"
        " event at once.",
        is_not="Not a slow model: its gaps do not cluster at 40 ms.",
        condition=_delayed_ack,
    ),
    Rule(
        code="PP209",
        title="The upload takes a large part of the time to the first token",
        severity=Severity.WARNING,
        asks="Is the prompt slow to send rather than slow to answer?",
        decided="First to last request byte on the wire is longer than one round trip and at"
        " least a tenth of the time to the first token, and the request does not fit into the"
        " first 10 segments (RFC 6928) or takes 0.1 s, what a person perceives (Miller 1968).",
        advice="Send less (images, history), keep the connection warm, or use a nearer front end.",
        is_not="Not prefill: the server had not yet got the prompt.",
        condition=upload_bound,
    ),
    Rule(
        code="PP210",
        title="The request is larger than the first congestion window",
        severity=Severity.INFO,
        asks="Did slow start make the upload wait for round trips?",
        decided="Head and body exceed 10 segments (RFC 6928) on a fresh connection, and the"
        " upload took at least half of the round trips this predicts.",
        advice="A warm connection has a larger window; or send less.",
        is_not="Not a proxy: this is TCP's slow start (RFC 5681, 3.1).",
        condition=initial_window,
    ),
    Rule(
        code="PP211",
        title="The upload waited for the peer's HTTP/2 window",
        severity=Severity.WARNING,
        asks="Did flow control, not the network, stop the upload?",
        decided="Request bytes were left and the stream's or connection's window was 0 (RFC"
        " 9113, 5.2).",
        advice="Raise the server's or proxy's initial window (65,535 bytes by default, RFC 9113,"
        " 6.9.2).",
        is_not="Not loss, and not a slow link.",
        condition=window_stall,
    ),
    Rule(
        code="PP212",
        title="The path takes most of the time to the first token",
        severity=Severity.INFO,
        asks="Is distance, not the server, what one waits for?",
        decided="Name, connection, upload and one round trip exceed half of the time to the"
        " first visible token, errors deducted, and that time is at least 0.1 s, what a person"
        " perceives (Miller 1968).",
        advice="Reuse connections (--warm shows the gain), use a nearer region, or resume TLS.",
        is_not="Not a slow model.",
        condition=_path_dominates,
    ),
    Rule(
        code="PP213",
        title="Slow start shapes the beginning of the stream",
        severity=Severity.INFO,
        asks="Are the first gaps the congestion window's, not a proxy's?",
        decided="On a fresh connection events come faster than ten a round trip (RFC 6928's first"
        " window), and gaps as long as a round trip less ten events occur within its first 5 round"
        " trips only: by then slow start has opened the window (RFC 5681, 3.1). Measured: one small"
        " event a ms over 40 ms delays the p99 event by 11 ms beyond the path.",
        advice="Nothing to repair. A warm connection, or several tokens an event, avoid it.",
        is_not="Not a buffering proxy.",
        condition=slow_start,
    ),
)
