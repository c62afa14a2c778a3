"""The runs of a matrix -> what differs from the baseline, and one sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from promptpath.analysis.facts import Facts
from promptpath.analysis.milestones import error_of, find_instants
from promptpath.analysis.rank_test import holm, rank_sum_p, shift, smallest_p
from promptpath.analysis.scan import scan_events
from promptpath.analysis.stats import DIGITS, error_ms, median
from promptpath.analysis.summary import metrics_of
from promptpath.model.document import Run
from promptpath.model.enums import EndState, Outcome, Severity, Stage
from promptpath.model.matrix import Comparison, Difference, MatrixCell, MatrixRun
from promptpath.model.names import FAILURE
from promptpath.model.report import Report
from promptpath.model.stamp import Stamp
from promptpath.model.units import NS_PER_MS

ALPHA = 0.05
"""The chance, over all comparisons of a matrix together, to call a difference that is none: the
customary one (Fisher, "Statistical Methods for Research Workers", 1925)."""

METRICS = {
    "connect_ms": "connect",
    "headers_ms": "headers",
    "ttft_ms": "TTFT",
    "tpot_ms": "ITL mean",
    "itl_p99_ms": "ITL p99",
    "e2e_ms": "total",
}
"""What is compared, in the order of the trip. Each further one costs all the others power."""

_DIALLED = (Stage.PROXY, Stage.TCP, Stage.TLS, Stage.QUIC)
"""What a connection takes: TCP and TLS together against QUIC alone."""


def run_of(run: Run, *, round_: int, position: int) -> MatrixRun:
    """What the matrix keeps of a run."""
    reason = _reason(run)
    metrics = {} if reason else _metrics(run.report)
    return MatrixRun(
        round=round_,
        position=position,
        outcome="failed" if reason else "ok",
        reason=reason,
        until_ms=_until_ms(run) if reason else None,
        metrics=metrics,
        errors=_errors(run, metrics),
    )


def cell_of(name: str, levels: Mapping[str, str], runs: Sequence[MatrixRun]) -> MatrixCell:
    """The cell with its medians."""
    found = {metric: _values(runs, metric) for metric in METRICS}
    medians = {m: round(median(values), DIGITS) for m, values in found.items() if values}
    return MatrixCell(name=name, levels=dict(levels), runs=tuple(runs), medians=medians)


def compare(cells: Sequence[MatrixCell]) -> tuple[Comparison, ...]:
    """Every other cell against the first, in every metric both have; corrected together."""
    found = [
        _comparison(cell, cells[0], metric)
        for cell in cells[1:]
        for metric in METRICS
        if metric in cell.medians and metric in cells[0].medians
    ]
    corrected = holm([one.p for one in found])
    return tuple(
        replace(one, p_holm=p, difference=_difference(one, p, len(found)))
        for one, p in zip(found, corrected, strict=True)
    )


def sentence(cells: Sequence[MatrixCell], comparisons: Sequence[Comparison]) -> str:
    """The result in words."""
    if not any(cell.medians for cell in cells):
        tried = any(cell.runs for cell in cells)
        return "no run of any cell could be measured" if tried else "no run was complete"
    parts = [text for cell in cells[1:] if (text := _difference_text(cell, comparisons))]
    parts += [_failed_text(cell) for cell in cells if any(r.reason for r in cell.runs)]
    verdicts = {one.difference for one in comparisons}
    if verdicts == {Difference.TOO_FEW}:
        parts.append("too few runs to tell any difference: use a larger --repeat")
    elif not verdicts & {Difference.LOWER, Difference.HIGHER} and comparisons:
        parts.append(f"no difference from {cells[0].name} beyond the error")
    elif not comparisons:
        parts.append("nothing to compare")
    return "; ".join(parts)


def _difference_text(cell: MatrixCell, comparisons: Sequence[Comparison]) -> str | None:
    called = [
        f"{METRICS[one.metric]} {abs(one.shift_ms):.2f} ms {one.difference.value}"
        for one in comparisons
        if one.cell == cell.name and one.difference in (Difference.LOWER, Difference.HIGHER)
    ]
    return f"{cell.name}: {', '.join(called)}" if called else None


def _failed_text(cell: MatrixCell) -> str:
    failed = [run for run in cell.runs if run.reason]
    why = Counter(str(run.reason) for run in failed).most_common(1)[0][0]
    costs = [run.until_ms for run in failed if run.until_ms is not None]
    cost = f" after {median(costs):.2f} ms" if costs else ""
    return f"{cell.name} failed in {len(failed)} of {len(cell.runs)} runs{cost} ({why})"


def _reason(run: Run) -> str | None:
    failed = Facts(run.trace).record(FAILURE)
    if failed:
        return f"{failed.get('stage')}: {failed.get('what')}"
    errors = [f for f in run.report.findings if f.severity is Severity.ERROR]
    if errors:
        return f"{errors[0].code} {errors[0].title}"
    if run.report.end_state in (EndState.NO_RESPONSE, EndState.STOPPED_BY_US):
        return "no whole response"
    return None


def _until_ms(run: Run) -> float | None:
    """Until the stage that failed gave up; a response that is an error took as long as it took."""
    stage = Facts(run.trace).record(FAILURE).get("stage")
    ends = [
        span.end_ns
        for span in run.trace.spans
        if span.end_ns is not None and span.stage == stage and span.outcome is not Outcome.OK
    ]
    return round(max(ends) / NS_PER_MS, DIGITS) if ends else run.report.latency.e2e_ms


def _metrics(report: Report) -> dict[str, float]:
    known = metrics_of(report)
    dialled = [known[name] for s in _DIALLED if (name := f"{s.value}_ms") in known]
    if dialled:
        known["connect_ms"] = round(sum(dialled), DIGITS)
    return {name: known[name] for name in METRICS if name in known}


def _errors(run: Run, metrics: Iterable[str]) -> dict[str, float]:
    """How far each metric may be off: a connection by what its hops may be, an instant since the
    start by its own stamp; a mean over tokens by its ends, shared among them; a p99 by both ends,
    each what 99 of 100 stamps are not off by."""
    report = run.report
    instants = find_instants(run.trace, scan_events(run.trace))
    dialled = [hop.error_ms for hop in report.hops if hop.within is None and hop.stage in _DIALLED]
    first, last = _stamp_ms(instants.first_content), _stamp_ms(instants.last_token)
    tokens = (report.cadence.output_tokens if report.cadence else None) or 2
    stamps = report.instrument.error_us
    known = {
        "connect_ms": sum(dialled),
        "headers_ms": _stamp_ms(instants.headers),
        "ttft_ms": report.latency.ttft_error_ms or _stamp_ms(instants.first_visible),
        "tpot_ms": (first + last) / max(tokens - 1, 1),
        "itl_p99_ms": 2 * stamps.p99 / 1000 if stamps else first + last,
        "e2e_ms": _stamp_ms(instants.eof or instants.end_marker or instants.last_token),
    }
    return {name: round(known[name], DIGITS) for name in metrics}


def _stamp_ms(stamp: Stamp | None) -> float:
    return 0.0 if stamp is None else error_ms(error_of(stamp))


def _values(runs: Sequence[MatrixRun], metric: str) -> list[float]:
    return [run.metrics[metric] for run in runs if metric in run.metrics]


def _comparison(cell: MatrixCell, baseline: MatrixCell, metric: str) -> Comparison:
    ours, theirs = _values(cell.runs, metric), _values(baseline.runs, metric)
    errors = [
        max(run.errors[metric] for run in side.runs if metric in run.errors)
        for side in (cell, baseline)
    ]
    p = rank_sum_p(ours, theirs)
    return Comparison(
        cell=cell.name,
        metric=metric,
        runs=(len(ours), len(theirs)),
        shift_ms=round(shift(ours, theirs), DIGITS),
        error_ms=round(sum(errors), DIGITS),
        p=p,
        p_holm=p,
        difference=Difference.NONE,
    )


def _difference(one: Comparison, corrected: float, count: int) -> Difference:
    if corrected <= ALPHA and abs(one.shift_ms) > one.error_ms:
        return Difference.HIGHER if one.shift_ms > 0 else Difference.LOWER
    if count * smallest_p(*one.runs) > ALPHA:
        return Difference.TOO_FEW
    return Difference.NONE
