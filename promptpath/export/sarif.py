"""A check as SARIF 2.1.0 (OASIS), which code scanning shows: a result a budget that is not kept and
a finding, at the target's line of the budget file, where there is one."""

from __future__ import annotations

from collections.abc import Iterator

from promptpath.analysis.budgets import BudgetName, BudgetVerdict, Keeping
from promptpath.analysis.check import CheckResult, SeenFinding, TargetResult
from promptpath.analysis.rules import by_code
from promptpath.errors import ExitCode
from promptpath.export.check_words import budget_reasons, finding_reasons, finding_title
from promptpath.model.codec import encode
from promptpath.model.enums import Severity
from promptpath.model.redact import printable
from promptpath.model.rows import Json

VERSION = "2.1.0"
SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}
_BUDGETS = {
    BudgetName.MAX_HOLD: "A tenth of the events are held for at most so long",
    BudgetName.MAX_DNS: "Name resolution takes at most so long",
    BudgetName.MAX_TCP: "TCP connect takes at most so long",
    BudgetName.MAX_TLS: "The TLS handshake takes at most so long",
    BudgetName.MAX_HEADERS: "The response head comes within this time",
    BudgetName.MAX_TTFT: "The first visible text comes within this time",
    BudgetName.MAX_TOTAL: "The response ends within this time",
    BudgetName.MAX_ITL_P95: "95 % of the tokens take at most so long each",
    BudgetName.REQUIRE_STREAMING: "Nobody in the path holds the stream back",
    BudgetName.REQUIRE_TERMINAL: "The stream ends with its terminal event",
    BudgetName.REQUIRE_HTTP: "The target speaks at least this HTTP version",
    BudgetName.REQUIRE_TLS: "The target speaks at least this TLS version",
    BudgetName.MIN_IDLE: "A stream may be silent for so long",
}


def write(result: CheckResult) -> Iterator[bytes]:
    """The log, UTF-8."""
    results = [item for target in result.targets for item in _results(target)]
    problems = [_notification(target) for target in result.targets if target.problem]
    ids = dict.fromkeys(str(item["ruleId"]) for item in results)
    run: dict[str, Json] = {
        "tool": {
            "driver": {
                "name": result.tool.name,
                "semanticVersion": result.tool.version,
                "rules": [_rule(rule) for rule in ids],
            }
        },
        "invocations": [
            {
                "executionSuccessful": result.exit_code in (ExitCode.OK, ExitCode.FINDING),
                "exitCode": result.exit_code,
                "toolExecutionNotifications": problems,
            }
        ],
        "results": [_indexed(item, list(ids)) for item in results],
    }
    yield encode({"$schema": SCHEMA, "version": VERSION, "runs": [run]}) + b"\n"


def _indexed(item: dict[str, Json], ids: list[str]) -> dict[str, Json]:
    return {**item, "ruleIndex": ids.index(str(item["ruleId"]))}


def _rule(name: str) -> dict[str, Json]:
    rule = by_code(name)
    if rule is None:
        return {"id": name, "shortDescription": {"text": _BUDGETS[BudgetName(name)]}}
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.asks} {rule.decided}"},
        "help": {"text": f"{rule.advice} {rule.is_not}"},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
    }


def _results(target: TargetResult) -> Iterator[dict[str, Json]]:
    for verdict in target.budgets:
        if verdict.keeping is not Keeping.KEPT and not target.problem:
            yield _budget(target, verdict)
    for seen in target.findings:
        if seen.answered:
            yield _finding(target, seen)


def _budget(target: TargetResult, verdict: BudgetVerdict) -> dict[str, Json]:
    # "open": evaluated, but there was not enough to decide (SARIF 2.1.0, 3.27.9).
    kind, level = ("fail", "error") if target.fails(verdict) else ("open", "none")
    text = "; ".join([f"{verdict.budget.text}: {verdict.keeping.value}", *budget_reasons(verdict)])
    return {
        "ruleId": verdict.budget.name.value,
        "kind": kind,
        "level": level,
        **_where(target, text),
    }


def _finding(target: TargetResult, seen: SeenFinding) -> dict[str, Json]:
    text = "; ".join([finding_title(seen), *finding_reasons(seen)])
    found: dict[str, Json] = {
        "ruleId": seen.finding.code,
        "kind": "fail",
        "level": LEVELS[seen.finding.severity],
        **_where(target, text),
    }
    if seen.allowed:
        found["suppressions"] = [{"kind": "external", "justification": "--allow"}]
    return found


def _where(target: TargetResult, text: str) -> dict[str, Json]:
    name = printable(target.name)
    logical: list[Json] = [{"name": name, "fullyQualifiedName": target.url, "kind": "resource"}]
    location: dict[str, Json] = {"logicalLocations": logical}
    if target.place is not None:
        location["physicalLocation"] = {
            "artifactLocation": {"uri": _uri(target.place.file)},
            "region": {"startLine": target.place.line},
        }
    return {
        "message": {"text": printable(f"{name}: {text}")},
        "locations": [location],
        "partialFingerprints": {"promptpathTarget/v1": name},
    }


def _uri(path: str) -> str:
    """A relative file name as a URI reference (RFC 3986, 4.2)."""
    from urllib.parse import quote

    return quote(path.removeprefix("./"))


def _notification(target: TargetResult) -> dict[str, Json]:
    text = printable(f"{target.name}: {' '.join(target.problem)}")
    return {"level": "error", "message": {"text": text}}
