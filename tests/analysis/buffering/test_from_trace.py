"""The evidence of a trace is what came; nothing in a trace can break the verdict."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.buffering.from_trace import MAX_EVENTS, trace_evidence
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.buffering.verdict import buffering_verdict
from promptpath.analysis.scan import scan_events
from promptpath.analysis.view import measure
from promptpath.model.enums import EventKind, Layer
from promptpath.model.stamp import Stamp
from promptpath.model.trace import Trace
from tests.analysis.buffering import flow as f
from tests.analysis.build import CLEAN_HEADERS, PLAN, TraceBuilder, opened

SENT = f.varied(200, gap_ms=10, size=97)
FLOWS = {
    "one by one": f.one_by_one(SENT),
    "buffer": f.held_until(4096, SENT),
    "timer": f.timed(100, SENT),
    "cork": f.corked(100, SENT),
    "late client": f.read_late(90, SENT),
    "loss": f.lossy(SENT, rtt_ms=90, every=13),
}


def evidence(trace: Trace) -> object:
    return trace_evidence(trace, scan_events(trace), dict(CLEAN_HEADERS), rtt_ns=None, mtu=None)


@pytest.mark.parametrize("stamps", [False, True])
@pytest.mark.parametrize("name", FLOWS)
def test_a_trace_gives_the_answer_of_its_flow(name: str, stamps: bool) -> None:
    flow = FLOWS[name]
    measured = measure(f.trip_of(flow, stamps=stamps).build(), PLAN)
    expected = judge(f.evidence_of(flow, stamps=stamps))
    assert measured.buffering is not None
    assert measured.buffering.answer is expected.answer
    assert measured.buffering.hold == expected.hold


def test_what_follows_the_last_content_is_left_out() -> None:
    trip = f.trip_of(FLOWS["one by one"])
    trip.after(5000).event(EventKind.USAGE)
    found = measure(trip.build(), PLAN).buffering
    assert found is not None
    assert found.answer is Answer.STREAMING


def test_keepalives_before_the_first_token_hold_nothing() -> None:
    trip = opened().head(22)
    for _ in range(10):
        trip.after(1000).event(EventKind.COMMENT)
    found = measure(trip.text(40, gap_ms=20).marker().end().build(), PLAN).buffering
    assert found is not None
    assert found.answer is Answer.STREAMING


def test_no_response_and_no_stream_have_no_verdict() -> None:
    assert measure(TraceBuilder().dns(2).build(), PLAN).buffering is None
    page = opened().head(22, headers={"content-type": "text/html"}, framing=None)
    assert measure(page.end(marker_expected=False).build(), PLAN).buffering is None


def test_a_stream_without_content_is_inconclusive() -> None:
    found = measure(opened().head(22).event(EventKind.COMMENT).marker().end().build(), PLAN)
    assert found.buffering is not None
    assert found.buffering.answer is Answer.INCONCLUSIVE


def test_a_long_stream_is_judged_by_its_beginning() -> None:
    trace = opened().head(22).text(MAX_EVENTS + 500, gap_ms=1).marker().end().build()
    found = trace_evidence(trace, scan_events(trace), dict(CLEAN_HEADERS), rtt_ns=None, mtu=None)
    assert found is not None
    assert len(found.events) == MAX_EVENTS
    assert len(found.reads) == MAX_EVENTS


number = st.integers(-(2**62), 2**62)


@given(
    st.lists(st.tuples(number, number, st.integers(0, 2**31), st.integers(-1, 9)), max_size=40),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_trace_is_too_strange_to_judge(
    rows: list[tuple[int, int, int, int]], stamps: bool
) -> None:
    trip = opened().head(22)
    for at_ns, sent_ns, size, segments in rows:
        stamp = Stamp(at_ns, at_ns - 5, at_ns + 5, trip.clock, False)
        trip.log.add_arrival(
            Layer.SEGMENT_READ,
            stamp,
            span=1,
            offset=0,
            size=size,
            segments=None if segments < 0 else segments,
            ooo=segments if segments > 0 else None,
        )
        trip.log.add_arrival(Layer.HTTP_FRAME, stamp, span=None, offset=0, size=size)
        trip.log.add_event(
            EventKind.TEXT,
            stamp,
            stamp,
            tokens=1,
            chars=1,
            size_bytes=size,
            server_ns=sent_ns if stamps else None,
        )
    trace = trip.marker().end().build()
    found = trace_evidence(trace, scan_events(trace), {}, rtt_ns=-5, mtu=0)
    assert found is not None
    assert buffering_verdict(judge(found)).question == "buffering"
