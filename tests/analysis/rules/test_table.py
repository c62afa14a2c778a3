"""The table as a whole: nothing untested, nothing undocumented, nothing twice."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from promptpath.analysis.rules import RULES, by_code, judge_all
from promptpath.analysis.rules.base import Rule
from promptpath.analysis.view import measure
from tests.analysis.build import PLAN, TraceBuilder, healthy
from tests.analysis.rules import (
    test_buffering,
    test_doors,
    test_idle,
    test_intermediaries,
    test_measurement,
    test_names,
    test_protocol,
    test_quic,
    test_server,
    test_stream,
    test_tls,
    test_transport,
)

FAMILIES = (
    test_names,
    test_transport,
    test_tls,
    test_intermediaries,
    test_buffering,
    test_doors,
    test_idle,
    test_protocol,
    test_quic,
    test_stream,
    test_server,
    test_measurement,
)
DOCS = Path(__file__).resolve().parents[3] / "docs" / "findings"


def test_every_rule_has_a_case_and_every_case_a_rule() -> None:
    cases = {case.code for case in chain.from_iterable(family.CASES for family in FAMILIES)}
    assert cases == {rule.code for rule in RULES}


def test_codes_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_says_all_that_its_page_needs(rule: Rule) -> None:
    assert re.fullmatch(r"PP[1-69]\d\d", rule.code)
    assert rule.asks.endswith("?")
    for words in (rule.decided, rule.advice, rule.is_not):
        assert words.endswith(".")
    assert not rule.title.endswith(".")


def test_a_code_is_found_whatever_its_case() -> None:
    found = by_code(" pp301 ")
    assert found is not None
    assert found.code == "PP301"
    assert by_code("PP999") is None


def test_a_healthy_stream_gives_no_warning() -> None:
    findings = judge_all(measure(healthy().build(), PLAN))
    assert [finding.code for finding in findings] == ["PP602"]


def test_findings_come_worst_first() -> None:
    trip = TraceBuilder().dns(80).tcp(20, rtt_ms=20).request().head(20).text(9)
    found = judge_all(measure(trip.end(marker_seen=False).build(), PLAN))
    assert [finding.code for finding in found] == ["PP521", "PP101", "PP212", "PP401"]
