"""How a stream ended: the dialect's marker decides, the transport can only take away."""

from __future__ import annotations

import pytest

from promptpath.analysis.view import measure
from promptpath.model.enums import EndState, EventKind
from promptpath.model.names import STREAM_ERROR
from tests.analysis.build import PLAN, TraceBuilder, opened


def state(trip: TraceBuilder) -> EndState:
    return measure(trip.build(), PLAN).end_state


def begun() -> TraceBuilder:
    return opened().head(22).text(5)


def test_marker_and_clean_end_are_complete() -> None:
    assert state(begun().marker().end()) is EndState.COMPLETE


def test_a_clean_transport_end_does_not_make_a_cut_stream_whole() -> None:
    assert state(begun().end(marker_seen=False)) is EndState.TRUNCATED


def test_a_finish_reason_without_its_marker_is_told_apart() -> None:
    trip = begun().event(EventKind.FINISH).end(marker_seen=False)
    assert state(trip) is EndState.NO_END_MARKER


def test_a_dialect_without_a_marker_can_be_complete() -> None:
    assert state(begun().end(marker_seen=False, marker_expected=False)) is EndState.COMPLETE


@pytest.mark.parametrize("how", ["fin", "rst", "reset", "goaway", "protocol-error"])
def test_an_unclean_end_before_the_marker_is_a_cut(how: str) -> None:
    trip = begun().end(complete=False, how=how, marker_seen=False, marker_expected=False)
    assert state(trip) is EndState.TRUNCATED


def test_bytes_of_an_unfinished_event_are_a_cut() -> None:
    trip = begun().end(marker_seen=False, marker_expected=False, pending_bytes=3)
    assert state(trip) is EndState.TRUNCATED


def test_an_error_in_the_stream_wins_over_its_end() -> None:
    trip = begun().event(EventKind.ERROR).fact(STREAM_ERROR, {"message": "x"}).marker().end()
    assert state(trip) is EndState.ERROR_IN_STREAM


def test_a_limit_before_the_marker_was_ours() -> None:
    assert state(begun().limit("timeout", 1)) is EndState.STOPPED_BY_US


def test_a_response_that_goes_on_after_its_marker() -> None:
    trip = begun().marker().end(complete=False, how="cut-by-us")
    assert state(trip) is EndState.OPEN_AFTER_MARKER


def test_a_document_and_an_error_status_are_no_stream() -> None:
    assert state(opened().head(22, framing="json").end()) is EndState.NOT_A_STREAM
    assert state(opened().head(22, status=503).end()) is EndState.NOT_A_STREAM


def test_no_head_is_no_response() -> None:
    assert state(opened().limit("timeout", 1)) is EndState.NO_RESPONSE


def test_a_trace_that_was_never_finished_was_stopped_by_us() -> None:
    trip = begun()
    trip.truncated = "the run ended before its document was written"
    assert state(trip) is EndState.STOPPED_BY_US
