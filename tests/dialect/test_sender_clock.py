"""The sender's own stamp in a frame: one test a shape, and what is no stamp."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.dialect.base import Dialect
from promptpath.dialect.calibration import CALIBRATION
from promptpath.dialect.generic_ndjson import GENERIC_NDJSON
from promptpath.dialect.generic_sse import GENERIC_SSE
from promptpath.dialect.openai_chat import OPENAI_CHAT
from promptpath.dialect.payload import INT64_MAX
from promptpath.dialect.sender_clock import comment_stamp, timestamp_ns
from promptpath.model.enums import EventKind
from promptpath.wire.frame import FrameKind
from tests.dialect.streams import SHARED, event, means, metered

NOON_NS = 1_767_268_800 * 10**9
"""2026-01-01T12:00:00Z."""
OLLAMA = SHARED / "streams" / "ollama" / "chat.ndjson"
NOVITA = SHARED / "streams" / "hf-router" / "novita_sla_metrics.sse"


@pytest.mark.parametrize(
    ("text", "after_noon_ns"),
    [
        ("2026-01-01T12:00:00Z", 0),
        ("2026-01-01t12:00:00.5z", 500_000_000),
        ("2026-01-01T12:00:00.123Z", 123_000_000),
        ("2026-01-01T12:00:00.123456789Z", 123_456_789),
        ("2026-01-01T12:00:00.1234567899Z", 123_456_789),
        ("2026-01-01T14:00:00.000000001+02:00", 1),
        ("2026-01-01T07:30:00.25-04:30", 250_000_000),
        ("2026-01-01 12:00:00.123456+00:00", 123_456_000),
        ("2026-01-01T12:00:00.123456", 123_456_000),
    ],
)
def test_a_timestamp_is_read_to_the_nanosecond(text: str, after_noon_ns: int) -> None:
    assert timestamp_ns(text) == NOON_NS + after_noon_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-13-01T12:00:00Z",
        "2026-01-01T12:00:60Z",
        "2026-01-01T12:00:00.Z",
        "2026-01-01T12:00:00+25:00",
        "1969-12-31T23:59:59Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59Z",
        "\uff12026-01-01T12:00:00Z",
        "2026-01-01T12:00:00Z\n",
        "2026-01-01T12:00:00." + "1" * 100 + "Z",
    ],
)
def test_what_is_no_time_or_fits_no_column_is_no_stamp(text: str) -> None:
    assert timestamp_ns(text) is None


@given(st.datetimes(datetime(1970, 1, 1), datetime(2262, 1, 1), timezones=st.just(UTC)))
def test_any_time_python_writes_is_read_back(moment: datetime) -> None:
    found = timestamp_ns(moment.isoformat())
    assert found is not None
    assert datetime.fromtimestamp(found // 10**9, UTC) == moment.replace(microsecond=0)
    assert found % 10**9 == moment.microsecond * 1000


@given(st.text(max_size=70))
def test_no_text_makes_it_fail(text: str) -> None:
    for value in (timestamp_ns(text), comment_stamp(b"ping - " + text.encode())):
        assert value is None or 0 <= value <= INT64_MAX


STAMP = {"created_at": "2026-01-01T12:00:00.123Z"}
OURS = {"promptpath": {"sent_ns": 7}}


@pytest.mark.parametrize(
    ("dialect", "payload", "server_ns"),
    [
        (  # Ollama
            GENERIC_NDJSON,
            {"created_at": "2026-01-01T12:00:00.294874001Z", "message": {"content": "a"}},
            NOON_NS + 294_874_001,
        ),
        (
            GENERIC_NDJSON,
            {"created_at": "2026-01-01T12:00:00.5Z", "error": "gone"},
            NOON_NS + 500_000_000,
        ),
        (  # watsonx
            GENERIC_SSE,
            {**STAMP, "results": [{"generated_text": "a", "stop_reason": "not_finished"}]},
            NOON_NS + 123_000_000,
        ),
        (OPENAI_CHAT, {**STAMP, "choices": [{"delta": {"content": "a"}}]}, NOON_NS + 123_000_000),
        (  # Novita
            OPENAI_CHAT,
            {"choices": [], "sla_metrics": {"ts_us": 1_786_507_380_308_596}},
            1_786_507_380_308_596_000,
        ),
        (CALIBRATION, {**OURS, "kind": "tick"}, 7),
        (OPENAI_CHAT, {**OURS, **STAMP, "choices": []}, 7),
        (ANTHROPIC, {**OURS, "type": "content_block_delta", "delta": {}}, 7),
        (OPENAI_CHAT, {"created": 1_786_507_380, "choices": []}, None),
        (OPENAI_CHAT, {"created_at": 1_786_507_380, "choices": []}, None),
        (OPENAI_CHAT, {"sla_metrics": {"ts_us": INT64_MAX}, "choices": []}, None),
    ],
)
def test_each_shape_of_stamp_is_read(
    dialect: Dialect, payload: object, server_ns: int | None
) -> None:
    assert means(dialect, payload).server_ns == server_ns


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC, GENERIC_SSE, CALIBRATION])
@pytest.mark.parametrize(
    ("comment", "server_ns"),
    [
        (b"ping - 2026-01-01 12:00:00.123456+00:00", NOON_NS + 123_456_000),
        (b"ping - 2026-01-01 12:00:00+00:00", NOON_NS),
        (b"ping", None),
        (b"ping - soon", None),
        (b"ping - \xff", None),
        (b"ping - " + b" " * 100 + b"2026-01-01 12:00:00+00:00", None),
        (b"OPENROUTER PROCESSING", None),
    ],
)
def test_a_ping_comment_says_when_it_was_sent(
    dialect: Dialect, comment: bytes, server_ns: int | None
) -> None:
    meaning = dialect.reader().read(event(comment, kind=FrameKind.COMMENT))
    assert (meaning.kind, meaning.server_ns) == (EventKind.COMMENT, server_ns)


def test_a_comment_on_the_wire_keeps_its_stamp_to_itself() -> None:
    body = b': ping - 2026-01-01 12:00:00+00:00\r\n\r\ndata: {"text":"a"}\r\n\r\n'
    _, rows = metered(body)
    assert [(row.kind, row.server_ns) for row in rows] == [
        (EventKind.COMMENT, NOON_NS),
        (EventKind.TEXT, None),
    ]


@pytest.mark.skipif(not OLLAMA.exists(), reason="the recordings are not beside the project")
def test_every_chunk_of_the_recorded_ollama_stream_has_its_stamp() -> None:
    _, rows = metered(OLLAMA.read_bytes(), "application/x-ndjson")
    stamps = [row.server_ns for row in rows if row.server_ns is not None]
    assert len(stamps) == len(rows) > 8
    assert stamps == sorted(set(stamps))
    assert stamps[0] == 1_716_582_406_294_874_000


@pytest.mark.skipif(not NOVITA.exists(), reason="the recordings are not beside the project")
def test_every_chunk_of_the_recorded_novita_stream_has_its_stamp() -> None:
    _, rows = metered(NOVITA.read_bytes())
    assert [row.kind for row in rows if row.server_ns is None] == [EventKind.END]
