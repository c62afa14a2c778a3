from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.analysis.budgets import (
    READ,
    Budget,
    BudgetName,
    BudgetVerdict,
    Keeping,
    judge_budget,
    judge_idle,
)
from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.idle_pass import Pass, judge_pass
from promptpath.model.document import Run
from promptpath.model.enums import Severity, Stage
from promptpath.model.names import HTTP_VERSION
from promptpath.model.report import Evidence, Finding, Verdict
from promptpath.model.rows import Json
from promptpath.model.trace import Trace
from tests.analysis.build import PLAN, TraceBuilder, healthy, ns, opened
from tests.analysis.test_idle import survived

KEPT, BROKEN, INCONCLUSIVE = Keeping.KEPT, Keeping.BROKEN, Keeping.INCONCLUSIVE


def run_of(trace: Trace, verdict: Verdict | None = None, *codes: str) -> Run:
    report = diagnose(trace, PLAN)
    if verdict is not None:
        report = replace(report, verdicts=(verdict,))
    findings = tuple(
        Finding(code=code, severity=Severity.ERROR, title=code, because=(), advice="")
        for code in codes
    )
    return Run(trace=trace, report=replace(report, findings=findings))


def slow(wait_ms: float) -> Run:
    trace = opened().head(22).wait(wait_ms).text(12, gap_ms=10).marker().end().build()
    return run_of(trace)


def held(answer: str, **estimate: Json) -> Run:
    """A run with this buffering verdict."""
    known: dict[str, Json] = {"hold_p90_ms": 300.0, "hold_error_ms": 10.0, "tolerated_ms": 30.0}
    confidence = estimate.pop("confidence", 0.95)
    assert isinstance(confidence, float)
    verdict = Verdict(
        question="buffering",
        answer=answer,
        confidence=confidence,
        estimate={**known, **estimate},
        because=(Evidence(text="because"),),
    )
    return run_of(healthy().build(), verdict)


def time_budget(name: BudgetName, limit_ms: float) -> Budget:
    return Budget(name=name, limit_ns=ns(limit_ms))


TTFT, HOLD = BudgetName.MAX_TTFT, BudgetName.MAX_HOLD
STREAMING = Budget(name=BudgetName.REQUIRE_STREAMING)
TERMINAL = Budget(name=BudgetName.REQUIRE_TERMINAL)


@pytest.mark.parametrize("name", [name for name in BudgetName if name in READ])
def test_every_budget_of_time_is_kept_by_a_fast_trip_and_broken_by_a_slow_one(
    name: BudgetName,
) -> None:
    run = held("size-buffer")
    assert judge_budget(time_budget(name, 10_000), [run]).keeping is KEPT
    found = judge_budget(time_budget(name, 0.001), [run])
    assert found.keeping is BROKEN
    assert found.low_ms is not None and found.high_ms is not None and found.measured_ms is not None
    assert 0 < found.low_ms <= found.measured_ms <= found.high_ms


def test_a_limit_inside_the_error_bar_is_inconclusive() -> None:
    run = held("size-buffer", hold_error_ms=250.0)
    assert judge_budget(time_budget(HOLD, 100), [run]).keeping is INCONCLUSIVE
    assert judge_budget(time_budget(HOLD, 40), [run]).keeping is BROKEN
    assert judge_budget(time_budget(HOLD, 551), [run]).keeping is KEPT


def test_one_slow_run_of_five_breaks_nothing_and_proves_nothing() -> None:
    runs = [slow(100), slow(110), slow(90), slow(105), slow(5_000)]
    found = judge_budget(time_budget(TTFT, 1_000), runs)
    assert found.keeping is INCONCLUSIVE and found.because[0].startswith("median of 5 runs: ")
    assert judge_budget(time_budget(TTFT, 1_000), runs[:4]).keeping is KEPT


def test_all_slow_runs_break_it() -> None:
    found = judge_budget(time_budget(TTFT, 1_000), [slow(2_000), slow(1_500), slow(3_000)])
    assert found.keeping is BROKEN


def test_a_first_token_that_never_came_breaks_its_budget() -> None:
    run = run_of(opened().head(22).wait(50).marker().end().build())
    found = judge_budget(time_budget(TTFT, 60_000), [run])
    assert (found.keeping, found.measured_ms) == (BROKEN, None)
    assert found.because == ("it never came",)


def test_a_hop_that_is_not_there_keeps_its_budget_without_a_number() -> None:
    trace = TraceBuilder().tcp(1).request().head(1).text(3).marker().end().build()
    found = judge_budget(time_budget(BudgetName.MAX_DNS, 1), [run_of(trace)])
    assert (found.keeping, found.measured_ms) == (KEPT, None)


@pytest.mark.parametrize("status", [401, 429, 503])
def test_an_error_response_says_nothing_of_budgets(status: int) -> None:
    run = run_of(opened().head(5, status=status, framing=None).end().build())
    for budget in (time_budget(TTFT, 1), STREAMING, TERMINAL):
        assert judge_budget(budget, [run]).keeping is INCONCLUSIVE
    assert judge_budget(time_budget(TTFT, 1), [run, slow(100)]).keeping is BROKEN


def test_nobody_answered_says_nothing_of_budgets() -> None:
    run = run_of(TraceBuilder().dns(5).fails(Stage.TCP, "refused").build())
    assert judge_budget(time_budget(TTFT, 1), [run]).keeping is INCONCLUSIVE
    assert judge_budget(TERMINAL, []).keeping is INCONCLUSIVE


@pytest.mark.parametrize(
    ("run", "keeping"),
    [
        (held("streaming"), KEPT),
        (held("server-batch"), KEPT),
        (held("size-buffer"), BROKEN),
        (held("size-buffer", confidence=0.6), INCONCLUSIVE),
        (held("size-buffer", confidence=0.6, hold_source="server-stamps"), BROKEN),
        (held("size-buffer", hold_error_ms=280.0), INCONCLUSIVE),
        (held("transport-cork"), INCONCLUSIVE),
        (held("transport-cork", hold_source="server-stamps"), BROKEN),
        (held("paced-batch"), INCONCLUSIVE),
        (held("inconclusive"), INCONCLUSIVE),
        (held("loss"), INCONCLUSIVE),
        (held("client-lag"), INCONCLUSIVE),
        (held("a-word-of-tomorrow"), INCONCLUSIVE),
        (run_of(opened().head(22, framing=None).end().build()), BROKEN),
    ],
)
def test_require_streaming_follows_the_verdict_where_the_hold_clears_its_error(
    run: Run, keeping: Keeping
) -> None:
    assert judge_budget(STREAMING, [run]).keeping is keeping


def test_of_several_estimates_more_than_half_decide() -> None:
    good, bad, open_ = held("streaming"), held("size-buffer"), held("inconclusive")
    assert judge_budget(STREAMING, [good, good, bad]).keeping is KEPT
    assert judge_budget(STREAMING, [good, bad, bad]).keeping is BROKEN
    assert judge_budget(STREAMING, [good, bad]).keeping is INCONCLUSIVE
    found = judge_budget(STREAMING, [good, bad, open_])
    assert found.keeping is INCONCLUSIVE and found.because[0].startswith("1 of 3 runs: ")


def test_an_allowed_buffering_finding_counts_as_streaming() -> None:
    run = held("size-buffer")
    run = replace(
        run, report=replace(run.report, findings=run_of(run.trace, None, "PP412").report.findings)
    )
    assert judge_budget(STREAMING, [run], frozenset({"PP412"})).keeping is KEPT
    assert judge_budget(STREAMING, [run], frozenset({"PP411"})).keeping is BROKEN


def test_require_terminal_needs_the_terminal_event_in_every_run() -> None:
    good = run_of(healthy().build())
    cut = opened().head(22).text(12).end(complete=False, how="rst", marker_seen=False).build()
    clean = opened().head(22).text(12).end(marker_seen=False).build()
    assert judge_budget(TERMINAL, [good]).keeping is KEPT
    for trace in (cut, clean):
        assert judge_budget(TERMINAL, [good, good, run_of(trace)]).keeping is BROKEN


def test_a_dialect_without_a_terminal_event_cannot_prove_one() -> None:
    trace = opened().head(22).text(12).end(marker_seen=False, marker_expected=False).build()
    assert judge_budget(TERMINAL, [run_of(trace)]).keeping is INCONCLUSIVE


def test_our_own_limit_proves_nothing_of_the_terminal_event() -> None:
    trace = opened().head(22).text(12).limit("timeout", 1).build()
    assert judge_budget(TERMINAL, [run_of(trace)]).keeping is INCONCLUSIVE


@pytest.mark.parametrize(
    ("had", "wanted", "keeping"),
    [("2", "2", KEPT), ("2", "1.1", KEPT), ("1.1", "2", BROKEN), ("1.0", "1.1", BROKEN)],
)
def test_require_http_is_at_least(had: str, wanted: str, keeping: Keeping) -> None:
    run = run_of(healthy().fact(HTTP_VERSION, had).build())
    budget = Budget(name=BudgetName.REQUIRE_HTTP, version=wanted)
    assert judge_budget(budget, [run]).keeping is keeping


@pytest.mark.parametrize(("wanted", "keeping"), [("1.3", BROKEN), ("1.2", KEPT)])
def test_require_tls_is_at_least(wanted: str, keeping: Keeping) -> None:
    trace = TraceBuilder().tcp(1).tls(1, version="TLSv1.2").request().head(1).text(9).end().build()
    budget = Budget(name=BudgetName.REQUIRE_TLS, version=wanted)
    assert judge_budget(budget, [run_of(trace)]).keeping is keeping


def test_no_tls_at_all_breaks_require_tls() -> None:
    trace = TraceBuilder().tcp(1).request().head(1).text(9).end().build()
    budget = Budget(name=BudgetName.REQUIRE_TLS, version="1.2")
    assert judge_budget(budget, [run_of(trace)]).keeping is BROKEN


def nothing_found() -> Pass:
    """A pass that sought timers up to 75 s in vain."""
    found = judge_pass([survived().fate(), survived(keepalive="comment").fate()])
    assert found is not None and found.answer == "none-found"
    return found


NOTHING_FOUND = nothing_found()


def idle(found: Pass | None) -> BudgetVerdict:
    return judge_idle(time_budget(BudgetName.MIN_IDLE, 75_000), found)


def test_min_idle_is_kept_where_nobody_ends_a_silent_stream() -> None:
    assert idle(NOTHING_FOUND).keeping is KEPT


def test_a_shorter_timer_breaks_min_idle_and_names_products_and_cures() -> None:
    found = idle(replace(NOTHING_FOUND, idle_ns=ns(60_010)))
    assert (found.keeping, found.measured_ms) == (BROKEN, 60_010)
    assert any("nginx" in line and "cure: " in line for line in found.because)


def test_a_timer_beyond_the_limit_and_one_of_idle_connections_keep_it() -> None:
    assert idle(replace(NOTHING_FOUND, idle_ns=ns(75_500))).keeping is KEPT
    assert idle(replace(NOTHING_FOUND, kept_ns=ns(5_000))).keeping is KEPT


def test_a_total_timer_and_a_hang_break_min_idle() -> None:
    assert idle(replace(NOTHING_FOUND, total_ns=ns(30_000))).keeping is BROKEN
    assert idle(replace(NOTHING_FOUND, hangs=True, decided=1)).keeping is BROKEN
    assert idle(replace(NOTHING_FOUND, drops=True, decided=1)).keeping is BROKEN


def test_streams_that_could_not_be_followed_leave_min_idle_open() -> None:
    assert idle(replace(NOTHING_FOUND, decided=1)).keeping is INCONCLUSIVE
    assert idle(None).keeping is INCONCLUSIVE
