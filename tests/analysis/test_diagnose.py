"""The whole report of hand-made trips: the sums, the milestones, the exit codes."""

from __future__ import annotations

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.sentence import sentence
from promptpath.errors import ExitCode
from promptpath.model.codec import encode
from promptpath.model.enums import EndState, EventKind, Stage
from promptpath.model.report import Report
from tests.analysis.build import PLAN, TraceBuilder, healthy, opened


def top_level(report: Report) -> list[tuple[str, float]]:
    return [(hop.stage.value, hop.duration_ms) for hop in report.hops if hop.within is None]


def test_the_hops_of_a_clean_trip_are_disjoint_and_add_up() -> None:
    report = diagnose(healthy().build(), PLAN)
    assert top_level(report) == [
        ("dns", 2.0),
        ("tcp", 20.0),
        ("tls", 25.0),
        ("request", 0.1),
        ("wait", 222.0),
        ("generation", 780.0),
        ("finish", 0.0),
    ]
    assert report.latency.e2e_ms == 1049.1
    assert report.latency.unexplained_ms == 0
    assert report.latency.ttft_ms == 269.1
    assert report.latency.ttft_request_ms == 222.0
    assert report.exit_code == ExitCode.OK
    assert report.end_state is EndState.COMPLETE


def test_time_between_two_stages_is_unexplained_and_never_hidden() -> None:
    trace = TraceBuilder().dns(2).after(7).tcp(20).request().head(20).text(3).marker().end().build()
    report = diagnose(trace, PLAN)
    whole = sum(ms for _, ms in top_level(report)) + report.latency.unexplained_ms
    assert report.latency.unexplained_ms == 7
    assert whole == pytest.approx(report.latency.e2e_ms)


def test_a_warm_run_has_no_dns_tcp_or_tls() -> None:
    report = diagnose(opened(warm=True).head(20).text(5).marker().end().build(), PLAN)
    assert [stage for stage, _ in top_level(report)] == ["request", "wait", "generation", "finish"]
    assert report.latency.ttft_ms == 20.1


def test_a_failed_connect_keeps_the_hops_up_to_it_and_cannot_be_measured() -> None:
    trace = TraceBuilder().dns(2)
    dial = trace.log.start_span(Stage.TCP, "dial", trace.now_ns)
    trace.after(3).fails(Stage.TCP, "refused", "connection refused")
    trace.log.end_span(dial, trace.now_ns)
    report = diagnose(trace.build(), PLAN)
    assert top_level(report) == [("dns", 2.0), ("tcp", 3.0)]
    assert report.latency.e2e_ms == 5
    assert report.end_state is EndState.NO_RESPONSE
    assert report.exit_code == ExitCode.UNMEASURED


def test_a_redirect_appears_as_stages_of_its_own_in_trip_order() -> None:
    trip = opened()
    trip.head(20, status=307, framing=None)
    trip.log.end_span(trip._response or 0, trip.now_ns)
    trip.fact("http.redirect", {"status": 307, "from": "a", "to": "b"})
    trip.request().head(20).wait(100).text(3).marker().end()
    report = diagnose(trip.build(), PLAN)
    stages = [stage for stage, _ in top_level(report)]
    assert stages == [
        "dns",
        "tcp",
        "tls",
        "request",
        "wait",
        "request",
        "wait",
        "generation",
        "finish",
    ]
    assert report.hops[4].title == "wait for the redirect (exchange 1 of 2)"
    assert report.latency.unexplained_ms == 0


def test_reported_times_stand_within_the_wait_and_the_rest_is_the_way_back() -> None:
    report = diagnose(healthy().build(), PLAN)
    inside = {hop.stage: hop.duration_ms for hop in report.hops if hop.within is Stage.WAIT}
    assert inside == {Stage.QUEUE: 1, Stage.PREFILL: 190, Stage.RETURN: 31}


def test_reported_times_larger_than_the_wait_leave_no_negative_hop() -> None:
    trace = opened().head(20).wait(50).text(20).marker().reports(prefill=500).end().build()
    report = diagnose(trace, PLAN)
    assert all(hop.duration_ms >= 0 for hop in report.hops)
    assert not any(hop.stage is Stage.RETURN for hop in report.hops)


def test_hidden_reasoning_stands_within_the_wait_for_visible_text() -> None:
    trip = opened().head(20).wait(100).text(50, kind=EventKind.REASONING)
    report = diagnose(trip.text(5, first_gap_ms=10).marker().end().build(), PLAN)
    hidden = [hop for hop in report.hops if hop.within is Stage.WAIT]
    assert [(hop.stage, hop.duration_ms) for hop in hidden] == [(Stage.DECODE, 500)]
    assert report.milestones.first_reasoning_ms == 167.1
    assert report.milestones.first_visible_ms == 667.1


def test_milestones_are_kept_apart() -> None:
    trip = opened().head(20).wait(5).event(EventKind.COMMENT).wait(5).event(EventKind.ROLE)
    report = diagnose(trip.wait(90).text(4).marker().wait(30).end().build(), PLAN)
    found = report.milestones
    assert found.headers_ms == 67.1
    assert found.first_byte_ms == found.first_frame_ms == found.first_keepalive_ms == 72.1
    assert found.first_visible_ms == 167.1
    assert found.last_token_ms == found.end_marker_ms == 197.1
    assert found.eof_ms == 227.1


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (EventKind.REASONING, "reasoning only"),
        (EventKind.REFUSAL, "the model refused"),
        (EventKind.TOOL, "a tool call only"),
    ],
)
def test_a_ttft_may_be_never(kind: EventKind, why: str) -> None:
    report = diagnose(opened().head(20).text(9, kind=kind).marker().end().build(), PLAN)
    assert report.latency.ttft_ms is None
    assert report.latency.ttft_never == why


def test_an_empty_trace_is_a_report_too() -> None:
    report = diagnose(TraceBuilder().build(), PLAN)
    assert report.hops == ()
    assert report.exit_code == ExitCode.UNMEASURED


def test_an_interrupted_run_says_so_in_its_exit_code() -> None:
    report = diagnose(opened().head(20).text(3).limit("interrupt").build(), PLAN)
    assert report.exit_code == ExitCode.INTERRUPTED
    assert report.end_state is EndState.STOPPED_BY_US


def test_the_same_trace_gives_the_same_bytes() -> None:
    assert encode(diagnose(healthy().build(), PLAN)) == encode(diagnose(healthy().build(), PLAN))


def test_the_sentence_names_the_largest_share_and_the_paths() -> None:
    trace = opened().head(20).wait(880).text(3, gap_ms=5).marker().reports(queue=2, prefill=860)
    said = sentence(diagnose(trace.end().build(), PLAN))
    assert said == (
        "The server's prefill took 91 % of the 947 ms to the first token;"
        " the path added 67.1 ms (7 %)."
    )
