from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.analysis.budgets import Budget, BudgetName
from promptpath.cli.check_budgets import allowed_codes, budgets_of, check_consistent
from promptpath.cli.check_options import BudgetOptions
from promptpath.errors import UsageError
from promptpath.model.plan import HttpChoice, Limits, Plan, Target
from promptpath.model.units import NS_PER_S

PLAN = Plan(target=Target(scheme="https", host="llm.example", port=443, path="/"))
CLEAR = Plan(target=Target(scheme="http", host="llm.example", port=80, path="/"))


def test_options_are_budgets_in_the_order_of_the_trip() -> None:
    options = BudgetOptions(
        max_ttft="2s", max_dns="50ms", require_streaming=True, require_http="2.0", min_idle="2m"
    )
    assert budgets_of(options) == (
        Budget(name=BudgetName.MAX_DNS, limit_ns=50_000_000),
        Budget(name=BudgetName.MAX_TTFT, limit_ns=2 * NS_PER_S),
        Budget(name=BudgetName.REQUIRE_STREAMING),
        Budget(name=BudgetName.REQUIRE_HTTP, version="2"),
        Budget(name=BudgetName.MIN_IDLE, limit_ns=120 * NS_PER_S),
    )
    assert budgets_of(BudgetOptions()) == ()


def test_every_budget_has_an_option() -> None:
    for name in BudgetName:
        assert hasattr(BudgetOptions(), name.value.replace("-", "_"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (BudgetOptions(max_ttft="2 parsecs"), "--max-ttft: not a duration: '2 parsecs'"),
        (BudgetOptions(max_hold="0"), "--max-hold: not a duration: '0'"),
        (BudgetOptions(require_http="3"), "unknown --require-http '3'"),
        (BudgetOptions(require_tls="1.1"), "unknown --require-tls '1.1'"),
        (BudgetOptions(min_idle="1s"), "--min-idle 1s is out of range"),
        (BudgetOptions(min_idle="2h"), "--min-idle 2h is out of range"),
    ],
)
def test_a_bad_value_is_named_with_its_option(options: BudgetOptions, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        budgets_of(options)
    assert caught.value.what == what and caught.value.expected


def test_an_unknown_code_cannot_be_allowed() -> None:
    assert allowed_codes(BudgetOptions(allow=["pp412", "PP401"])) == {"PP412", "PP401"}
    with pytest.raises(UsageError, match="no rule is called 'PP999'"):
        allowed_codes(BudgetOptions(allow=["PP999"]))


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        (BudgetOptions(max_ttft="3s", max_total="2s"), PLAN),
        (BudgetOptions(max_headers="3s", max_ttft="2s"), PLAN),
        (BudgetOptions(max_tls="3s", max_ttft="2s"), PLAN),
        (BudgetOptions(max_total="9m"), PLAN),
        (BudgetOptions(max_ttft="9s"), replace(PLAN, limits=Limits(total_ns=5 * NS_PER_S))),
        (BudgetOptions(require_http="2"), replace(PLAN, http=HttpChoice.H1)),
        (BudgetOptions(require_tls="1.3"), CLEAR),
        (BudgetOptions(max_tls="1s"), CLEAR),
    ],
)
def test_contradictions_are_refused(options: BudgetOptions, plan: Plan) -> None:
    with pytest.raises(UsageError, match="contradicts"):
        check_consistent(budgets_of(options), plan)


def test_what_fits_together_is_accepted() -> None:
    options = BudgetOptions(
        max_dns="1s", max_headers="1s", max_ttft="2s", max_total="2s", require_http="1.1"
    )
    check_consistent(budgets_of(options), replace(PLAN, http=HttpChoice.H1))
