"""Documents for the exporters' tests, made of the readable trips of tests/analysis/build.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.summary import summarize
from promptpath.model.document import Document, Run, Tool
from promptpath.model.enums import Clock, EndState, FactSource, Severity, Stage
from promptpath.model.names import HTTP_HEADERS, HTTP_REQUEST_ID, STREAM_MODEL
from promptpath.model.plan import PlanRecord
from promptpath.model.report import (
    Cadence,
    Evidence,
    Finding,
    Hop,
    Instrument,
    Latency,
    Milestones,
    Quantiles,
    Report,
    Server,
    Stall,
    StampErrors,
)
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from tests.analysis.build import PLAN, TraceBuilder

HOSTILE = "\x1b[2J<script>alert(1)</script> [x](https://evil.example) **b** | `c` @team \u202e #1"
"""Far-side text that would clear a screen, run in a page, or format a ticket."""


def trip(
    *, kind: str = "cold", wait_ms: float = 300, facts: dict[str, Json] | None = None
) -> Trace:
    """A whole trip of about 600 ms whose server reports its times."""
    return extend(TraceBuilder(warm=kind == "warm"), kind=kind, wait_ms=wait_ms, facts=facts)


def extend(
    builder: TraceBuilder,
    *,
    kind: str = "cold",
    wait_ms: float = 300,
    facts: dict[str, Json] | None = None,
) -> Trace:
    """The same trip, recorded by a builder that somebody may be watching."""
    if kind == "cold":
        builder = builder.dns(5).tcp(40, rtt_ms=40).tls(45)
    builder = builder.request().head(42)
    for key, value in (facts or {}).items():
        builder = builder.fact(key, value)
    return (
        builder.wait(wait_ms)
        .text(20, gap_ms=10)
        .marker()
        .reports(queue=50, prefill=200, decode=190)
        .end()
        .build()
    )


def document(traces: Sequence[Trace], plan: PlanRecord = PLAN) -> Document:
    """These traces, judged."""
    runs = tuple(Run(trace=trace, report=diagnose(trace, plan)) for trace in traces)
    return Document(
        tool=Tool(name="promptpath", version="0.0.0"),
        plan=plan,
        vantage={},
        summary=summarize(runs),
        runs=runs,
    )


def hostile_trip() -> Trace:
    """A trip whose far side tries everything."""
    return (
        TraceBuilder()
        .dns(5)
        .tcp(40, rtt_ms=40)
        .request()
        .fact(HTTP_REQUEST_ID, {"header": "x-request-id", "value": HOSTILE})
        .fact(HTTP_HEADERS, [["cf-ray", f"{HOSTILE}-AMS"], ["x-amz-cf-pop", "JFK52-P2"]])
        .fact(STREAM_MODEL, HOSTILE)
        .head(42)
        .wait(300)
        .text(3, gap_ms=10)
        .end()
        .build()
    )


def _hop(
    stage: Stage,
    title: str,
    start_ms: float | None,
    duration_ms: float,
    *,
    within: Stage | None = None,
    source: FactSource = FactSource.OBSERVED,
    error_ms: float = 0.002,
    drivers: tuple[str, ...] = (),
) -> Hop:
    return Hop(
        stage=stage,
        within=within,
        title=title,
        start_ms=start_ms,
        duration_ms=duration_ms,
        error_ms=error_ms,
        source=source,
        drivers=drivers,
    )


REPORT = Report(
    hops=(
        _hop(Stage.DNS, "name resolution", 0, 10, error_ms=0.2, drivers=("from the system",)),
        _hop(Stage.TCP, "TCP connect", 10, 40),
        _hop(Stage.REQUEST, "request upload", 50, 0.5),
        _hop(Stage.WAIT, "wait for the first token", 50.5, 449.5),
        _hop(
            Stage.QUEUE, "queue", 60, 40, within=Stage.WAIT, source=FactSource.REPORTED, error_ms=0
        ),
        _hop(
            Stage.RETURN,
            "way there and back",
            None,
            40.5,
            within=Stage.WAIT,
            source=FactSource.INFERRED,
        ),
        _hop(Stage.GENERATION, "generation", 500, 450, drivers=("90 tokens", "20 events")),
        _hop(Stage.FINISH, "finish", 950, 49),
    ),
    milestones=Milestones(),
    latency=Latency(
        headers_ms=100,
        ttfb_ms=500,
        first_frame_ms=500,
        first_reasoning_ms=None,
        ttft_ms=500,
        ttft_request_ms=449.5,
        e2e_ms=1000,
        unexplained_ms=1,
        ttft_error_ms=0.012,
    ),
    cadence=Cadence(
        output_tokens=90,
        token_source="usage",
        events=20,
        tokens_per_event=4.5,
        inter_event_ms=Quantiles(count=19, mean=23.7, p50=23, p90=30, p99=45, max=50),
        itl_ms=Quantiles(count=89, mean=5.05, p50=5, p90=6, p99=9, max=10),
        tpot_ms=5.05,
        tokens_per_s=198,
        stalls=(Stall(after_event=3, start_ms=600, duration_ms=50),),
    ),
    server=Server(sources=("Server-Timing",), queue_ms=40, cached_tokens=7),
    instrument=Instrument(
        clock=Clock.KERNEL, exact_ratio=0.95, error_us=StampErrors(p50=0.2, p99=12)
    ),
    end_state=EndState.COMPLETE,
    verdicts=(),
    findings=(
        Finding(
            code="PP999",
            severity=Severity.WARNING,
            title="Something is odd",
            because=(Evidence(text="it took 10.0 ms"), Evidence(text="twice")),
            advice="Look at it.",
        ),
    ),
    exit_code=0,
)
"""A report in which every part is there, by hand: what exporters do must not hang on analysis."""


def by_hand(**changes: Json) -> Document:
    """A document of one run whose report is REPORT with changes, and whose trace is a known one."""
    report = replace(REPORT, **changes)
    made = document([trip()])
    return replace(made, runs=(Run(trace=made.runs[0].trace, report=report),))
