"""One pass over the events, in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.scan import scan_events
from promptpath.model.enums import EventKind
from promptpath.model.trace import Trace
from tests.analysis.build import PLAN, opened

EVENTS = 20_000
BYTES_PER_EVENT = 150
"""Columns of 40 bytes, a sorted copy of the gaps and one boxed piece of 65,536 values: 600,000
events need some 45 MB beside their log."""


def long_trace() -> Trace:
    return opened().head(22).text(EVENTS, gap_ms=1).marker().end().build()


@pytest.mark.slow
def test_a_long_stream_is_judged_in_little_memory() -> None:
    trace = long_trace()
    tracemalloc.start()
    try:
        diagnose(trace, PLAN)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < BYTES_PER_EVENT * EVENTS


def test_text_without_a_character_is_not_the_first_text() -> None:
    trip = opened().head(22).event(EventKind.TEXT).after(50).event(EventKind.TEXT, chars=3)
    scan = scan_events(trip.build())
    assert scan.first[EventKind.TEXT].at_ns == trip.now_ns
    assert scan.first_content is scan.first[EventKind.TEXT]
    assert scan.count(EventKind.TEXT) == 2


def test_a_tool_call_begins_with_its_name() -> None:
    trip = opened().head(22).event(EventKind.TOOL)
    assert scan_events(trip.build()).first_content is not None


def test_keepalives_count_until_the_first_content() -> None:
    trip = opened().head(22).event(EventKind.COMMENT).event(EventKind.PING)
    scan = scan_events(trip.text(2).event(EventKind.PING).build())
    assert scan.keepalives_before_content == 2


def test_the_senders_span_needs_a_stamp_at_both_ends() -> None:
    trip = opened().head(22).event(EventKind.TEXT, chars=1, server_ms=100)
    assert scan_events(trip.build()).server_span_ns is None
    trip.after(9).event(EventKind.TEXT, chars=1, server_ms=130)
    assert scan_events(trip.build()).server_span_ns == 30_000_000
    trip.event(EventKind.TEXT, chars=1)
    assert scan_events(trip.build()).server_span_ns is None
