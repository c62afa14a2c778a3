"""A handshake's trace as a row of `promptpath quic`."""

from __future__ import annotations

from collections.abc import Sequence

from promptpath.analysis.facts import whole
from promptpath.analysis.rules import judge_all
from promptpath.analysis.view import Measured, measure
from promptpath.errors import ExitCode
from promptpath.model.enums import Severity, Stage
from promptpath.model.names import (
    FAILURE,
    MARK_QUIC,
    QUIC_HANDSHAKE,
    QUIC_PACKETS,
    QUIC_PARAMETERS,
    QUIC_PEER,
    SPAN_HANDSHAKE,
    SPAN_RESOLVE,
    TLS_CHAIN,
    TLS_CIPHER,
    TLS_RESUMED,
    TLS_VERIFY,
)
from promptpath.model.plan import PlanRecord
from promptpath.model.quic_report import QUIC_REPORT_SCHEMA, QuicReport, QuicRun
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from promptpath.model.units import Ns, opt_ms, to_ms

_ABOUT_A_HANDSHAKE = ("PP1", "PP2", "PP3")
"""Name, transport, TLS: no prompt was sent, so nothing can be said of the rest."""


def report_of(traces: Sequence[Trace], plan: PlanRecord, *, interrupted: bool) -> QuicReport:
    """All rows, and the exit code: 3 where no handshake completed, 1 where an error finding fired
    beside one that did."""
    runs = tuple(_run(measure(trace, plan)) for trace in traces)
    code = ExitCode.OK
    if interrupted:
        code = ExitCode.INTERRUPTED
    elif not any(run.outcome == "ok" for run in runs):
        code = ExitCode.UNMEASURED
    elif any(severity == Severity.ERROR.value for run in runs for _, severity, _ in run.findings):
        code = ExitCode.FINDING
    return QuicReport(
        schema=QUIC_REPORT_SCHEMA,
        target=plan.url,
        runs=runs,
        interrupted=interrupted,
        exit_code=int(code),
    )


def _run(measured: Measured) -> QuicRun:
    facts = measured.facts
    shaken = facts.record(QUIC_HANDSHAKE)
    peer, verify = facts.record(QUIC_PEER), facts.record(TLS_VERIFY)
    failure = facts.record(FAILURE) or None
    steps = _steps(measured)
    offered = shaken.get("version_negotiation")
    resumed = facts.record(TLS_RESUMED)
    return QuicRun(
        outcome="ok" if shaken and failure is None else "failed",
        address=_place(peer) if peer else None,
        dns_ms=opt_ms(_span_ns(measured, Stage.DNS, SPAN_RESOLVE)),
        handshake_ms=opt_ms(_span_ns(measured, Stage.QUIC, SPAN_HANDSHAKE)),
        server_ms=_server_ms(steps, measured.rtt_ns),
        rtt_ms=opt_ms(measured.rtt_ns),
        round_trips=whole(shaken.get("round_trips")),
        version=_text(shaken.get("version")),
        alpn=_text(shaken.get("alpn")),
        retry=_flag(shaken.get("retry")),
        version_negotiation=tuple(map(str, offered)) if isinstance(offered, list) else None,
        initials=sum(1 for step, _ in steps if step == "initial-sent"),
        steps=steps,
        parameters=facts.record(QUIC_PARAMETERS),
        cipher=facts.text(TLS_CIPHER),
        verified=_flag(verify.get("verified")),
        verify_error=_text(verify.get("error")),
        names=_names(facts.last(TLS_CHAIN)),
        resumed=_flag(resumed.get("accepted")) if resumed.get("offered") is True else None,
        packets=_own(facts.records(QUIC_PACKETS), measured.conn),
        findings=tuple(
            (found.code, found.severity.value, found.title)
            for found in judge_all(measured)
            if found.code.startswith(_ABOUT_A_HANDSHAKE)
        ),
        failure=failure,
    )


def _steps(measured: Measured) -> tuple[tuple[str, float], ...]:
    marks = [
        mark
        for mark in measured.trace.marks_of(MARK_QUIC)
        if mark.conn == measured.conn or measured.conn is None
    ]
    if not marks:
        return ()
    start_ns = min(mark.stamp.at_ns for mark in marks)
    found = [(str(mark.detail.get("step")), mark.stamp.at_ns - start_ns) for mark in marks]
    return tuple((step, to_ms(at_ns)) for step, at_ns in found)


def _server_ms(steps: Sequence[tuple[str, float]], rtt_ns: Ns | None) -> float | None:
    sent = [at for step, at in steps if step == "initial-sent"]
    came = [at for step, at in steps if step == "handshake-received"]
    if not sent or not came or rtt_ns is None:
        return None
    return round(max(came[0] - sent[-1] - to_ms(rtt_ns), 0.0), 3)


def _span_ns(measured: Measured, stage: Stage, name: str) -> Ns | None:
    for span in measured.trace.spans:
        if (span.stage, span.name) == (stage, name):
            return span.duration_ns
    return None


def _own(records: list[dict[str, Json]], conn: int | None) -> dict[str, Json]:
    return next((record for record in records if record.get("conn") == conn), {})


def _names(chain: Json) -> tuple[str, ...]:
    leaf = chain[0] if isinstance(chain, list) and chain else None
    names = leaf.get("names") if isinstance(leaf, dict) else None
    return tuple(str(name) for name in names[:16]) if isinstance(names, list) else ()


def _place(peer: dict[str, Json]) -> str:
    address = str(peer.get("address"))
    return f"[{address}]:{peer.get('port')}" if ":" in address else f"{address}:{peer.get('port')}"


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) else None


def _flag(value: Json) -> bool | None:
    return value if isinstance(value, bool) else None
