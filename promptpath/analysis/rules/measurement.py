"""PP9xx: the measurement itself, and the promises it is held against."""

from __future__ import annotations

from math import sqrt

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.cadence import MIN_GAPS
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.view import Measured
from promptpath.model.enums import Clock, Severity
from promptpath.model.names import LIMIT
from promptpath.model.units import NS_PER_MS, NS_PER_US, Ns, format_duration

CERTIFIED_SHARE = 0.9
"""The bar this tool holds itself to at 5 ms spacing with a CPU hog beside it: 90 % certified."""
ONE_IN_A_HUNDRED = 2.326
"""The normal distribution's 99 % point: a share of few events must lie that many standard errors
below the bar, sqrt(p (1 - p) / n) each, before it says anything of the instrument."""
TRUSTED_SHARE = 0.25
"""A stamp error beyond a quarter of the usual gap blurs the rhythm: two stamps make one gap, so
half of the gap is then error."""


def _user_clock(measured: Measured) -> Because:
    scan = measured.scan
    clock = measured.trace.clock
    if clock.source is Clock.USER:
        return because("no kernel receive stamps on this machine: times are read after the fact")
    late = scan.events - scan.kernel
    if scan.events and late:
        return because(f"{late} of {scan.events} events carry no kernel stamp")
    return NO


def _uncertified(measured: Measured) -> Because:
    """Of events with content only: the last token, the finish, the usage and the end marker leave
    the server together and come in one read."""
    count = len(measured.scan.content)
    if count <= MIN_GAPS or measured.trace.clock.source is Clock.USER:
        return NO
    share = measured.scan.exact_content / count
    chance = ONE_IN_A_HUNDRED * sqrt(CERTIFIED_SHARE * (1 - CERTIFIED_SHARE) / count)
    if share >= CERTIFIED_SHARE - chance:
        return NO
    return because(f"{100 * share:.0f} % of {count} events with content have a certified stamp")


def _clock_step(measured: Measured) -> Because:
    steps = measured.trace.clock.steps
    if not steps:
        return NO
    largest = max(steps, key=lambda step: abs(step.step_ns))
    return because(f"the wall clock jumped {len(steps)} times, by up to {_signed(largest.step_ns)}")


def _signed(step_ns: Ns) -> str:
    return format_duration(abs(step_ns)) + (" back" if step_ns < 0 else " ahead")


def _blurred(measured: Measured) -> Because:
    rhythm, errors = measured.rhythm, measured.instrument.error_us
    usual = rhythm.median_gap_ns if rhythm else None
    if rhythm is None or len(rhythm.gaps) < MIN_GAPS or not usual or not errors:
        return NO
    half = errors.p50 * NS_PER_US
    if half <= TRUSTED_SHARE * usual:
        return NO
    return because(
        f"the stamps' median error is {format_duration(round(half))},"
        f" the usual gap {format_duration(usual)}"
    )


def _over(name: str, took: Ns | None, error: Ns, budget: Ns | None) -> Because:
    """Broken even if the error is deducted."""
    if took is None or budget is None or took - error <= budget:
        return NO
    return because(f"{name} was {format_duration(took)}, the budget is {format_duration(budget)}")


def _budget_ttft(measured: Measured) -> Because:
    budget = measured.plan.budgets.ttft_ns
    if budget is not None and measured.ttft_ns is None and measured.status is not None:
        return because(f"no visible text came, the budget is {format_duration(budget)}")
    error = measured.ttft_error_ns or 0
    return _over("time to the first token", measured.ttft_ns, error, budget)


def _budget_total(measured: Measured) -> Because:
    breakdown = measured.breakdown
    error = breakdown.legs[-1].error_ns if breakdown.legs else 0
    return _over("the whole trip", breakdown.e2e_ns, error, measured.plan.budgets.total_ns)


def _budget_itl(measured: Measured) -> Because:
    budget, rhythm = measured.plan.budgets.itl_p99_ns, measured.rhythm
    itl = rhythm.cadence.itl_ms if rhythm else None
    if itl is None:
        return NO
    error = (measured.instrument.error_us.p99 if measured.instrument.error_us else 0) * NS_PER_US
    return _over("the p99 time per token", round(itl.p99 * NS_PER_MS), round(2 * error), budget)


def _limit(measured: Measured) -> Because:
    name = measured.limit
    if name is None or name == "interrupt":
        return NO
    value = measured.facts.record(LIMIT).get("value")
    shown = ""
    if isinstance(value, int):
        shown = f" ({value} bytes)" if name == "max-bytes" else f" ({format_duration(value)})"
    return because(f"--{name} was reached{shown}", facts=(LIMIT,))


def _interrupted(measured: Measured) -> Because:
    if measured.limit != "interrupt":
        return NO
    return because("the run was interrupted; what was measured until then is kept", facts=(LIMIT,))


def _read_late(measured: Measured) -> Because:
    judgement = measured.buffering
    late = judgement is not None and judgement.answer is Answer.CLIENT_LAG
    return judgement.because if judgement is not None and late else NO


RULES = (
    Rule(
        code="PP901",
        title="Events carry no kernel stamp",
        severity=Severity.WARNING,
        asks="How far may these times be off?",
        decided="Events without a kernel receive stamp. Measured: user time lies 0.04 to 0.18 ms"
        " behind the kernel's at the median of an idle machine, tens of ms under load.",
        advice="See promptpath doctor; measure from Linux where there are no kernel stamps. Single"
        " events without one only carry a wider error.",
        is_not="Not wrong, only later than the truth.",
        condition=_user_clock,
    ),
    Rule(
        code="PP902",
        title="Few stamps are certified",
        severity=Severity.INFO,
        asks="Did segments arrive together, or were they read late?",
        decided="Less than 90 % of the events with content came in a read of exactly one segment:"
        " the bar this tool meets at 5 ms spacing with a CPU hog beside it. Of n events the share"
        " must lie 2.326 sqrt(0.09 / n) below it, which chance alone does once in a hundred, and"
        " there must be 9 of them (a rhythm needs 8 gaps).",
        advice="Expected above 200 events a second and behind boxes that send bursts. Otherwise"
        " free the CPU.",
        is_not="Not wrong times: uncertified ones carry their interval.",
        condition=_uncertified,
    ),
    Rule(
        code="PP903",
        title="The wall clock was stepped during the run",
        severity=Severity.INFO,
        asks="Can kernel stamps be trusted across the step?",
        decided="The offset between CLOCK_REALTIME and CLOCK_MONOTONIC jumped. Stamps across it"
        " are widened.",
        advice="None: durations are monotonic. Let the time daemon slew instead of step.",
        is_not="Not a jump of the measured times.",
        condition=_clock_step,
    ),
    Rule(
        code="PP904",
        title="The stamps are too coarse for this rhythm",
        severity=Severity.WARNING,
        asks="Is what looks like the stream's unevenness our own lateness?",
        decided="The median error of the events' stamps exceeds a quarter of the usual gap: a gap"
        " has two stamps, so half of it is then error, for half of the events. Needs 8 gaps.",
        advice="Free the CPU, or measure from a quieter machine; do not read gaps of this run"
        " one by one.",
        is_not="Not the server's or the path's doing.",
        condition=_blurred,
    ),
    Rule(
        code="PP905",
        title="The budget for the first token is broken",
        severity=Severity.ERROR,
        asks="Is --budget-ttft kept?",
        decided="Time to the first visible token, less its error, exceeds the budget; or none"
        " came.",
        advice="See the hops, and the sentence at the end: where the time went.",
        is_not="Not a time limit: the run went on.",
        condition=_budget_ttft,
    ),
    Rule(
        code="PP906",
        title="The budget for the whole trip is broken",
        severity=Severity.ERROR,
        asks="Is --budget-total kept?",
        decided="t0 to the end of the response, less its error, exceeds the budget.",
        advice="See the hops, and the sentence at the end: where the time went.",
        is_not="Not a time limit: the run went on.",
        condition=_budget_total,
    ),
    Rule(
        code="PP907",
        title="The budget for time per token is broken",
        severity=Severity.ERROR,
        asks="Is --budget-itl-p99 kept?",
        decided="The p99 of gap over tokens, less twice the stamps' p99 error, exceeds the budget.",
        advice="See the rhythm of the stream, and the sentence at the end: where the time went.",
        is_not="Not a time limit: the run went on.",
        condition=_budget_itl,
    ),
    Rule(
        code="PP908",
        title="A limit of ours ended the run",
        severity=Severity.ERROR,
        asks="Is the answer incomplete because we stopped?",
        decided="--connect-timeout, --first-token-timeout, --idle-timeout, --timeout or"
        " --max-bytes was reached. A limit is what the user calls too long, so reaching it is an"
        " error.",
        advice="See the last hop; raise the limit if the wait was meant to be allowed.",
        is_not="Not a cut by the far side.",
        condition=_limit,
    ),
    Rule(
        code="PP909",
        title="The run was interrupted",
        severity=Severity.INFO,
        asks="Is the record incomplete?",
        decided="Ctrl-C.",
        advice="Run again for the rest.",
        is_not="Not a failure.",
        condition=_interrupted,
    ),
    Rule(
        code="PP910",
        title="This machine read the stream late",
        severity=Severity.WARNING,
        asks="Are gaps of the stream our own doing?",
        decided="Most events of the bursts came in TCP segments of their own and waited together in"
        " this machine's socket: the buffering verdict is client-lag. No threshold beside its.",
        advice="Run on an idle machine, with nothing heavy beside the measurement.",
        is_not="Not a box: it would have sent them in shared segments.",
        condition=_read_late,
    ),
)
