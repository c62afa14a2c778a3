"""`promptpath rule [CODE]`: what a finding's code means; without a code, the table of all."""

from __future__ import annotations

import textwrap

from promptpath.analysis.rules import RULES, by_code
from promptpath.analysis.rules.base import Rule
from promptpath.cli.options import RuleOptions
from promptpath.cli.show import PLAIN_WIDTH, write_bytes, write_text
from promptpath.errors import UsageError
from promptpath.model.codec import encode


def run(options: RuleOptions) -> int:
    """Print one rule or the table of all."""
    if options.code is None:
        rules = sorted(RULES, key=lambda rule: rule.code)
        if options.json:
            write_bytes([encode([_as_json(rule) for rule in rules]), b"\n"])
        else:
            write_text("".join(f"{r.code}  {r.severity.value:<8} {r.title}\n" for r in rules))
        return 0
    rule = by_code(options.code)
    if rule is None:
        raise UsageError(
            f"no rule is called {options.code!r}",
            expected="a code such as PP401",
            hint="promptpath rule lists them all",
        )
    if options.json:
        write_bytes([encode(_as_json(rule)), b"\n"])
    else:
        write_text(page(rule))
    return 0


def page(rule: Rule) -> str:
    """One rule as plain text, 80 columns wide."""
    sections = (
        ("asks", rule.asks),
        ("decided", rule.decided),
        ("advice", rule.advice),
        ("is not", rule.is_not),
    )
    lines = [f"{rule.code} ({rule.severity.value}) {rule.title}"]
    for label, text in sections:
        lines.append("")
        lines += textwrap.wrap(
            " ".join(text.split()),
            PLAIN_WIDTH,
            initial_indent=f"{label:<10}",
            subsequent_indent=" " * 10,
        )
    return "\n".join(lines) + "\n"


def _as_json(rule: Rule) -> dict[str, str]:
    return {
        "code": rule.code,
        "severity": rule.severity.value,
        "title": rule.title,
        "asks": rule.asks,
        "decided": rule.decided,
        "advice": rule.advice,
        "is_not": rule.is_not,
    }
