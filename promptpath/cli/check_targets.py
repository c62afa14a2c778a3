"""What was typed, or stands in a budget file -> the targets of a check, complete before t0."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any

from promptpath.analysis.budgets import Budget, BudgetName
from promptpath.analysis.check import Place
from promptpath.cli import check_file
from promptpath.cli.check_budgets import allowed_codes, budgets_of, check_consistent
from promptpath.cli.check_options import CheckOptions
from promptpath.cli.options import DialOptions, PromptOptions, TraceOptions
from promptpath.cli.plan_builder import Prepared, prepare
from promptpath.errors import UsageError
from promptpath.model.redact import printable, redact_url


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTarget:
    """One target, ready to be measured."""

    name: str
    ready: Prepared = field(repr=False)
    options: CheckOptions = field(repr=False)
    budgets: tuple[Budget, ...]
    allowed: frozenset[str]
    place: Place | None

    @property
    def url(self) -> str:
        """Redacted."""
        return redact_url(self.ready.plan.target.url)

    @property
    def idle_budget(self) -> Budget | None:
        """min-idle, which needs a pass of its own."""
        return next((b for b in self.budgets if b.name is BudgetName.MIN_IDLE), None)


def config_of(options: CheckOptions) -> str | None:
    """The budget file, where one is named."""
    target = options.target
    named = target is not None and "://" not in target and target.lower().endswith(".toml")
    if named and options.config is not None:
        raise UsageError("two budget files", expected="FILE.toml or --config FILE.toml, not both")
    if options.config is not None and target is not None:
        raise UsageError(
            "a URL beside a budget file", expected="one of them", hint="add a [[target]] for it"
        )
    return target if named else options.config


def targets_of(options: CheckOptions, environ: Mapping[str, str] = os.environ) -> list[CheckTarget]:
    """All targets. Raises UsageError for anything wrong in any of them; nothing is measured."""
    config = config_of(options)
    if config is None:
        return [_target(options, environ, name=None, place=None)]
    found = []
    for item in check_file.load(config):
        place = Place(config, item.line)
        try:
            merged = _merged(options, item.values)
            found.append(_target(merged, environ, name=item.name, place=place))
        except UsageError as error:
            where = f"{config}, line {item.line_of(error.what)}, target {item.name}"
            raise UsageError(
                error.what, expected=error.expected, where=printable(where), hint=error.hint
            ) from error
    return found


def _merged(options: CheckOptions, values: Mapping[str, Any]) -> CheckOptions:
    """The target's options. What the command line says beyond its defaults wins over the file."""
    typed = {item.name for item in fields(options) if getattr(options, item.name) != _default(item)}
    changes = {name: value for name, value in values.items() if name != "url" and name not in typed}
    return replace(options, target=values.get("url"), config=None, **changes)


def _default(item: Any) -> object:
    return None if item.default is MISSING else item.default


def _target(
    options: CheckOptions, environ: Mapping[str, str], *, name: str | None, place: Place | None
) -> CheckTarget:
    budgets, allowed = budgets_of(options), allowed_codes(options)
    shared = [*fields(DialOptions), *fields(PromptOptions)]
    values = {item.name: getattr(options, item.name) for item in shared}
    ready = prepare(TraceOptions(url=options.target, **values), environ)
    check_consistent(budgets, ready.plan)
    return CheckTarget(
        name=redact_url(ready.plan.target.url) if name is None else printable(name),
        ready=ready,
        options=options,
        budgets=budgets,
        allowed=allowed,
        place=place,
    )
