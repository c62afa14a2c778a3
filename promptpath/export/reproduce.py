"""The command that measures the same again, made from what may be written down: no secrets."""

from __future__ import annotations

import shlex

from promptpath.model.plan import (
    DEFAULT_MAX_TOKENS,
    DEFAULT_PROMPT,
    Budgets,
    Family,
    HttpChoice,
    Limits,
    PlanRecord,
)
from promptpath.model.redact import REDACTED
from promptpath.model.units import NS_PER_MS

_SENT_ANYWAY = frozenset({"accept", "content-type", "x-promptpath-timing", "anthropic-version"})
"""Headers the tool adds by itself."""


def command(plan: PlanRecord) -> str:
    """The command line, quoted for a POSIX shell."""
    words = ["promptpath", "trace", plan.url, *_dial(plan), *_prompt(plan)]
    words += _limits(plan.limits, Limits()) + _budgets(plan.budgets)
    if plan.repeat > 1:
        words += ["--repeat", str(plan.repeat)]
    if plan.warm:
        words.append("--warm")
    return " ".join(shlex.quote(word) for word in words)


def omissions(plan: PlanRecord) -> list[str]:
    """What the command leaves out because it was not kept, for the reader to add."""
    missing = []
    secret = [name for name in plan.header_names if name not in _SENT_ANYWAY]
    if secret:
        missing.append("the values of the headers " + ", ".join(secret))
    if REDACTED in plan.url:
        missing.append("the secret in the URL's query")
    if plan.method == "POST" and plan.dialect is None and plan.body_bytes:
        missing.append(f"the body of {plan.body_bytes} bytes (--data)")
    elif plan.prompt is None and plan.prompt_chars not in (0, len(DEFAULT_PROMPT)):
        missing.append(f"the prompt of {plan.prompt_chars} characters (--prompt)")
    return missing


def _dial(plan: PlanRecord) -> list[str]:
    words: list[str] = []
    if plan.http != HttpChoice.AUTO:
        words += ["--http", plan.http]
    if plan.family != Family.ANY:
        words.append("-4" if plan.family == Family.IPV4 else "-6")
    for override in plan.overrides:
        words += ["--resolve", override]
    for option, value in (
        ("--resolver", plan.resolver),
        ("--proxy", plan.proxy),
        ("--source", plan.source_address),
        ("--interface", plan.interface),
        ("--sni", plan.sni),
    ):
        if value is not None:
            words += [option, value]
    if plan.insecure:
        words.append("--insecure")
    if plan.accept_encoding != "identity":
        words += ["--accept-encoding", plan.accept_encoding]
    return words


def _prompt(plan: PlanRecord) -> list[str]:
    words: list[str] = []
    if plan.dialect is not None:
        words += ["--dialect", plan.dialect]
    if plan.model is not None:
        words += ["--model", plan.model]
    if plan.max_tokens != DEFAULT_MAX_TOKENS:
        words += ["--max-tokens", str(plan.max_tokens)]
    if plan.prompt is not None and plan.prompt != DEFAULT_PROMPT:
        words += ["--prompt", plan.prompt]
    return words


def _limits(limits: Limits, defaults: Limits) -> list[str]:
    words: list[str] = []
    for option, value, default in (
        ("--connect-timeout", limits.connect_ns, defaults.connect_ns),
        ("--first-token-timeout", limits.first_token_ns, defaults.first_token_ns),
        ("--idle-timeout", limits.idle_ns, defaults.idle_ns),
        ("--timeout", limits.total_ns, defaults.total_ns),
    ):
        if value is not None and value != default:
            words += [option, _duration(value)]
    if limits.max_bytes is not None and limits.max_bytes != defaults.max_bytes:
        words += ["--max-bytes", str(limits.max_bytes)]
    return words


def _budgets(budgets: Budgets) -> list[str]:
    words: list[str] = []
    for option, value in (
        ("--budget-ttft", budgets.ttft_ns),
        ("--budget-total", budgets.total_ns),
        ("--budget-itl-p99", budgets.itl_p99_ns),
    ):
        if value is not None:
            words += [option, _duration(value)]
    return words


def _duration(value_ns: int) -> str:
    return f"{value_ns // NS_PER_MS}ms" if value_ns % NS_PER_MS == 0 else f"{value_ns}ns"
