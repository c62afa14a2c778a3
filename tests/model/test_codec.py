"""Documents to JSON and back, against the schema, and hostile files refused in words."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.summary import summarize
from promptpath.errors import UsageError
from promptpath.model import names
from promptpath.model.codec import (
    decode_document,
    decode_journal,
    encode,
    encode_document,
    encode_row,
    journal_head,
    json_schema,
)
from promptpath.model.document import Document, Run, Tool
from promptpath.model.enums import Clock, EventKind
from promptpath.model.log import EventLog
from promptpath.model.redact import printable
from promptpath.model.stamp import Stamp
from promptpath.model.trace import Trace
from tests.analysis.build import PLAN, TraceBuilder, healthy, opened


def document(*trips: TraceBuilder) -> Document:
    traces = [trip.build() for trip in trips]
    runs = tuple(Run(trace=trace, report=diagnose(trace, PLAN)) for trace in traces)
    return Document(
        tool=Tool(name="promptpath", version="0"),
        plan=PLAN,
        vantage={"platform": "Linux"},
        summary=summarize(runs),
        runs=runs,
    )


def saved(*trips: TraceBuilder) -> bytes:
    return b"".join(encode_document(document(*trips)))


def changed(path: str, value: Any) -> bytes:
    """A saved document with one value replaced."""
    found = place = json.loads(saved(healthy()))
    *way, last = path.split(".")
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(found).encode()


def test_a_document_is_the_same_after_writing_and_reading() -> None:
    trip = opened().head(22).event(EventKind.ROLE).text(3).limit("timeout", 5)
    raw = saved(healthy(), trip)
    assert b"".join(encode_document(decode_document(raw))) == raw


def test_a_trace_read_from_a_file_gives_the_same_report() -> None:
    read = decode_document(saved(healthy()))
    assert diagnose(read.runs[0].trace, read.plan) == read.runs[0].report


def test_documents_obey_the_schema() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    for trip in (healthy(), TraceBuilder(), opened().limit("interrupt")):
        jsonschema.validate(json.loads(saved(trip)), schema)


def test_the_schema_refuses_a_wrong_document() -> None:
    wrong = json.loads(changed("runs.0.report.exit_code", "zero"))
    with pytest.raises(jsonschema.ValidationError, match="zero"):
        jsonschema.validate(wrong, json_schema())


def test_content_is_left_out_where_it_was_not_kept() -> None:
    event = json.loads(saved(healthy()))["runs"][0]["trace"]["events"][0]
    assert "data" not in event
    assert "text" not in event
    assert "server_ns" in event


def test_unknown_keys_are_ignored_because_the_schema_grows() -> None:
    assert decode_document(changed("runs.0.report.novelty", 1)).runs


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"[" * 100_000,
        changed("schema", "other/1"),
        changed("runs.0.trace.spans.0.stage", "warp"),
        changed("runs.0.trace.arrivals.0.size", 10**30),
        changed("runs.0.trace.arrivals.0.size", -1),
        changed("runs.0.trace.events.0.tokens", 2**40),
        changed("runs.0.trace.events.0.at_ns", 10**30),
        changed("runs.0.trace.facts", {}),
    ],
)
def test_a_file_that_is_no_document_is_refused_in_words(raw: bytes) -> None:
    with pytest.raises(UsageError) as caught:
        decode_document(raw)
    assert caught.value.expected


def journal() -> bytes:
    """The journal of a run that was killed."""
    log, trace = EventLog(), healthy().build()
    lines = [journal_head(trace.clock, PLAN)]
    log.observe(lambda row: lines.append(encode_row(row)))
    span = log.start_span(trace.spans[0].stage, "resolve", 0)
    log.end_span(span, 5)
    for at in range(3):
        stamp = Stamp(at, at, at, Clock.KERNEL, True)
        log.add_event(EventKind.TEXT, stamp, stamp, tokens=1, chars=1, size_bytes=9)
    return b"".join(lines)


def test_a_torn_journal_gives_what_was_whole() -> None:
    plan, trace = decode_journal(journal()[:-4])
    assert plan == PLAN
    assert len(trace.spans) == 1
    assert len(trace.events) == 2
    assert trace.truncated


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_journal_is_read_or_refused_and_never_crashes(data: st.DataObject) -> None:
    lines = journal().split(b"\n")
    index = data.draw(st.integers(0, len(lines) - 2))
    cells = json.loads(lines[index])
    if isinstance(cells, list):
        place = data.draw(st.integers(0, len(cells) - 1))
        cells[place] = data.draw(
            st.none() | st.integers() | st.text(max_size=3) | st.just([]) | st.just({})
        )
    else:
        cells[data.draw(st.sampled_from(sorted(cells)))] = data.draw(st.integers() | st.none())
    lines[index] = json.dumps(cells).encode()
    try:
        plan, trace = decode_journal(b"\n".join(lines))
    except UsageError:
        return
    assert isinstance(trace, Trace)
    diagnose(trace, plan)


KEYS = sorted(value for name, value in vars(names).items() if name.isupper())
INNER = (
    "type name conn to outcome rcode family kind state code how status scope place duration_ns"
    " message system resolver truncated max_early_data_bytes not_after_unix_s complete group"
    " marker_expected marker_seen pending_bytes output_tokens counted source stage value verified"
    " error checked offered accepted alpn protocol retry_after_s min_rtt_us head_bytes count"
).split(" ")
ANY_FACT = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(INNER), inner, max_size=6)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), ANY_FACT), max_size=8))
def test_facts_of_any_shape_are_judged_without_a_crash(facts: list[tuple[str, Any]]) -> None:
    for trip in (healthy(), opened()):
        for key, value in facts:
            trip.fact(key, value)
        diagnose(trip.build(), PLAN)


@given(st.text())
def test_json_holds_no_character_that_a_terminal_obeys_and_means_the_same(text: str) -> None:
    written = encode({"text": text, "more": "\x7f\x9b31m\u202e\u2066\ufeff\u200b"})
    shown = written.decode()
    assert printable(shown) == shown
    assert json.loads(written)["text"] == text
