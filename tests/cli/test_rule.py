from __future__ import annotations

import json

import pytest

from promptpath.analysis.rules import RULES
from promptpath.cli.main import run


def test_the_table_lists_every_rule_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["rule"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line[:5] for line in lines] == sorted(rule.code for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_each_rule_can_be_read_at_80_columns(
    rule: object, capfd: pytest.CaptureFixture[str]
) -> None:
    code = rule.code  # type: ignore[attr-defined]
    assert run(["rule", code.lower()]) == 0
    out = capfd.readouterr().out
    assert out.startswith(f"{code} (")
    for label in ("asks", "decided", "advice", "is not"):
        assert f"\n{label:<10}" in out
    assert max(map(len, out.splitlines()[1:])) <= 80


def test_json_has_the_same(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["rule", "--json"]) == 0
    assert [rule["code"] for rule in json.loads(capfd.readouterr().out)] == sorted(
        rule.code for rule in RULES
    )
