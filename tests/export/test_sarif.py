from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from promptpath.analysis.budgets import BudgetName, Keeping
from promptpath.analysis.check import CheckResult
from promptpath.export.sarif import write
from tests.export.checks import WORSE, check, verdict

MESSAGE = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string"},
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"level": LEVEL},
        },
    },
    "additionalProperties": False,
}
LOCATION = {
    "type": "object",
    "properties": {
        "physicalLocation": {
            "type": "object",
            "required": ["artifactLocation"],
            "properties": {
                "artifactLocation": {
                    "type": "object",
                    "required": ["uri"],
                    "properties": {"uri": {"type": "string", "format": "uri-reference"}},
                },
                "region": {
                    "type": "object",
                    "required": ["startLine"],
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                },
            },
            "additionalProperties": False,
        },
        "logicalLocations": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "fullyQualifiedName": {"type": "string"},
                    "kind": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
RESULT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "kind": {"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"type": "array", "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "suppressions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind"],
                "properties": {
                    "kind": {"enum": ["inSource", "external"]},
                    "justification": {"type": "string"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
INVOCATION = {
    "type": "object",
    "required": ["executionSuccessful"],
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "exitCode": {"type": "integer"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["message"],
                "properties": {"level": LEVEL, "message": MESSAGE},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
DRIVER = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "semanticVersion": {"type": "string"},
        "rules": {"type": "array", "uniqueItems": True, "items": RULE},
    },
    "additionalProperties": False,
}
LOG = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {"driver": DRIVER},
                        "additionalProperties": False,
                    },
                    "invocations": {"type": "array", "items": INVOCATION},
                    "results": {"type": "array", "items": RESULT},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
"""The parts of SARIF 2.1.0's schema (OASIS) that are used here, closed: a property that is not in
the standard fails."""


def log(result: CheckResult) -> dict[str, Any]:
    """The log's only run; valid, or the test fails."""
    value = json.loads(b"".join(write(result)))
    jsonschema.validate(value, LOG)
    (run,) = value["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for item in run["results"]:
        assert rules[item["ruleIndex"]] == item["ruleId"]
        assert item["kind"] == "fail" or item["level"] == "none"  # SARIF 2.1.0, 3.27.10
    found: dict[str, Any] = run
    return found


def test_what_is_not_kept_and_every_finding_is_a_result() -> None:
    found = {item["ruleId"]: (item["kind"], item["level"]) for item in log(check())["results"]}
    assert found == {
        "require-streaming": ("fail", "error"),
        "max-hold": ("open", "none"),
        "PP412": ("fail", "error"),
        "PP411": ("fail", "error"),
        "PP419": ("fail", "warning"),
        "PP527": ("fail", "note"),
    }


def test_an_allowed_finding_is_suppressed() -> None:
    found = {item["ruleId"]: "suppressions" in item for item in log(check())["results"]}
    assert found["PP411"] and not found["PP412"]


def test_strict_makes_an_open_result_an_error() -> None:
    results = log(check(strict=True))["results"]
    assert [r["level"] for r in results if r["ruleId"] == "max-hold"] == ["error"]


def test_results_stand_at_the_targets_line_of_the_budget_file() -> None:
    location = log(check())["results"][0]["locations"][0]["physicalLocation"]
    assert location == {"artifactLocation": {"uri": "ci/paths.toml"}, "region": {"startLine": 7}}


def test_a_target_that_is_down_is_a_notification_and_no_result() -> None:
    run = log(check())
    (invocation,) = run["invocations"]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 3)
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"].startswith("down: stopped at tcp: refused")


def test_every_budget_has_a_description() -> None:
    result = check()
    for name in BudgetName:
        made = replace(result.targets[0], budgets=(verdict(name, Keeping.BROKEN),))
        run = log(CheckResult(tool=result.tool, targets=(made,)))
        assert run["tool"]["driver"]["rules"][0]["shortDescription"]["text"]


def test_hostile_text_is_printable() -> None:
    text = json.dumps(log(check(name=WORSE.replace("\ud800", ""), text="x")), ensure_ascii=False)
    assert "\x1b" not in text and "\u202e" not in text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60))
def test_any_text_is_valid(text: str) -> None:
    log(check(name=text, text=text))
