"""Legs: disjoint whatever the spans, complete whatever is missing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.view import measure
from promptpath.model.enums import Clock, EventKind, Outcome, Stage
from promptpath.model.names import (
    SPAN_CONNECT,
    SPAN_DIAL,
    SPAN_HANDSHAKE,
    SPAN_PROXY_TUNNEL,
    SPAN_QUERY,
    SPAN_RESOLVE,
    SPAN_RESPONSE,
    SPAN_REUSE,
    SPAN_UPLOAD,
)
from promptpath.model.stamp import Stamp
from tests.analysis.build import PLAN, TraceBuilder, healthy, ns, opened

SPANS = st.sampled_from(
    [
        (Stage.DNS, SPAN_RESOLVE),
        (Stage.DNS, SPAN_QUERY),
        (Stage.PROXY, SPAN_DIAL),
        (Stage.PROXY, SPAN_PROXY_TUNNEL),
        (Stage.TCP, SPAN_DIAL),
        (Stage.TCP, SPAN_CONNECT),
        (Stage.TLS, SPAN_HANDSHAKE),
        (Stage.TLS, SPAN_REUSE),
        (Stage.REQUEST, SPAN_UPLOAD),
        (Stage.WAIT, SPAN_RESPONSE),
    ]
)
INSTANT = st.integers(0, 10_000_000)
RANDOM_SPANS = st.lists(
    st.tuples(SPANS, INSTANT, st.none() | INSTANT, st.none() | st.integers(1, 12)), max_size=12
)


@settings(max_examples=200, deadline=None)
@given(RANDOM_SPANS, st.lists(INSTANT, max_size=5))
def test_hops_are_disjoint_and_add_up_for_any_spans_and_events(
    spans: list[tuple[tuple[Stage, str], int, int | None, int | None]], events: list[int]
) -> None:
    trip = TraceBuilder()
    for (stage, name), start_ns, end_ns, parent in spans:
        span = trip.log.start_span(stage, name, start_ns, parent=parent)
        if end_ns is not None:
            trip.log.end_span(span, end_ns, Outcome.OK)
    for at_ns in sorted(events):
        trip.now_ns = at_ns
        trip.text(1)
    breakdown = measure(trip.build(), PLAN).breakdown
    assert breakdown.unexplained_ns >= 0
    assert all(leg.duration_ns >= 0 for leg in breakdown.legs)
    for before, after in zip(breakdown.legs, breakdown.legs[1:], strict=False):
        assert before.end_ns <= after.start_ns
    total = sum(leg.duration_ns for leg in breakdown.legs) + breakdown.unexplained_ns
    assert total == breakdown.e2e_ns
    diagnose(trip.build(), PLAN)


def test_our_own_queries_and_the_second_connection_are_nobodys_wait() -> None:
    trip = healthy()
    whole = measure(trip.build(), PLAN).breakdown.e2e_ns
    trip.span(Stage.DNS, SPAN_QUERY, 50)
    reuse = trip.log.start_span(Stage.TLS, SPAN_REUSE, trip.now_ns)
    trip.span(Stage.TCP, SPAN_DIAL, 20, parent=reuse)
    trip.span(Stage.TLS, SPAN_HANDSHAKE, 20, parent=reuse)
    assert measure(trip.build(), PLAN).breakdown.e2e_ns == whole


def test_the_steps_to_a_proxy_are_one_leg() -> None:
    trip = TraceBuilder().dns(2)
    dial = trip.log.start_span(Stage.PROXY, SPAN_DIAL, trip.now_ns)
    trip.span(Stage.PROXY, SPAN_CONNECT, 10, parent=dial)
    trip.log.end_span(dial, trip.now_ns)
    trip.span(Stage.PROXY, SPAN_PROXY_TUNNEL, 15)
    trip.tls(20).request().head(20).text(3).marker().end()
    legs = measure(trip.build(), PLAN).breakdown.of(Stage.PROXY)
    assert [leg.duration_ns for leg in legs] == [ns(25)]


def test_an_answer_before_the_upload_ended_does_not_make_a_negative_wait() -> None:
    trip = TraceBuilder().dns(2)
    upload = trip.log.start_span(Stage.REQUEST, SPAN_UPLOAD, trip.now_ns)
    response = trip.log.start_span(Stage.WAIT, SPAN_RESPONSE, trip.now_ns)
    trip.after(10).head(0, status=413).after(5)
    trip.log.end_span(upload, trip.now_ns)
    trip.log.end_span(response, trip.now_ns - ns(2))
    breakdown = measure(trip.build(), PLAN).breakdown
    assert [leg.duration_ns for leg in breakdown.legs] == [ns(2), ns(15), 0]


def test_a_response_without_text_is_all_wait() -> None:
    trip = opened().head(22, status=404, framing=None).after(3).end(marker_seen=False)
    report = diagnose(trip.build(), PLAN)
    wait = next(hop for hop in report.hops if hop.stage is Stage.WAIT)
    assert (wait.title, wait.duration_ms) == ("wait for the response", 25)


def test_errors_come_from_the_stamps_at_both_ends() -> None:
    trip = opened()
    trip.error_ns = ns(2)
    trip.head(22).wait(100).text(9).marker().end()
    hops = {hop.stage: hop for hop in diagnose(trip.build(), PLAN).hops}
    assert hops[Stage.GENERATION].error_ms == 4
    assert hops[Stage.WAIT].error_ms == 2.001


def test_an_answer_cannot_have_come_before_its_request() -> None:
    """A stamp that was not certified reaches back to the read before it, maybe a handshake ago."""
    trip = opened()
    trip.error_ns = ns(40)
    report = diagnose(trip.head(3).text(1).marker().end().build(), PLAN)
    hops = {hop.stage: hop for hop in report.hops}
    assert hops[Stage.WAIT].duration_ms == 3
    assert hops[Stage.WAIT].error_ms == 40.001  # late, by the upper bound; early only by 3
    late = opened()
    stamp = Stamp(late.now_ns + ns(3), 0, late.now_ns + ns(3), Clock.KERNEL, False)
    late.head(1).wait(2)
    late.log.add_event(EventKind.TEXT, stamp, stamp, tokens=1, chars=1, size_bytes=9)
    report = diagnose(late.wait(1).marker().end().build(), PLAN)
    assert {hop.stage: hop for hop in report.hops}[Stage.WAIT].error_ms == 3.001
    assert report.latency.ttft_error_ms == 3


def test_an_interval_between_an_instant_and_itself_has_no_error() -> None:
    trip = opened()
    trip.error_ns = ns(10)
    report = diagnose(trip.head(22).text(9).marker().end().build(), PLAN)
    assert {hop.stage: hop for hop in report.hops}[Stage.FINISH].error_ms == 0
