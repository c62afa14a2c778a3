"""`promptpath quic` for people: a block a handshake, the medians, what was found."""

from __future__ import annotations

import statistics
import textwrap

from promptpath.model.quic_report import QuicReport, QuicRun
from promptpath.model.redact import printable

_WIDTH = 80
_SHOWN = (
    ("max_idle_timeout", "ms"),
    ("initial_max_data", "B"),
    ("initial_max_stream_data_bidi_local", "B"),
    ("initial_max_streams_bidi", ""),
    ("max_udp_payload_size", "B"),
    ("ack_delay_exponent", ""),
    ("max_ack_delay", "ms"),
    ("active_connection_id_limit", ""),
)
"""The transport parameters that decide something (RFC 9000, 18.2)."""


def render(report: QuicReport) -> str:
    """The whole text."""
    lines = [f"QUIC {printable(report.target)}", ""]
    for number, run in enumerate(report.runs, 1):
        lines += _run(run, number if len(report.runs) > 1 else None)
    lines += _medians(report)
    if report.interrupted:
        lines.append("interrupted: what was measured until then")
    return "\n".join(lines).rstrip() + "\n"


def _run(run: QuicRun, number: int | None) -> list[str]:
    head = f"{number}  " if number else ""
    if run.failure is not None:
        lines = [f"{head}failed: {printable(str(run.failure.get('what')))}"]
        where, hint = run.failure.get("where"), run.failure.get("hint")
        lines += _wrapped(f"where: {where}") if where else []
        lines += _wrapped(f"hint: {hint}") if hint else []
        return [*lines, *_findings(run), ""]
    trips = run.round_trips or 0
    lines = [
        f"{head}{run.address}  QUIC {run.version}, {run.alpn or 'no ALPN'}, {run.cipher or '-'}",
        f"  name resolution {_ms(run.dns_ms)}, handshake {_ms(run.handshake_ms)} in {trips} round"
        f" trip{'s' if trips != 1 else ''}",
        f"  round trip {_ms(run.rtt_ms)}, the server's own part {_ms(run.server_ms)}",
        "  steps " + ", ".join(f"{step} {at:.1f}" for step, at in run.steps) + " ms",
    ]
    trust = "verified" if run.verified else f"not trusted ({run.verify_error or 'unknown'})"
    lines.append(f"  certificate {trust}: {', '.join(map(printable, run.names)) or 'no names'}")
    resumed = {None: "not tried or not offered", True: "yes", False: "no"}[run.resumed]
    lines.append(f"  resumption {resumed}")
    known = [
        f"{name} {run.parameters[name]}{f' {unit}' if unit else ''}"
        for name, unit in _SHOWN
        if name in run.parameters
    ]
    out: list[str] = [lines[0]]
    for line in [*lines[1:], "  parameters " + ", ".join(known)]:
        out += textwrap.wrap(line, _WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*out, *_findings(run), ""]


def _findings(run: QuicRun) -> list[str]:
    found: list[str] = []
    for code, severity, title in run.findings:
        found += _wrapped(f"{code} {severity}: {title}")
    return found


def _medians(report: QuicReport) -> list[str]:
    took = [run.handshake_ms for run in report.runs if run.outcome == "ok" and run.handshake_ms]
    if len(took) < 2:
        return []
    spread = f"{min(took):.2f} to {max(took):.2f}"
    return [f"handshake, median of {len(took)}: {statistics.median(took):.2f} ms ({spread})"]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(printable(text), _WIDTH, initial_indent="  ", subsequent_indent="    ")


def _ms(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f} ms"
