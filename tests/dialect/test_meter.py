"""The stream meter: event rows, tokens after the end, facts, and what a hostile stream cannot
do."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.dialect.detect import Framing
from promptpath.dialect.meter import MAX_ERRORS, MAX_FOREIGN_BYTES, StreamMeter
from promptpath.dialect.openai_chat import OPENAI_CHAT
from promptpath.dialect.tokens.count import Count
from promptpath.dialect.tokens.sizes import token_sizes
from promptpath.model import names
from promptpath.model.codec import encode
from promptpath.model.enums import EventKind
from promptpath.model.log import EventLog, Row, replay
from promptpath.wire.frame import FrameKind
from tests.dialect.streams import FIXTURES, event, metered

SSE = "text/event-stream"


def text_chunk(text: str, **more: object) -> bytes:
    return json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode()


def facts_of(meter: StreamMeter, key: str) -> list[object]:
    return [value for found, value, _ in meter.finish_facts(None) if found == key]


def test_rows_go_into_a_log_and_their_tokens_follow_after_the_stream() -> None:
    meter, rows = metered((FIXTURES / "chat_text.sse").read_bytes())
    log, journal = EventLog(), list[Row]()
    log.observe(journal.append)
    for row in rows:
        row.append_to(log)
    counted = meter.write_tokens(log)
    assert counted is not None
    assert (counted.tokens, counted.source) == (5, "o200k_base")
    assert [e.tokens for e in log.events] == [None, 1, 1, 1, 1, 1, None, None, None]
    assert [e.kind for e in log.events[:2]] == [EventKind.ROLE, EventKind.TEXT]
    assert [e.tokens for e in replay(journal).events] == [e.tokens for e in log.events]


def test_tokens_of_a_later_stream_go_to_its_own_events() -> None:
    meter, rows = metered((FIXTURES / "chat_text.sse").read_bytes())
    log = EventLog()
    for row in rows + rows:
        row.append_to(log)
    meter.write_tokens(log, first_row=len(rows))
    assert log.events[1].tokens is None
    assert log.events[len(rows) + 1].tokens == 1


def test_a_stream_without_content_has_no_token_count() -> None:
    meter, rows = metered((FIXTURES / "chat_hidden_reasoning.sse").read_bytes())
    assert rows and meter.write_tokens(EventLog()) is None


def test_text_and_reasoning_in_one_event_are_one_row_with_the_tokens_of_both() -> None:
    meter, rows = metered((FIXTURES / "chat_reasoning_and_text_in_one.sse").read_bytes())
    assert [row.kind for row in rows] == ["role", "text", "finish", "end"]
    assert rows[1].chars == 4
    rows_, tokens = meter.token_counts(token_sizes(meter.texts()))
    assert (list(rows_), list(tokens)) == ([1], [2])


def test_a_vocabulary_nobody_knows_is_an_estimate_and_says_so() -> None:
    meter, rows = metered((FIXTURES / "anthropic_text_ping.sse").read_bytes())
    log = EventLog()
    for row in rows:
        row.append_to(log)
    counted = meter.write_tokens(log)
    assert counted is not None and counted.source == "estimate"


def test_estimated_events_are_brought_in_line_with_usage() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    log = EventLog()
    usage = {"choices": [], "usage": {"completion_tokens": 5}}
    for frame in (*map(text_chunk, ("Ch", "eck", " the", " hold", " timer")), usage):
        for row in meter.feed(event(frame)):
            row.append_to(log)
    assert list(meter.token_counts(token_sizes(meter.texts()))[1]) == [0, 1, 1, 1, 1]
    counted = meter.write_tokens(log)
    assert counted is not None
    assert (counted.source, counted.per_event) == ("estimate", "one-each")
    assert [e.tokens for e in log.events] == [1, 1, 1, 1, 1, None]


def test_an_event_of_several_tokens_gets_those_that_usage_says() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=ANTHROPIC)
    log = EventLog()
    delta = {"type": "text_delta", "text": "Check the hold timer of the peer."}
    for payload in (
        {"type": "content_block_delta", "delta": delta},
        {"type": "message_delta", "usage": {"output_tokens": 9}},
    ):
        for row in meter.feed(event(payload)):
            row.append_to(log)
    counted = meter.write_tokens(log)
    assert counted is not None and counted.per_event == "scaled"
    assert log.events[0].tokens == 9


def test_hidden_reasoning_is_no_token_of_an_event() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    log = EventLog()
    details = {"reasoning_tokens": 90}
    usage = {"completion_tokens": 92, "completion_tokens_details": details}
    for frame in (text_chunk("Router"), text_chunk(" flap"), {"choices": [], "usage": usage}):
        for row in meter.feed(event(frame)):
            row.append_to(log)
    meter.write_tokens(log)
    assert [e.tokens for e in log.events] == [1, 1, None]


def test_the_prompt_has_the_tokens_that_usage_says_else_those_counted() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    assert meter.prompt_tokens(0) is None
    assert meter.prompt_tokens(10) == Count(10, "estimate")
    meter.feed(event({"choices": [], "usage": {"prompt_tokens": 17}}))
    assert meter.prompt_tokens(10) == Count(17, "usage")


def test_tokens_of_many_events_are_noted_in_a_few_rows() -> None:
    """A row an event would be 150 MB at the end of a ten-minute stream."""
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    log, rows = EventLog(), list[Row]()
    for number in range(3000):
        silent: dict[str, object] = {"choices": []}
        frame = silent if number % 3 == 1 or number > 2500 else text_chunk(" timer")
        for row in meter.feed(event(frame)):
            row.append_to(log)
    log.observe(rows.append)
    meter.write_tokens(log)
    assert len(rows) == 3
    expected = [None if n % 3 == 1 or n > 2500 else 1 for n in range(3000)]
    assert [e.tokens for e in log.events] == expected


def test_the_facts_are_json_and_name_what_the_stream_said() -> None:
    meter, _ = metered((FIXTURES / "chat_text.sse").read_bytes())
    facts = {key: value for key, value, _ in meter.finish_facts(7)}
    encode(facts)
    assert facts[names.STREAM_FRAMING] == "sse"
    assert facts[names.STREAM_DIALECT] == {"name": "openai-chat", "because": "payload"}
    assert facts[names.STREAM_MODEL] == "gpt-4o-mini-2024-07-18"
    assert facts[names.STREAM_USAGE]["output_tokens"] == 5
    assert facts[names.STREAM_END] == {
        "marker_expected": True,
        "marker_seen": True,
        "pending_bytes": 0,
        "after_marker_ns": 7,
    }


def test_a_stream_that_sent_no_payload_claims_no_dialect() -> None:
    meter = StreamMeter(Framing.SSE, SSE)
    meter.feed(event(b"hi", kind=FrameKind.COMMENT))
    assert facts_of(meter, names.STREAM_DIALECT) == []
    assert not meter.marker_expected
    assert StreamMeter(Framing.SSE, SSE, prior=ANTHROPIC).marker_expected


def test_content_is_kept_only_when_asked_for() -> None:
    meter = StreamMeter(Framing.SSE, SSE)
    (row,) = meter.feed(event(text_chunk("private words")))
    assert row.data is None and row.text is None
    assert "private" not in repr(meter.finish_facts(None))


def test_a_key_or_an_escape_code_in_far_side_words_is_not_kept() -> None:
    secret = "sk-proj-0123456789abcdef"
    meter = StreamMeter(Framing.SSE, SSE, secrets=(secret, "plainpassword"), keep_content=True)
    message = f"key {secret} plainpassword \x1b[2J"
    (row,) = meter.feed(event({"error": {"message": message}, "model": "\x1b]0;x\x07"}))
    (error,) = facts_of(meter, names.STREAM_ERROR)
    for kept in (repr(error), str(row.data), repr(meter.finish_facts(None))):
        assert secret not in kept and "plainpassword" not in kept and "\x1b" not in kept


def test_the_last_usage_wins_field_by_field() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    for usage in (
        {"prompt_tokens": 9, "completion_tokens": 1},
        {"completion_tokens": 2},
        None,
        {"completion_tokens": 3},
    ):
        meter.feed(event({"choices": [], "usage": usage}))
    assert meter.usage is not None
    assert (meter.usage.input_tokens, meter.usage.output_tokens) == (9, 3)


def test_a_time_sent_on_every_chunk_is_one_fact() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    for ttft_ms in (1, 2, 3):
        meter.feed(event({"choices": [{}], "sla_metrics": {"ttft_ms": ttft_ms}}))
    assert facts_of(meter, names.SERVER_TIMING) == [
        {
            "scope": "ttft",
            "duration_ns": 3_000_000,
            "name": "sla_metrics.ttft_ms",
            "place": "chunk",
        }
    ]


def test_the_largest_batch_of_the_stream_is_kept() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    for batch in (2, 8, 3):
        meter.feed(event({"choices": [], "promptpath": {"batch": batch, "seq": 1, "sent_ns": 5}}))
    assert facts_of(meter, names.SERVER_COUNT) == [{"name": "batch", "value": 8}]


def test_bytes_left_over_at_the_end_are_no_event() -> None:
    meter = StreamMeter(Framing.SSE, SSE)
    assert meter.feed(event(b'{"choices"', kind=FrameKind.UNFINISHED)) == []
    assert meter.pending_bytes == 18
    assert meter.rows == 0


def test_an_endless_stream_of_errors_and_foreign_bytes_is_bounded() -> None:
    meter = StreamMeter(Framing.SSE, SSE)
    for _ in range(50):
        meter.feed(event(b"<" * 10_000, kind=FrameKind.FOREIGN))
        meter.feed(event({"error": {"message": "again"}}))
    assert len(meter.errors) == MAX_ERRORS
    assert len(meter._foreign) <= MAX_FOREIGN_BYTES + 1


@pytest.mark.slow
def test_a_long_stream_costs_a_dozen_bytes_an_event() -> None:
    meter = StreamMeter(Framing.SSE, SSE, forced=OPENAI_CHAT)
    frame = event(text_chunk("four"))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(5_000):
        meter.feed(frame)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / 5_000 < 20


@given(st.binary(max_size=400), st.sampled_from([SSE, "application/x-ndjson"]))
def test_any_body_is_metered_and_its_facts_are_json(body: bytes, content_type: str) -> None:
    meter, rows = metered(body, content_type)
    log = EventLog()
    for row in rows:
        row.append_to(log)
    encode(meter.finish_facts(1, meter.write_tokens(log)))


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: ",
                b"\n\n",
                b'{"choices":[{"delta":{"content":"',
                b'"}}]}',
                b"[DONE]",
                b": x",
                b"event: error",
                b"\n",
                b'{"type":"message_start"}',
                b"\xff\x00",
            ]
        ),
        max_size=25,
    )
)
def test_any_order_of_stream_parts_is_metered(parts: list[bytes]) -> None:
    body = b"".join(parts)
    whole = [row[0:1] + row[3:] for row in metered(body)[1]]
    bytewise = [row[0:1] + row[3:] for row in metered(body, cuts=range(len(body)))[1]]
    assert whole == bytewise
