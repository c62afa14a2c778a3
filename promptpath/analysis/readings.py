"""A run's value for each time budget, as an interval: what was measured and how far it may be off.

All values are ms, as in the report. A value that never came is infinite; a value that a run does
not have is `Missing`, with the reason.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb, floor, inf, sqrt

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.buffering.verdict import PROVEN, QUESTION
from promptpath.analysis.cadence import MIN_GAPS, itl_ns
from promptpath.analysis.facts import number
from promptpath.analysis.scan import scan_events
from promptpath.analysis.stats import ascending, median, quantile
from promptpath.model.document import Run
from promptpath.model.enums import EndState, Stage
from promptpath.model.names import MARK_HEAD
from promptpath.model.report import Report, Verdict
from promptpath.model.units import NS_PER_MS, NS_PER_US

SURE = 0.05
"""How often the true value may lie outside a limit by chance: the usual one in twenty."""
_ONE_SIDED = 1.645
"""The normal distribution's 95 % point, one-sided: `SURE` for a long stream's quantile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A value and the interval it lies in; infinite where it never came."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Missing:
    """Why a run has no value."""

    why: str
    harmless: bool = False
    """There was nothing to spend time on."""


Found = Reading | Missing
Read = Callable[[Run], Found]


def around(value: float, error: float) -> Reading:
    """A value with its error; times are never below zero."""
    return Reading(value=value, low=max(0.0, value - error), high=value + error)


def combine(readings: Sequence[Reading]) -> Reading:
    """The median of several runs with its confidence interval by order statistics, which needs no
    assumption about how times are distributed (Conover, Practical Nonparametric Statistics, 3.2).

    Of one to seven runs the interval is all of them: one run over a budget is then not enough, and
    one below it neither. Raises ValueError without readings.
    """
    rank = outer_rank(len(readings))
    lows = sorted(reading.low for reading in readings)
    highs = sorted(reading.high for reading in readings)
    values = sorted(reading.value for reading in readings)
    # The mean of the two middle ones is not a number when one of them is infinite.
    middle = values[len(values) // 2] if inf in values else median(values)
    return Reading(value=middle, low=lows[rank - 1], high=highs[-rank])


def outer_rank(runs: int) -> int:
    """The largest rank (from 1) whose value lies above the true median with a probability of
    `SURE` at most, so many fair coins showing fewer heads; 1 where no rank does."""
    rank, below = 1, 1
    while True:
        below += comb(runs, rank)
        if below > SURE * 2**runs:
            return rank
        rank += 1


# -- from t0 ---------------------------------------------------------------------------------------


def headers(run: Run) -> Found:
    """t0 to the response head."""
    value = run.report.latency.headers_ms
    mark = next(reversed(list(run.trace.marks_of(MARK_HEAD))), None)
    if value is None or mark is None:
        return Missing("no response head came")
    return around(value, max(mark.at_ns - mark.lo_ns, mark.hi_ns - mark.at_ns) / NS_PER_MS)


def ttft(run: Run) -> Found:
    """t0 to the first visible text; infinite when it never came."""
    latency = run.report.latency
    if latency.ttft_ms is not None:
        return around(latency.ttft_ms, latency.ttft_error_ms or 0.0)
    stopped = run.report.end_state is EndState.STOPPED_BY_US
    return Reading(value=inf, low=latency.e2e_ms if stopped else inf, high=inf)


def total(run: Run) -> Found:
    """t0 to the end of the response; where a limit of ours ended it, at least so long."""
    took_ms = run.report.latency.e2e_ms
    if run.report.end_state is EndState.STOPPED_BY_US:
        return Reading(value=took_ms, low=took_ms, high=inf)
    errors = [hop.error_ms for hop in run.report.hops if hop.within is None]
    return around(took_ms, errors[-1] if errors else 0.0)


def hop(*stages: Stage) -> Read:
    """What these top-level hops took together."""

    def read(run: Run) -> Found:
        hops = [h for h in run.report.hops if h.within is None and h.stage in stages]
        if not hops:
            return Missing(f"no {stages[0].value} hop in this trip: no time went there", True)
        return around(sum(h.duration_ms for h in hops), sum(h.error_ms for h in hops))

    return read


# -- the stream ------------------------------------------------------------------------------------


def itl_p95(run: Run) -> Found:
    """The p95 time per token. Its lower limit is the order statistic that the true p95 exceeds with
    95 % (Conover, 3.2): one odd gap of a short stream breaks no budget."""
    values = ascending(itl_ns(scan_events(run.trace).content))
    if len(values) < MIN_GAPS:
        return Missing(
            f"{len(values)} gaps between tokens, {MIN_GAPS} are needed: raise --max-tokens"
        )
    error = 2 * _stamp_error_ms(run.report)
    value = quantile(values, 0.95) / NS_PER_MS
    low = _sure_below(values, 0.95) / NS_PER_MS
    return Reading(value=value, low=max(0.0, low - error), high=value + error)


def _sure_below(ordered: array[int] | array[float], share: float) -> float:
    count = len(ordered)
    rank = floor(count * share - _ONE_SIDED * sqrt(count * share * (1 - share)))
    return ordered[max(rank, 1) - 1]


def _stamp_error_ms(report: Report) -> float:
    errors = report.instrument.error_us
    return 0.0 if errors is None else errors.p99 * NS_PER_US / NS_PER_MS


def buffering_of(report: Report) -> Verdict | None:
    """The buffering verdict."""
    return next((verdict for verdict in report.verdicts if verdict.question == QUESTION), None)


def hold(run: Run) -> Found:
    """What a tenth of the events were held, or longer. A trusted "streaming" bounds it: more than
    is tolerated was not held."""
    verdict = buffering_of(run.report)
    if verdict is None:
        return Missing("the response is no stream")
    value = number(verdict.estimate.get("hold_p90_ms"))
    error = number(verdict.estimate.get("hold_error_ms"))
    if value is None or error is None:
        return Missing("; ".join(reason.text for reason in verdict.because))
    found = around(value, error)
    tolerated = number(verdict.estimate.get("tolerated_ms"))
    trusted = verdict.answer == Answer.STREAMING and verdict.confidence >= PROVEN
    if trusted and tolerated is not None:
        return Reading(value=value, low=found.low, high=min(found.high, max(value, tolerated)))
    return found
