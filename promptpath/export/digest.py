"""The few facts a person wants first: which request this was, where it went, who answered.

A saved trace is a file somebody hands us and its facts are far-side text: every value here is
checked for its shape and printable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from promptpath.analysis.buffering.verdict import QUESTION as BUFFERING
from promptpath.analysis.doors import places
from promptpath.analysis.facts import Facts
from promptpath.model.names import (
    FAILURE,
    HTTP_HEADERS,
    HTTP_REQUEST_ID,
    HTTP_STATUS,
    HTTP_VERSION,
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    PROXY,
    QUIC_PEER,
    SPAN_REUSE,
    SPAN_SECOND,
    STREAM_DIALECT,
    STREAM_MODEL,
    STREAM_USAGE,
    TCP_PEER,
    TLS_CIPHER,
    TLS_GROUP,
    TLS_RESUMED,
    TLS_VERSION,
)
from promptpath.model.redact import printable
from promptpath.model.report import Report
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_S, format_ms


@dataclass(frozen=True, slots=True)
class Line:
    """One fact for a person."""

    label: str
    value: str


def identity(trace: Trace) -> list[Line]:
    """What a vendor's support asks for first: request id, POP, address, time; what is known."""
    facts = Facts(trace)
    lines = []
    request_id = facts.record(HTTP_REQUEST_ID)
    if request_id:
        value, header = _text(request_id.get("value")), _text(request_id.get("header"))
        lines.append(Line("request id", f"{value} ({header})"))
    lines += [Line("POP", f"{place} ({header})") for place, header in pops(facts)]
    address = peer(facts)
    if address:
        lines.append(Line("address", address))
    lines.append(Line("time", started_at(trace)))
    return lines


def pops(facts: Facts) -> Iterator[tuple[str, str]]:
    """Points of presence that response headers name: (place, header)."""
    for box in places(facts.headers(HTTP_HEADERS)):
        if box.role == "edge":
            yield str(box.place), box.header


def peer(facts: Facts) -> str | None:
    """The address that was connected to, as address:port; the proxy's, when there is one."""
    record = facts.record(TCP_PEER) or facts.record(QUIC_PEER)
    if not record:
        return None
    address = _text(record.get("address"))
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{_text(record.get('port'))}"


def started_at(trace: Trace) -> str:
    """Wall-clock time of t0 in UTC, to the second."""
    try:
        at = datetime.fromtimestamp(trace.clock.epoch_unix_ns // NS_PER_S, UTC)
    except (OverflowError, ValueError, OSError):
        return "unknown"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def connection(trace: Trace) -> str | None:
    """How it was answered: status, HTTP version, TLS, address, proxy; None when nothing is."""
    facts = Facts(trace)
    status, version = facts.whole(HTTP_STATUS), facts.text(HTTP_VERSION)
    parts = []
    if status is not None:
        parts.append(f"status {status}")
    if version:
        parts.append(f"HTTP/{version}")
    parts += _tls(facts, resumed=_resumed(trace))
    address = peer(facts)
    if address:
        parts.append(address)
    proxy = facts.record(PROXY)
    if proxy:
        parts.append(f"through {_text(proxy.get('kind'))} proxy {_text(proxy.get('address'))}")
    return printable(", ".join(parts)) or None


def _tls(facts: Facts, *, resumed: bool) -> list[str]:
    version = facts.text(TLS_VERSION)
    if not version:
        return []
    words = [version.replace("TLSv", "TLS ")]
    words += [word for word in (facts.text(TLS_GROUP), facts.text(TLS_CIPHER)) if word]
    if resumed:
        words.append("resumed")
    return [" ".join(words)]


def _resumed(trace: Trace) -> bool:
    """Whether the prompt's own connection was resumed; the second connection, which only tries
    whether that works, does not count."""
    trials = {span.id for span in trace.spans if span.name in (SPAN_REUSE, SPAN_SECOND)}
    return any(
        isinstance(fact.value, dict) and fact.value.get("accepted") is True
        for fact in trace.facts_of(TLS_RESUMED)
        if fact.span not in trials
    )


def conversation(trace: Trace) -> str | None:
    """Who spoke what: dialect, model, prompt and answer tokens; None when nothing is known. The
    endpoint's own count of the answer beats ours, as in the figures of the stream."""
    facts = Facts(trace)
    parts = []
    dialect = facts.record(STREAM_DIALECT)
    if dialect:
        parts.append(f"{_text(dialect.get('name'))} (by {_text(dialect.get('because'))})")
    model = facts.text(STREAM_MODEL)
    if model:
        parts.append(f"model {model[:80]}")
    prompt, answer = facts.record(PROMPT_TOKENS), facts.record(OUTPUT_TOKENS)
    reported = facts.record(STREAM_USAGE).get("output_tokens")
    counts = (
        ("prompt", prompt.get("count"), prompt.get("source")),
        (
            "answer",
            reported or answer.get("counted"),
            "usage" if reported else answer.get("source"),
        ),
    )
    for label, count, source in counts:
        if isinstance(count, int):
            tokens = "1 token" if count == 1 else f"{count} tokens"
            parts.append(f"{label} {tokens} ({_text(source)})")
    return printable(", ".join(parts)) or None


def instrument(report: Report) -> str:
    """How well a run was measured: its clock, and the share of certified stamps."""
    words = f"{report.instrument.clock.value} clock"
    ratio = report.instrument.exact_ratio
    return words if ratio is None else f"{words}, {100 * ratio:.3g}% of events certified exact"


def buffering(report: Report) -> str | None:
    """What happened to the stream on its way, in one line; None where there was none."""
    verdict = next((v for v in report.verdicts if v.question == BUFFERING), None)
    if verdict is None:
        return None
    estimate = verdict.estimate
    hold_ms, error_ms = estimate.get("hold_p90_ms"), estimate.get("hold_error_ms")
    words = verdict.answer
    if estimate.get("size_bytes"):
        words += f", {estimate['size_bytes']} bytes"
    if estimate.get("period_ms"):
        words += f", every {format_ms(estimate['period_ms'])}"
    if hold_ms is None or error_ms is None:
        reasons = "; ".join(reason.text for reason in verdict.because[:1])
        return printable(f"{words}: {reasons}")
    how = "sender's stamps" if estimate.get("hold_source") == "server-stamps" else "estimate"
    return printable(
        f"{words}: a tenth held {format_ms(hold_ms)} or longer ({how}, +-{format_ms(error_ms)})"
    )


def failure(trace: Trace) -> list[str]:
    """Why the run could not go on, as the error tree words it; empty when it could."""
    record = Facts(trace).record(FAILURE)
    if not record:
        return []
    lines = [f"stopped at {_text(record.get('stage'))}: {_text(record.get('what'))}"]
    for name in ("expected", "where", "hint"):
        if record.get(name):
            lines.append(f"{name}: {_text(record[name])}")
    return lines


def _text(value: Json) -> str:
    return printable(str(value))[:300] if value is not None else "?"
