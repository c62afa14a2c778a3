"""What made a hop as long as it was, in words."""

from __future__ import annotations

from promptpath.analysis.attempts import Dial, dial_of
from promptpath.analysis.breakdown import Leg
from promptpath.analysis.facts import whole
from promptpath.analysis.view import Measured
from promptpath.model.enums import EventKind, Stage
from promptpath.model.names import (
    DNS_SOURCE,
    HTTP_REDIRECT,
    HTTP_REQUEST,
    MARK_WINDOW_STALL,
    PROMPT_TOKENS,
    TLS_HELLO_RETRY,
    TLS_RESUMED,
    TLS_VERSION,
)
from promptpath.model.redact import printable
from promptpath.model.units import Ns, format_bytes, format_duration

_DNS_SOURCES = {
    "literal": "an address, no name to resolve",
    "hosts": "answered by the hosts file",
    "system": "answered by the system's resolver",
    "resolver": "answered by the resolver asked for",
    "override": "address given on the command line",
}


def drivers_of(leg: Leg, measured: Measured) -> tuple[str, ...]:
    """Words for one leg, the weightiest first; the cause of a failure leads."""
    # What ended a response that had begun belongs to its finish.
    elsewhere = leg is measured.breakdown.final_wait and measured.breakdown.generation
    words = [span.error for span in leg.spans if span.error and not elsewhere]
    words += _BY_STAGE[leg.stage](leg, measured) if leg.stage in _BY_STAGE else []
    return tuple(printable(word) for word in words)


def counted(number: int, thing: str) -> str:
    """ "1 stall", "2 stalls"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def round_trips(duration_ns: Ns, rtt: Ns | None, count: int = 1) -> str | None:
    """ "43.0 ms of 44.0 ms is one round trip", for a hop that needs `count` of them. None where the
    round trip is not known, does not fit, or is less than a tenth: then the hop is made of
    something else."""
    if not rtt or not duration_ns / 10 <= count * rtt <= duration_ns:
        return None
    trips = "one round trip" if count == 1 else f"{count} round trips"
    return f"{format_duration(count * rtt)} of {format_duration(duration_ns)} is {trips}"


def _dns(leg: Leg, measured: Measured) -> list[str]:
    source = measured.facts.text(DNS_SOURCE)
    return [_DNS_SOURCES[source]] if source in _DNS_SOURCES else []


def _tcp(leg: Leg, measured: Measured) -> list[str]:
    words: list[str] = []
    dial = dial_of(measured.trace, leg.spans)
    if dial is not None and dial.cost_ns > 0:
        words.append(_lost_attempts(dial))
    trips = round_trips(leg.duration_ns, measured.rtt_ns)
    return words + ([trips] if trips else [])


def _lost_attempts(dial: Dial) -> str:
    attempts = counted(len(dial.losers), "attempt")
    return f"{attempts} before the one that worked cost {format_duration(dial.cost_ns)}"


def _tls(leg: Leg, measured: Measured) -> list[str]:
    facts = measured.facts
    resumed = facts.record(TLS_RESUMED).get("accepted") is True
    words: list[str] = []
    if facts.records(TLS_HELLO_RETRY):
        words.append("2 round trips: HelloRetryRequest")
    elif facts.text(TLS_VERSION) == "TLSv1.2" and not resumed:
        words.append("2 round trips: TLS 1.2")
    trips = round_trips(leg.duration_ns, measured.rtt_ns, 2 if words else 1)
    return words + ([trips] if trips else [])


def _request(leg: Leg, measured: Measured) -> list[str]:
    request = measured.facts.record(HTTP_REQUEST)
    size = (whole(request.get("head_bytes")) or 0) + (whole(request.get("body_bytes")) or 0)
    words = [format_bytes(size)] if size > 0 else []
    tokens = whole(measured.facts.record(PROMPT_TOKENS).get("count"))
    if tokens:
        words.append(f"{tokens} prompt tokens")
    if any(True for _ in measured.trace.marks_of(MARK_WINDOW_STALL)):
        words.append("waited for the peer's HTTP/2 window")
    return words


def _wait(leg: Leg, measured: Measured) -> list[str]:
    words: list[str] = []
    redirects = measured.facts.records(HTTP_REDIRECT)
    if leg.exchange < len(redirects) and leg.exchange < measured.breakdown.exchanges - 1:
        record = redirects[leg.exchange]
        return [f"redirect {record.get('status')} to {record.get('to')}"]
    trips = round_trips(leg.duration_ns, measured.rtt_ns)
    if trips:
        words.append(trips)
    if measured.scan.keepalives_before_content:
        kept = counted(measured.scan.keepalives_before_content, "keepalive")
        words.append(f"{kept} came meanwhile")
    return words


def _generation(leg: Leg, measured: Measured) -> list[str]:
    rhythm = measured.rhythm
    if rhythm is None:
        return []
    words = [counted(rhythm.cadence.events, "event")]
    if rhythm.cadence.output_tokens is not None:
        words.insert(0, counted(rhythm.cadence.output_tokens, "token"))
    if rhythm.cadence.tokens_per_s is not None:
        words.append(f"{rhythm.cadence.tokens_per_s:g} tokens/s")
    if rhythm.stalls:
        stalls = counted(len(rhythm.stalls), "stall")
        words.append(f"{stalls} cost {format_duration(rhythm.stall_excess_ns)}")
    return words


def _finish(leg: Leg, measured: Measured) -> list[str]:
    marker = measured.scan.first.get(EventKind.END)
    if marker is None or leg.end_ns <= marker.at_ns:
        return []
    return [f"open for {format_duration(leg.end_ns - marker.at_ns)} after the end marker"]


_BY_STAGE = {
    Stage.DNS: _dns,
    Stage.TCP: _tcp,
    Stage.TLS: _tls,
    Stage.REQUEST: _request,
    Stage.WAIT: _wait,
    Stage.GENERATION: _generation,
    Stage.FINISH: _finish,
}
