"""Budgets: what was promised of a path, and whether measured runs keep it.

A budget is broken only when the error bar clears it: the whole interval of what was measured lies
beyond the limit. It is kept when the whole interval lies within; else it is inconclusive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from promptpath.analysis import readings
from promptpath.analysis.buffering.judgement import BOX, UNDECIDED, Answer
from promptpath.analysis.buffering.verdict import PROVEN
from promptpath.analysis.facts import Facts, number
from promptpath.analysis.idle_pass import Pass, pass_verdict, sentence
from promptpath.analysis.rules.buffering import RULES as BUFFERING_RULES
from promptpath.model.document import Run
from promptpath.model.enums import EndState, Stage
from promptpath.model.names import HTTP_STATUS, HTTP_VERSION, STREAM_END, TLS_VERSION
from promptpath.model.redact import printable
from promptpath.model.units import Ns, format_duration, format_ms, to_ms


class BudgetName(StrEnum):
    """Every budget, by its option without the dashes."""

    MAX_HOLD = "max-hold"
    MAX_DNS = "max-dns"
    MAX_TCP = "max-tcp"
    MAX_TLS = "max-tls"
    MAX_HEADERS = "max-headers"
    MAX_TTFT = "max-ttft"
    MAX_TOTAL = "max-total"
    MAX_ITL_P95 = "max-itl-p95"
    REQUIRE_STREAMING = "require-streaming"
    REQUIRE_TERMINAL = "require-terminal"
    REQUIRE_HTTP = "require-http"
    REQUIRE_TLS = "require-tls"
    MIN_IDLE = "min-idle"


READ: dict[BudgetName, readings.Read] = {
    BudgetName.MAX_HOLD: readings.hold,
    BudgetName.MAX_DNS: readings.hop(Stage.DNS),
    BudgetName.MAX_TCP: readings.hop(Stage.TCP),
    BudgetName.MAX_TLS: readings.hop(Stage.TLS),
    BudgetName.MAX_HEADERS: readings.headers,
    BudgetName.MAX_TTFT: readings.ttft,
    BudgetName.MAX_TOTAL: readings.total,
    BudgetName.MAX_ITL_P95: readings.itl_p95,
}
"""Where the budgets of time get their values from."""

HTTP_ORDER = ("1.0", "1.1", "2", "3")
TLS_ORDER = ("1.0", "1.1", "1.2", "1.3")
_BUFFERING_CODES = frozenset(rule.code for rule in BUFFERING_RULES)
_PATH_MAY_LOOK_LIKE_IT = frozenset({Answer.TRANSPORT_CORK, Answer.THROTTLE})
"""Round trips alone may look like them: without the sender's stamps they prove nothing."""


class Keeping(StrEnum):
    """Whether a budget is kept."""

    KEPT = "kept"
    BROKEN = "broken"
    INCONCLUSIVE = "inconclusive"
    """The error bar spans the limit, or there was too little to judge by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """One promise."""

    name: BudgetName
    limit_ns: Ns | None = None
    """Of a budget of time."""
    version: str | None = None
    """Of require-http and require-tls: at least this one."""

    @property
    def text(self) -> str:
        """As it was asked for: "max-ttft 2.00 s"."""
        if self.limit_ns is not None:
            return f"{self.name.value} {format_duration(self.limit_ns)}"
        return self.name.value if self.version is None else f"{self.name.value} {self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetVerdict:
    """What became of a promise. Times are ms; None where nothing was measured or where a value
    never came."""

    budget: Budget
    keeping: Keeping
    because: tuple[str, ...]
    measured_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None


@dataclass(frozen=True, slots=True)
class _Single:
    """What one run says of a promise that is no length of time."""

    keeping: Keeping
    why: str


def judge_budget(
    budget: Budget, runs: Sequence[Run], allowed: frozenset[str] = frozenset()
) -> BudgetVerdict:
    """Whether these runs keep a budget (any but min-idle: `judge_idle`). `allowed` are the codes of
    findings that do not count. A run without an answer to judge (no response, a status of 400 or
    more) says nothing."""
    answers = [run for run in runs if (Facts(run.trace).whole(HTTP_STATUS) or 999) < 400]
    if not answers:
        return _undecided(budget, "there was no answer to judge")
    if budget.limit_ns is not None:
        return _judge_time(budget, answers, budget.limit_ns)
    if budget.name is BudgetName.REQUIRE_STREAMING:
        return _by_majority(budget, [_streams(run, allowed) for run in answers])
    check = _EXACT[budget.name]
    return _by_all(budget, [check(run, budget) for run in answers])


def _undecided(budget: Budget, why: str) -> BudgetVerdict:
    return BudgetVerdict(budget=budget, keeping=Keeping.INCONCLUSIVE, because=(printable(why),))


# -- budgets of time -------------------------------------------------------------------------------


def _judge_time(budget: Budget, runs: Sequence[Run], limit_ns: Ns) -> BudgetVerdict:
    found = [READ[budget.name](run) for run in runs]
    read = [item for item in found if isinstance(item, readings.Reading)]
    missing = [item for item in found if isinstance(item, readings.Missing)]
    if not read:
        harmless = all(item.harmless for item in missing)
        keeping = Keeping.KEPT if harmless else Keeping.INCONCLUSIVE
        because = dict.fromkeys(printable(item.why) for item in missing)
        return BudgetVerdict(budget=budget, keeping=keeping, because=tuple(because))
    value = readings.combine(read)
    limit_ms = to_ms(limit_ns)
    if value.low > limit_ms:
        keeping = Keeping.BROKEN
    else:
        keeping = Keeping.KEPT if value.high <= limit_ms else Keeping.INCONCLUSIVE
    return BudgetVerdict(
        budget=budget,
        keeping=keeping,
        because=(_interval(value, len(read)), *_hold_reasons(budget, runs, keeping)),
        measured_ms=_finite(value.value),
        low_ms=_finite(value.low),
        high_ms=_finite(value.high),
    )


def _finite(value: float) -> float | None:
    return round(value, 3) if isfinite(value) else None


def _interval(value: readings.Reading, runs: int) -> str:
    what = f"median of {runs} runs: " if runs > 1 else ""
    if not isfinite(value.value):
        least = f", at least {format_ms(value.low)}" if isfinite(value.low) else ""
        return f"{what}it never came{least}"
    high = format_ms(value.high) if isfinite(value.high) else "longer"
    return f"{what}{format_ms(value.value)}, between {format_ms(value.low)} and {high}"


def _hold_reasons(budget: Budget, runs: Sequence[Run], keeping: Keeping) -> tuple[str, ...]:
    """What held, where it was too long or is not known well enough."""
    if budget.name is not BudgetName.MAX_HOLD or keeping is Keeping.KEPT:
        return ()
    verdicts = [readings.buffering_of(run.report) for run in runs]
    return tuple(dict.fromkeys(f"buffering verdict: {v.answer}" for v in verdicts if v is not None))


# -- require-streaming -----------------------------------------------------------------------------


def _streams(run: Run, allowed: frozenset[str]) -> _Single:
    verdict = readings.buffering_of(run.report)
    if verdict is None:
        return _Single(Keeping.BROKEN, "the response is no stream")
    try:
        answer = Answer(verdict.answer)
    except ValueError:  # a newer version's word
        return _Single(Keeping.INCONCLUSIVE, printable(verdict.answer))
    reasons = [reason.text for reason in verdict.because]
    named = [] if answer is Answer.INCONCLUSIVE else [answer.value]
    why = printable("; ".join([*named, *reasons]))
    if answer in (Answer.STREAMING, Answer.SERVER_BATCH):
        return _Single(Keeping.KEPT, why)
    if answer in UNDECIDED or answer not in BOX:
        return _Single(Keeping.INCONCLUSIVE, why)
    fired = {finding.code for finding in run.report.findings} & _BUFFERING_CODES
    if fired and fired <= allowed:
        return _Single(Keeping.KEPT, f"{answer.value}; {', '.join(sorted(fired))} is allowed")
    estimate = verdict.estimate
    value, error = number(estimate.get("hold_p90_ms")), number(estimate.get("hold_error_ms"))
    tolerated = number(estimate.get("tolerated_ms")) or 0.0
    stamped = estimate.get("hold_source") == "server-stamps"
    trusted = stamped or (verdict.confidence >= PROVEN and answer not in _PATH_MAY_LOOK_LIKE_IT)
    clear = value is not None and value - (error or 0.0) > tolerated
    return _Single(Keeping.BROKEN if trusted and clear else Keeping.INCONCLUSIVE, why)


def _by_majority(budget: Budget, singles: Sequence[_Single]) -> BudgetVerdict:
    """What more than half of the runs say: each is an estimate."""
    keepings = [single.keeping for single in singles]
    most = [k for k in (Keeping.BROKEN, Keeping.KEPT) if 2 * keepings.count(k) > len(keepings)]
    return _verdict(budget, most[0] if most else Keeping.INCONCLUSIVE, singles)


# -- what is observed exactly ----------------------------------------------------------------------


def _by_all(budget: Budget, singles: Sequence[_Single]) -> BudgetVerdict:
    """One run that breaks it is enough: there is no error bar."""
    keepings = [single.keeping for single in singles]
    worst = (Keeping.BROKEN, Keeping.INCONCLUSIVE, Keeping.KEPT)
    return _verdict(budget, next(k for k in worst if k in keepings), singles)


def _verdict(budget: Budget, keeping: Keeping, singles: Sequence[_Single]) -> BudgetVerdict:
    because = []
    for why in dict.fromkeys(single.why for single in singles):
        count = sum(single.why == why for single in singles)
        because.append(why if len(singles) == 1 else f"{count} of {len(singles)} runs: {why}")
    return BudgetVerdict(budget=budget, keeping=keeping, because=tuple(because))


def _has_terminal(run: Run, budget: Budget) -> _Single:
    state = run.report.end_state
    seen = Facts(run.trace).record(STREAM_END)
    if state is EndState.STOPPED_BY_US:
        return _Single(Keeping.INCONCLUSIVE, "a limit of ours ended the stream first")
    if state not in (EndState.COMPLETE, EndState.OPEN_AFTER_MARKER):
        return _Single(Keeping.BROKEN, f"end state {state.value}")
    if seen.get("marker_expected") is not True and seen.get("marker_seen") is not True:
        return _Single(Keeping.INCONCLUSIVE, "this dialect has no terminal event")
    return _Single(Keeping.KEPT, f"end state {state.value}")


def _speaks_http(run: Run, budget: Budget) -> _Single:
    version = Facts(run.trace).text(HTTP_VERSION)
    return _at_least("HTTP", version, budget.version, HTTP_ORDER)


def _speaks_tls(run: Run, budget: Budget) -> _Single:
    version = (Facts(run.trace).text(TLS_VERSION) or "no TLS").removeprefix("TLSv")
    return _at_least("TLS", version, budget.version, TLS_ORDER)


def _at_least(what: str, had: str | None, wanted: str | None, order: Sequence[str]) -> _Single:
    if had not in order or wanted not in order:
        return _Single(Keeping.BROKEN, printable(f"{what}: {had or 'not known'}"))
    kept = order.index(had) >= order.index(wanted)
    return _Single(Keeping.KEPT if kept else Keeping.BROKEN, f"{what} {had}")


_EXACT: dict[BudgetName, Callable[[Run, Budget], _Single]] = {
    BudgetName.REQUIRE_TERMINAL: _has_terminal,
    BudgetName.REQUIRE_HTTP: _speaks_http,
    BudgetName.REQUIRE_TLS: _speaks_tls,
}


# -- min-idle --------------------------------------------------------------------------------------


def judge_idle(budget: Budget, found: Pass | None) -> BudgetVerdict:
    """Whether a stream may be silent for so long: an idle pass that sought timers up to the limit
    decides. A timer is measured in one go and to the ms, so there is no error bar; what could not
    be followed to its end leaves it inconclusive."""
    if found is None or budget.limit_ns is None:
        return _undecided(budget, "there was no idle pass")
    timers = [found.idle_ns, found.before_head_ns, found.before_first_byte_ns, found.total_ns]
    short = [timer for timer in timers if timer is not None and timer < budget.limit_ns]
    because = [printable(sentence(found))]
    if short:
        because += _suspects(found)
        keeping = Keeping.BROKEN
    elif found.answer in ("hang", "silent-drop"):
        keeping = Keeping.BROKEN
    else:
        decided = found.decided == found.streams
        keeping = Keeping.KEPT if decided else Keeping.INCONCLUSIVE
    return BudgetVerdict(
        budget=budget,
        keeping=keeping,
        because=tuple(because),
        measured_ms=to_ms(min(short)) if short else None,
    )


def _suspects(found: Pass) -> list[str]:
    """The products whose default fits, each with its cure."""
    matches = pass_verdict(found).estimate.get("matches")
    return [
        f"{match['default_s']:g} s: {match['product']}, {match['setting']}; cure: {match['cure']}"
        for match in (matches if isinstance(matches, list) else [])
    ]
