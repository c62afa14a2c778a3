"""The event log: what is appended is what is read, and replaying its rows builds the same log."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.model.enums import Clock, EventKind, FactSource, Layer, Outcome, Stage
from promptpath.model.log import EventLog, Row, replay
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp

NS = st.integers(0, 10**15)
TEXT = st.text(max_size=8)
OPTIONAL = st.none() | st.integers(0, 2**31 - 1)
STAMP = st.builds(
    lambda at, early, late, clock, exact: Stamp(at, at - early, at + late, clock, exact),
    NS,
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from(Clock),
    st.booleans(),
)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
Append = Callable[[EventLog], None]


def span(stage: Stage, name: str, start: int, parent: int | None, conn: int | None) -> Append:
    def append(log: EventLog) -> None:
        log.start_span(stage, name, start, parent=parent, conn=conn)

    return append


def ended(which: int, end: int, outcome: Outcome, error: str | None) -> Append:
    def append(log: EventLog) -> None:
        if log.spans:
            log.end_span(1 + which % len(log.spans), end, outcome, error)

    return append


def arrival(layer: Layer, stamp: Stamp, cells: tuple[int, int, int | None, int | None]) -> Append:
    offset, size, segments, ooo = cells

    def append(log: EventLog) -> None:
        log.add_arrival(
            layer, stamp, span=None, offset=offset, size=size, segments=segments, ooo=ooo
        )

    return append


def event(kind: EventKind, stamp: Stamp, first: Stamp, tokens: int | None, text: str) -> Append:
    def append(log: EventLog) -> None:
        same = stamp if tokens is None else first
        log.add_event(
            kind,
            stamp,
            same,
            tokens=tokens,
            chars=len(text),
            size_bytes=9,
            seq=tokens,
            server_ns=tokens,
            text=text or None,
        )

    return append


def counted(which: int, tokens: list[int | None]) -> Append:
    def append(log: EventLog) -> None:
        if log.events:
            first = which % len(log.events)
            log.set_event_tokens(first, tokens[: len(log.events) - first])

    return append


def mark(stage: Stage, name: str, stamp: Stamp, detail: dict[str, Json]) -> Append:
    def append(log: EventLog) -> None:
        log.add_mark(stage, name, stamp, conn=1, detail=detail)

    return append


def fact(key: str, value: Json, source: FactSource) -> Append:
    def append(log: EventLog) -> None:
        log.add_fact(key, value, source)

    return append


STAGE, COUNT = st.sampled_from(Stage), st.integers(0, 10**6)
APPENDS = st.lists(
    st.one_of(
        st.builds(span, STAGE, TEXT, NS, OPTIONAL, OPTIONAL),
        st.builds(ended, COUNT, NS, st.sampled_from(Outcome), st.none() | TEXT),
        st.builds(arrival, st.sampled_from(Layer), STAMP, st.tuples(NS, COUNT, OPTIONAL, OPTIONAL)),
        st.builds(event, st.sampled_from(EventKind), STAMP, STAMP, OPTIONAL, TEXT),
        st.builds(counted, COUNT, st.lists(st.none() | COUNT, max_size=3)),
        st.builds(mark, STAGE, TEXT, STAMP, st.dictionaries(TEXT, VALUE, max_size=3)),
        st.builds(fact, TEXT, VALUE, st.sampled_from(FactSource)),
    ),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(APPENDS)
def test_replaying_the_rows_of_a_log_builds_the_same_log(appends: list[Append]) -> None:
    log, rows = EventLog(), list[Row]()
    log.observe(rows.append)
    for append in appends:
        append(log)
    again = replay(json.loads(json.dumps(rows)))
    assert again.spans == log.spans
    assert again.marks == log.marks
    assert again.facts == log.facts
    assert list(again.arrivals) == list(log.arrivals)
    assert list(again.events) == list(log.events)


@pytest.fixture
def stamp() -> Stamp:
    return Stamp(100, 90, 110, Clock.KERNEL, True)


def test_a_stamp_given_again_is_stored_once(stamp: Stamp) -> None:
    log = EventLog()
    assert log.add_stamp(stamp) == log.add_stamp(stamp) == 0


def test_missing_is_none_and_zero_stays_zero(stamp: Stamp) -> None:
    log = EventLog()
    for number in (None, 0):
        log.add_event(
            EventKind.TEXT, stamp, stamp, tokens=number, chars=0, size_bytes=0, seq=number
        )
    assert [(e.tokens, e.seq) for e in log.events] == [(None, None), (0, 0)]


def test_a_number_no_column_can_hold_is_missing_not_a_crash(stamp: Stamp) -> None:
    log = EventLog()
    log.add_event(
        EventKind.TEXT, stamp, stamp, tokens=1, chars=0, size_bytes=0, seq=10**40, server_ns=2**63
    )
    assert (log.events[0].seq, log.events[0].server_ns) == (None, None)


def test_tokens_are_for_events_that_are_there(stamp: Stamp) -> None:
    log = EventLog()
    for _ in range(3):
        log.add_event(EventKind.TEXT, stamp, stamp, tokens=None, chars=1, size_bytes=1)
    log.set_event_tokens(1, [None, 4])
    assert [e.tokens for e in log.events] == [None, None, 4]
    for first, tokens in ((-1, [1]), (2, [1, 1]), (3, [1])):
        with pytest.raises(IndexError):
            log.set_event_tokens(first, tokens)


def test_an_open_span_is_cancelled_without_an_end() -> None:
    log = EventLog()
    log.start_span(Stage.TCP, "dial", 5)
    assert log.spans[0].end_ns is None
    assert log.spans[0].outcome is Outcome.CANCELLED
    assert log.spans[0].duration_ns is None


def test_the_first_end_of_a_span_counts() -> None:
    log = EventLog()
    span_id = log.start_span(Stage.TCP, "dial", 5)
    log.end_span(span_id, 9, Outcome.FAILED, "refused")
    log.end_span(span_id, 20)
    assert (log.spans[0].end_ns, log.spans[0].error) == (9, "refused")


def test_rows_are_sequences(stamp: Stamp) -> None:
    log = EventLog()
    for size in range(5):
        log.add_arrival(Layer.BODY, stamp, span=None, offset=0, size=size)
    assert len(log.arrivals) == 5
    assert log.arrivals[-1].size == 4
    assert [arrival.size for arrival in log.arrivals[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        log.arrivals[5]


@pytest.mark.parametrize("row", [["nonsense"], ["span", 1], ["fact"], ["mark", "dns", "x", 9]])
def test_a_row_no_log_wrote_is_refused(row: Row) -> None:
    with pytest.raises((KeyError, ValueError, TypeError, IndexError)):
        replay([row])
