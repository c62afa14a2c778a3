"""PP44x: each rule with a stream that fires it and one that must not."""

from __future__ import annotations

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.model.enums import Stage
from promptpath.model.names import MARK_TRANSPORT_END, STREAM_QUIET, TEST, TEST_KEPT
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_S
from tests.analysis.build import PLAN, TraceBuilder, healthy, opened
from tests.analysis.rules.case import Case, check


def idle(at: str, keepalive: str = "none") -> TraceBuilder:
    """A stream of an idle pass, asked for; 75 s are sought."""
    about = {
        "command": "idle",
        "at": at,
        "keepalive": keepalive,
        "silence_ns": 77 * NS_PER_S,
        "longest_ns": 75 * NS_PER_S,
        "interval_ns": None if keepalive == "none" else NS_PER_S,
        "last_sent_ns": 0,
    }
    return opened().fact(TEST, about).head(5)


def kept(closed: str | None) -> TraceBuilder:
    value = {"idle_ns": 60 * NS_PER_S, "closed": closed, "reused": closed is None}
    return idle("kept").text(1, gap_ms=1).marker().end().fact(TEST_KEPT, value)


def quiet(peer: str) -> TraceBuilder:
    note = {"since_ns": 0, "quiet_ns": 7 * NS_PER_S, "peer": peer, "last_ack_ns": None}
    return healthy().fact(STREAM_QUIET, note)


SURVIVED = idle("body").wait(77_000).text(2, gap_ms=100).marker().end()
CASES = (
    Case(
        "PP440",
        idle("body")
        .after(59_995)
        .mark(Stage.FINISH, MARK_TRANSPORT_END, how="fin")
        .end(how="fin", complete=False),
        SURVIVED,
        says="60.0 s of silence; defaults of nginx",
    ),
    Case(
        "PP441",
        idle("body").after(79_500).limit("timeout", 79 * NS_PER_S),
        SURVIVED,
        says="no byte and no end",
    ),
    Case("PP442", kept("fin"), kept(None), says="closed by fin after 60.0 s"),
    Case("PP443", quiet("unanswered"), quiet("alive"), says="no byte for 7.00 s"),
    Case("PP444", quiet("alive"), quiet("unanswered"), says="answered TCP keepalives"),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


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


@pytest.mark.parametrize(
    ("http", "rtt_ns", "says"),
    [
        ("answered", 30_000_000, "and its HTTP/2 answered a PING in 30.0 ms"),
        ("answered", None, "and its HTTP/2 answered a PING"),
        ("unanswered", None, "and its HTTP/2 answered no PING"),
        (None, None, "answered TCP keepalives meanwhile"),
        (["odd"], "odd", "answered TCP keepalives meanwhile"),
    ],
)
def test_a_quiet_http_2_peer_is_told_from_a_box_that_only_acknowledges_tcp(
    http: Json, rtt_ns: Json, says: str
) -> None:
    early: Json = {"quiet_ns": 7 * NS_PER_S, "peer": "alive", "peer_http": None}
    late: Json = {
        "quiet_ns": 14 * NS_PER_S,
        "peer": "alive",
        "peer_http": http,
        "ping_rtt_ns": rtt_ns,
    }
    builder = healthy().fact(STREAM_QUIET, early).fact(STREAM_QUIET, late)
    report = diagnose(builder.build(), PLAN)
    (found,) = [finding for finding in report.findings if finding.code == "PP444"]
    said = found.because[0].text
    assert said.endswith(says) and said.startswith("no byte for 14.0 s")
