"""Budget options -> budgets; what contradicts itself is found before t0."""

from __future__ import annotations

from promptpath.analysis.budgets import HTTP_ORDER, TLS_ORDER, Budget, BudgetName
from promptpath.analysis.rules import by_code
from promptpath.cli.check_options import BudgetOptions
from promptpath.cli.idle import LONGEST_NS
from promptpath.errors import UsageError
from promptpath.model.plan import HttpChoice, Plan
from promptpath.model.units import NS_PER_S, Ns, format_duration, parse_duration_ns
from promptpath.probe.idle import SHORTEST_NS

_INSIDE: tuple[tuple[BudgetName, BudgetName], ...] = (
    (BudgetName.MAX_DNS, BudgetName.MAX_HEADERS),
    (BudgetName.MAX_TCP, BudgetName.MAX_HEADERS),
    (BudgetName.MAX_TLS, BudgetName.MAX_HEADERS),
    (BudgetName.MAX_DNS, BudgetName.MAX_TTFT),
    (BudgetName.MAX_TCP, BudgetName.MAX_TTFT),
    (BudgetName.MAX_TLS, BudgetName.MAX_TTFT),
    (BudgetName.MAX_HEADERS, BudgetName.MAX_TTFT),
    (BudgetName.MAX_HEADERS, BudgetName.MAX_TOTAL),
    (BudgetName.MAX_TTFT, BudgetName.MAX_TOTAL),
)
"""The first is a part of the second: it cannot be allowed to take longer."""


def budgets_of(options: BudgetOptions) -> tuple[Budget, ...]:
    """The budgets that were given, in the order of the trip. Raises UsageError."""
    found = []
    for name in BudgetName:
        value = getattr(options, name.value.replace("-", "_"))
        if value is None or value is False:
            continue
        if value is True:
            found.append(Budget(name=name))
        elif name in (BudgetName.REQUIRE_HTTP, BudgetName.REQUIRE_TLS):
            found.append(Budget(name=name, version=_version(name, value)))
        else:
            found.append(Budget(name=name, limit_ns=_time(name, value)))
    return tuple(found)


def allowed_codes(options: BudgetOptions) -> frozenset[str]:
    """The codes of --allow. Raises UsageError for one that no rule has."""
    codes = set()
    for text in options.allow or []:
        rule = by_code(text)
        if rule is None:
            raise UsageError(
                f"--allow: no rule is called {text!r}",
                expected="a code such as PP412",
                hint="promptpath rule lists them all",
            )
        codes.add(rule.code)
    return frozenset(codes)


def _version(name: BudgetName, text: str) -> str:
    order = HTTP_ORDER[1:3] if name is BudgetName.REQUIRE_HTTP else TLS_ORDER[2:]
    version = text.strip().removesuffix(".0") if name is BudgetName.REQUIRE_HTTP else text.strip()
    if version not in order:
        raise UsageError(f"unknown --{name.value} {text!r}", expected=" or ".join(order))
    return version


def _time(name: BudgetName, text: str) -> Ns:
    try:
        limit_ns = parse_duration_ns(text)
    except UsageError as error:
        raise UsageError(
            f"--{name.value}: {error.what}", expected=error.expected, hint=error.hint
        ) from error
    if name is BudgetName.MIN_IDLE and not SHORTEST_NS <= limit_ns <= LONGEST_NS:
        raise UsageError(
            f"--{name.value} {text} is out of range",
            expected=f"{SHORTEST_NS // NS_PER_S}s to {LONGEST_NS // NS_PER_S}s",
        )
    return limit_ns


def check_consistent(budgets: tuple[Budget, ...], plan: Plan) -> None:
    """Raises UsageError for budgets that contradict one another or the plan."""
    limits = {b.name: b.limit_ns for b in budgets if b.limit_ns is not None}
    versions = {b.name: b.version for b in budgets if b.version is not None}
    for part, whole in _INSIDE:
        if part in limits and whole in limits and limits[part] > limits[whole]:
            raise _contradiction(
                f"--{part.value} {format_duration(limits[part])}",
                f"--{whole.value} {format_duration(limits[whole])}",
                f"--{part.value} within --{whole.value}, of which it is a part",
            )
    for name in (BudgetName.MAX_TTFT, BudgetName.MAX_TOTAL):
        timeout_ns = plan.limits.total_ns
        if name in limits and timeout_ns is not None and limits[name] > timeout_ns:
            raise _contradiction(
                f"--{name.value} {format_duration(limits[name])}",
                f"--timeout {format_duration(timeout_ns)}",
                "a time limit beyond the budget",
            )
    if versions.get(BudgetName.REQUIRE_HTTP) == "2" and plan.http is HttpChoice.H1:
        raise _contradiction("--require-http 2", "--http 1.1", "--http auto or 2")
    if plan.target.scheme == "http":
        for name in (BudgetName.REQUIRE_TLS, BudgetName.MAX_TLS):
            if name in limits or name in versions:
                raise _contradiction(f"--{name.value}", "an http URL", "an https URL")


def _contradiction(one: str, other: str, expected: str) -> UsageError:
    return UsageError(f"{one} contradicts {other}", expected=expected)
