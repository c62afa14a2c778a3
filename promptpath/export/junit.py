"""A check as JUnit XML, which every CI system reads: a test suite a target, a test case a budget
and a failing finding. A target that is down is an error, not a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement, tostring

from promptpath.analysis.budgets import BudgetVerdict, Keeping
from promptpath.analysis.check import CheckResult, SeenFinding, TargetResult
from promptpath.export.check_words import (
    ERROR_FAMILY,
    budget_reasons,
    finding_reasons,
    finding_title,
)
from promptpath.model.redact import printable
from promptpath.model.units import NS_PER_MS, NS_PER_S

_ILLEGAL = re.compile(r"[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What no XML 1.0 document may hold (W3C XML 1.0, 2.2), escaped or not."""


def write(result: CheckResult) -> Iterator[bytes]:
    """The document, UTF-8."""
    suites = [_suite(target) for target in result.targets]
    root = Element("testsuites", {"name": "promptpath check", **_counts(suites)})
    root.extend(suites)
    yield b"<?xml version='1.0' encoding='utf-8'?>\n"
    yield tostring(root, encoding="utf-8", xml_declaration=False) + b"\n"


def legal(text: str) -> str:
    """The text, printable, with what XML cannot hold as \\uNNNN."""
    lines = "\n".join(printable(line) for line in text.split("\n"))
    return _ILLEGAL.sub(lambda match: f"\\u{ord(match[0]):04x}", lines)


def _counts(suites: list[Element]) -> dict[str, str]:
    names = ("tests", "failures", "errors", "skipped")
    return {name: str(sum(int(suite.get(name, "0")) for suite in suites)) for name in names}


def _suite(target: TargetResult) -> Element:
    suite = Element("testsuite", {"name": legal(target.name)})
    _measured(suite, target)
    for verdict in target.budgets:
        _budget(suite, target, verdict)
    for seen in target.findings:
        if seen.fails:
            _finding(suite, target, seen)
    cases = list(suite)
    suite.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{_seconds(target):.3f}")
    return suite


def _seconds(target: TargetResult) -> float:
    """What the runs took together."""
    runs = target.document.runs if target.document is not None else ()
    return sum(run.report.latency.e2e_ms for run in runs) * NS_PER_MS / NS_PER_S


def _case(suite: Element, target: TargetResult, name: str) -> Element:
    names = {"classname": legal(f"promptpath.{target.name}"), "name": legal(name)}
    return SubElement(suite, "testcase", names)


def _measured(suite: Element, target: TargetResult) -> None:
    """The target answers at all."""
    case = _case(suite, target, "measured")
    if target.problem:
        _result(case, "error", ERROR_FAMILY, target.problem[0], list(target.problem))
    elif target.interrupted:
        _result(case, "skipped", None, "interrupted", [])


def _budget(suite: Element, target: TargetResult, verdict: BudgetVerdict) -> None:
    case = _case(suite, target, verdict.budget.text)
    lines = budget_reasons(verdict)
    message = "; ".join([verdict.keeping.value, *lines])
    unmeasured = bool(target.problem) and verdict.keeping is Keeping.INCONCLUSIVE
    if target.fails(verdict) and not unmeasured:
        _result(case, "failure", verdict.keeping.value, message, lines)
    elif verdict.keeping is Keeping.INCONCLUSIVE:
        _result(case, "skipped", None, message, [])
    else:
        SubElement(case, "system-out").text = legal("\n".join(lines))


def _finding(suite: Element, target: TargetResult, seen: SeenFinding) -> None:
    lines = finding_reasons(seen)
    case = _case(suite, target, finding_title(seen))
    _result(case, "failure", seen.finding.code, seen.finding.title, lines)


def _result(case: Element, tag: str, kind: str | None, message: str, lines: list[str]) -> None:
    names = {"message": legal(message)} | ({} if kind is None else {"type": legal(kind)})
    element = SubElement(case, tag, names)
    if lines:
        element.text = legal("\n".join(lines))
