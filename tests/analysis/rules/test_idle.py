"""PP443 and PP444: a response that went quiet. (PP440 to PP442: tests/analysis/test_idle.py.)"""

from __future__ import annotations

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.model.names import STREAM_QUIET, TEST
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S
from tests.analysis.build import PLAN, TraceBuilder


def codes(*notes: Json, test: Json = None) -> set[str]:
    builder = TraceBuilder().dns(1).tcp(10).request().head(5)
    for note in notes:
        builder.fact(STREAM_QUIET, note)
    if test is not None:
        builder.fact(TEST, test)
    report = diagnose(builder.text(12, gap_ms=10).end().build(), PLAN)
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    ("peer", "code"), [("unanswered", "PP443"), ("alive", "PP444"), ("unknown", "PP444")]
)
def test_keepalives_tell_a_dead_path_from_a_thinking_server(peer: str, code: str) -> None:
    found = codes({"since_ns": 0, "quiet_ns": 7 * NS_PER_S, "peer": peer, "last_ack_ns": None})
    assert {code} == found & {"PP443", "PP444"}


def test_a_lively_response_an_idle_pass_and_a_strange_file_say_nothing() -> None:
    quiet = {"quiet_ns": 7 * NS_PER_S, "peer": "alive"}
    for found in (codes(), codes(quiet, test={"command": "idle"}), codes({"peer": "alive"}, "x")):
        assert not found & {"PP443", "PP444"}
