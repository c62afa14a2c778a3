"""PP44x: what an idle pass shows of one stream."""

from __future__ import annotations

from collections.abc import Mapping

from promptpath.analysis.defaults import TimerKind, matching
from promptpath.analysis.facts import whole
from promptpath.analysis.idle import Fate, StreamFate, fate_of
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity
from promptpath.model.names import HTTP_END, STREAM_QUIET, TEST, TEST_KEPT
from promptpath.model.rows import Json
from promptpath.model.units import format_duration

_KINDS = {
    "head": TimerKind.FIRST_BYTE,
    "body": TimerKind.FIRST_BYTE,
    "stream": TimerKind.IDLE,
    "kept": TimerKind.KEPT,
}


def _ended(measured: Measured) -> Because:
    fate = fate_of(measured.trace)
    if fate is None or fate.at == "kept" or not fate.ended:
        return NO
    busy = fate.keepalive == "busy"
    timer_ns = fate.after_request_ns if busy else fate.silent_ns
    if timer_ns is None:
        return NO
    counted = "after its request, though never silent" if busy else "of silence"
    said = f"{fate.how}, {format_duration(timer_ns)} {counted}"
    kind = TimerKind.TOTAL if busy else _KINDS[fate.at]
    return because(said + _candidates(timer_ns, kind), facts=(TEST, HTTP_END))


def _candidates(timer_ns: int, kind: TimerKind) -> str:
    found = matching(timer_ns, kind)
    if not found:
        return "; no default known here"
    names = "; ".join(f"{default.product} ({default.setting})" for default in found)
    return f"; defaults of {names} fit"


def _stopped(measured: Measured) -> Because:
    fate = fate_of(measured.trace)
    if fate is None or fate.fate not in (Fate.HANG, Fate.SILENT_DROP):
        return NO
    return because(fate.how, facts=(TEST,))


def _connection_closed(measured: Measured) -> Because:
    fate = fate_of(measured.trace)
    if fate is None or fate.at != "kept" or fate.silent_ns is None or not _was_cut(fate):
        return NO
    said = f"{fate.how} after {format_duration(fate.silent_ns)}"
    return because(said + _candidates(fate.silent_ns, TimerKind.KEPT), facts=(TEST_KEPT,))


def _was_cut(fate: StreamFate) -> bool:
    return fate.fate is Fate.CUT


def _quiet(measured: Measured, *peers: str) -> Because:
    if measured.facts.record(TEST):
        return NO  # an idle pass is quiet on purpose
    notes = [n for n in measured.facts.records(STREAM_QUIET) if n.get("peer") in peers]
    longest = max(notes, key=lambda note: whole(note.get("quiet_ns")) or 0, default=None)
    quiet_ns = None if longest is None else whole(longest.get("quiet_ns"))
    if longest is None or not quiet_ns:
        return NO
    answers = _ANSWERS[str(longest.get("peer"))] + _http_answer(longest)
    return because(f"no byte for {format_duration(quiet_ns)}; {answers}", facts=(STREAM_QUIET,))


_ANSWERS = {
    "alive": "the connection's other end answered TCP keepalives meanwhile",
    "unanswered": "the connection's other end answered no TCP keepalive",
    "unknown": "whether its other end lives is not known on this system",
}


def _http_answer(note: Mapping[str, Json]) -> str:
    """What HTTP/2's own layer said, where it was asked."""
    match note.get("peer_http"):
        case "answered":
            rtt_ns = whole(note.get("ping_rtt_ns"))
            took = "" if rtt_ns is None else f" in {format_duration(rtt_ns)}"
            return f", and its HTTP/2 answered a PING{took}"
        case "unanswered":
            return ", and its HTTP/2 answered no PING"
    return ""


def _dead_path(measured: Measured) -> Because:
    return _quiet(measured, "unanswered")


def _quiet_path(measured: Measured) -> Because:
    return _quiet(measured, "alive", "unknown")


RULES = (
    Rule(
        code="PP440",
        title="A timer in the path ends the stream",
        severity=Severity.ERROR,
        asks="May a model think for so long?",
        decided="A test stream of the reference server, which would have ended by itself, was"
        " ended by somebody else. A default fits from 0.3 s before it to 1.1 s after it:"
        " measured on 42 proxy configurations (lazy timers, 1 s ticks, delayed close).",
        advice="Raise the timer of the product that fits (promptpath idle prints the line), or"
        " let the server send a comment line at a third of it, if comments reset it.",
        is_not="Not a slow model: the silence was ours.",
        condition=_ended,
    ),
    Rule(
        code="PP441",
        title="The stream stopped for good, and nobody said so",
        severity=Severity.ERROR,
        asks="Would a client wait for ever?",
        decided="The server's silence had ended, and neither a byte nor an end came until our own"
        " limit; or TCP keepalives (after 5 s, then each second) got no answer three times."
        " Measured: firewalls that forget a flow, node http-proxy's proxyTimeout and ATS'"
        " transaction_active_timeout do this.",
        advice="Set an idle time-out in the client, send keepalives more often than the path"
        " forgets, and look for a firewall or NAT that drops silently.",
        is_not="Not a thinking model: the server had sent more.",
        condition=_stopped,
    ),
    Rule(
        code="PP442",
        title="An idle connection is closed between two requests",
        severity=Severity.INFO,
        asks="How long may a client keep a connection for its next request?",
        decided="After one whole response the connection was left alone, and the peer closed it"
        " before the longest time sought.",
        advice="Let clients drop idle connections earlier than that, so that no request meets a"
        " connection on its way down.",
        is_not="Not a fault: servers must free idle connections (RFC 9112, 9.5).",
        condition=_connection_closed,
    ),
    Rule(
        code="PP443",
        title="The path was dead while we waited",
        severity=Severity.WARNING,
        asks="Did the connection die under the response?",
        decided="No byte for 7 s, and no answer to the TCP keepalives sent after 5 s and 6 s of"
        " silence: the last ACK is as old as the silence.",
        advice="Look for a firewall, a NAT or a link that dropped the connection without a word;"
        " keepalives more often than its timer keep it open.",
        is_not="Not a slow model: a living machine answers keepalives while it computes.",
        condition=_dead_path,
    ),
    Rule(
        code="PP444",
        title="The response went quiet for a long time",
        severity=Severity.INFO,
        asks="Was the path dead, or did somebody think?",
        decided="No byte for 7 s, in which two TCP keepalives were due (after 5 s and 6 s of"
        " silence); an ACK younger than the silence answered them. Over HTTP/2 it was then asked"
        " by PING, which HTTP's own layer must answer (RFC 9113, 6.7), and had 7 s for it.",
        advice="Look at the server: queue, prefill, a tool that runs. Comment lines from it would"
        " keep the timers in the path quiet; promptpath idle finds them.",
        is_not="Not proof that the model's server lives: a proxy answers keepalives and PINGs"
        " itself. Keepalives without an answer to the PING: only TCP is known to live there.",
        condition=_quiet_path,
    ),
)
