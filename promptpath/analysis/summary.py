"""Several runs together: medians and spread, kept apart by the kind of run."""

from __future__ import annotations

from collections.abc import Iterable

from promptpath.analysis.facts import Facts
from promptpath.analysis.stats import spread
from promptpath.errors import ExitCode
from promptpath.model.document import Run
from promptpath.model.names import RUN
from promptpath.model.report import Report, Spread, Summary
from promptpath.model.trace import Trace

_WORST_FIRST = (ExitCode.INTERRUPTED, ExitCode.UNMEASURED, ExitCode.FINDING)


def run_kind(trace: Trace) -> str:
    """cold | warm."""
    return "warm" if Facts(trace).record(RUN).get("kind") == "warm" else "cold"


def summarize(runs: Iterable[Run]) -> Summary:
    """The document's `summary`. Runs are compared with their own kind only; a metric that a run
    does not have is missing from its spread, never 0."""
    values: dict[str, dict[str, list[float]]] = {}
    codes: list[int] = []
    for run in runs:
        codes.append(run.report.exit_code)
        kind = values.setdefault(run_kind(run.trace), {})
        for name, value in metrics_of(run.report).items():
            kind.setdefault(name, []).append(value)
    return Summary(
        runs=len(codes),
        metrics={kind: _spreads(metrics) for kind, metrics in values.items()},
        exit_code=worst_exit_code(codes),
    )


def worst_exit_code(codes: Iterable[int]) -> int:
    """The code of all runs together: interrupted before unmeasured before a finding."""
    seen = set(codes)
    return next((int(code) for code in _WORST_FIRST if code in seen), int(ExitCode.OK))


def metrics_of(report: Report) -> dict[str, float]:
    """What is comparable between runs, by name, where the run has it."""
    latency, cadence = report.latency, report.cadence
    found: dict[str, float | None] = {}
    for hop in report.hops:
        if hop.within is None:
            name = f"{hop.stage.value}_ms"
            found[name] = round((found.get(name) or 0.0) + hop.duration_ms, 3)
    found |= {
        "headers_ms": latency.headers_ms,
        "ttfb_ms": latency.ttfb_ms,
        "ttft_ms": latency.ttft_ms,
        "ttft_request_ms": latency.ttft_request_ms,
        "e2e_ms": latency.e2e_ms,
    }
    if cadence is not None:
        found["tpot_ms"] = cadence.tpot_ms
        found["tokens_per_s"] = cadence.tokens_per_s
        found["itl_p99_ms"] = cadence.itl_ms.p99 if cadence.itl_ms else None
    return {name: value for name, value in found.items() if value is not None}


def _spreads(metrics: dict[str, list[float]]) -> dict[str, Spread]:
    return {name: spread(values) for name, values in metrics.items()}
