"""The fixture streams, whole, byte by byte and in random pieces, and the recorded ones beside the
project when they are there: each gives what its index says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.dialect.meter import EventRow, StreamMeter
from promptpath.model import names
from promptpath.model.enums import EventKind
from tests.dialect.streams import FIXTURES, SHARED, metered, visible_text

EXPECTED: dict[str, dict[str, Any]] = json.loads((FIXTURES / "expected.json").read_text())


def found(meter: StreamMeter, rows: list[EventRow]) -> dict[str, Any]:
    """What a stream gave, under the names of expected.json."""
    facts = meter.finish_facts(None)
    usage = meter.usage
    return {
        "dialect": meter.dialect.name if meter.dialect_known else None,
        "because": meter.because if meter.dialect_known else None,
        "text": visible_text(rows),
        "reasoning_len": meter.chars.get(EventKind.REASONING, 0),
        "tool_len": meter.chars.get(EventKind.TOOL, 0),
        "refusal_len": meter.chars.get(EventKind.REFUSAL, 0),
        "finish": meter.finish,
        "usage": None
        if usage is None
        else [
            usage.input_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cached_tokens,
        ],
        "comments": meter.kinds.get(EventKind.COMMENT, 0),
        "pings": meter.kinds.get(EventKind.PING, 0),
        "errors": [
            [value["shape"], value["code"], value["type"], value["message"]]
            for key, value, _ in facts
            if key == names.STREAM_ERROR
        ],
        "end_marker": meter.marker is not None,
        "marker_expected": meter.marker_expected,
        "pending_bytes": meter.pending_bytes,
        "malformed": meter.malformed,
        "timings": {
            value["name"]: [value["scope"], value["duration_ns"]]
            for key, value, _ in facts
            if key == names.SERVER_TIMING
        },
        "counts": {
            value["name"]: value["value"] for key, value, _ in facts if key == names.SERVER_COUNT
        },
    }


def check(name: str, cuts: tuple[int, ...] = ()) -> None:
    expected = dict(EXPECTED[name])
    body = (FIXTURES / name).read_bytes()
    got = found(*metered(body, expected.pop("content_type"), cuts))
    if expected["pending_bytes"] is None:
        assert got.pop("pending_bytes") > 0
        del expected["pending_bytes"]
    for part in ("timings", "counts"):
        wanted = expected.pop(part, {})
        assert wanted.items() <= got[part].items()
    assert {key: got[key] for key in expected} == expected


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_fixture_stream_gives_what_its_index_says(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_fixture_stream_gives_the_same_byte_by_byte(name: str) -> None:
    check(name, tuple(range((FIXTURES / name).stat().st_size)))


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_a_fixture_stream_gives_the_same_in_random_pieces(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(EXPECTED)))
    size = (FIXTURES / name).stat().st_size
    check(name, tuple(data.draw(st.lists(st.integers(0, size), max_size=8))))


def test_every_fixture_stream_is_in_the_index() -> None:
    assert sorted(path.name for path in FIXTURES.iterdir() if path.suffix != ".json") == sorted(
        EXPECTED
    )


# -- recorded streams, outside of the project -----------------------------------------------------

OWN = [
    "openai-chat",
    "azure-openai",
    "anthropic",
    "groq",
    "deepseek",
    "openrouter",
    "mistral",
    "llama-box",
    "litellm",
]
OWN += ["hf-router", "perplexity"]
"""Dialects of this version; the rest are read by a generic dialect."""
PLACEHOLDER = {"anthropic/tool_use.sse": 2}
"""The index counts the `input: {}` of content_block_start as tool text; it is a placeholder, which
the pieces of partial_json replace (here one, empty)."""


def recordings() -> list[dict[str, str]]:
    index = SHARED / "streams" / "INDEX.tsv"
    if not index.is_file():
        return []
    with index.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def as_index(meter: StreamMeter, rows: list[EventRow]) -> dict[str, str]:
    """What a stream gave, under the names of INDEX.tsv (which counts refusals as text)."""
    text = "".join(row.text or "" for row in rows if row.kind in ("text", "refusal"))
    usage = meter.usage
    cells = (
        (None,) * 4
        if usage is None
        else (
            usage.input_tokens,
            usage.output_tokens,
            usage.reasoning_tokens,
            usage.cached_tokens,
        )
    )
    return {
        "text_len": str(len(text)),
        "text_first40": text[:40].replace("\n", "\\n").replace('"', '\\"'),
        "reasoning_len": str(meter.chars.get(EventKind.REASONING, 0)),
        "tool_len": str(meter.chars.get(EventKind.TOOL, 0)),
        "finish": str(meter.finish),
        "usage": "in={} out={} reason={} cached={}".format(*cells),
        "comments": str(meter.kinds.get(EventKind.COMMENT, 0)),
        "pings": str(meter.kinds.get(EventKind.PING, 0)),
        "end_marker": "yes" if meter.marker is not None else "no",
    }


def read_recording(recording: dict[str, str]) -> tuple[StreamMeter, list[EventRow]] | None:
    path: Path = SHARED / "streams" / recording["file"]
    body = path.read_bytes()
    try:
        return metered(body, recording["content_type"])
    except AssertionError:  # no frames: a JSON array, a binary event stream
        return None


@pytest.mark.parametrize(
    "recording",
    [r for r in recordings() if r["dialect"] in OWN],
    ids=lambda recording: str(recording["file"]),
)
def test_a_recorded_stream_gives_what_its_index_says(recording: dict[str, str]) -> None:
    result = read_recording(recording)
    assert result is not None
    meter, rows = result
    got = as_index(meter, rows)
    wanted = {key: recording[key] for key in got}
    if recording["file"] in PLACEHOLDER:
        wanted["tool_len"] = str(int(wanted["tool_len"]) - PLACEHOLDER[recording["file"]])
    assert got == wanted
    assert bool(meter.errors) == bool(recording["errors"])
    assert meter.because == "payload"
    assert meter.pending_bytes == 0
    assert meter.malformed == 0
    assert bool(meter.finish_facts(0)) and _has_timings(meter) == bool(recording["server_timing"])


def _has_timings(meter: StreamMeter) -> bool:
    return any(key == names.SERVER_TIMING for key, _, _ in meter.finish_facts(None))


@pytest.mark.parametrize(
    "recording",
    [r for r in recordings() if r["dialect"] not in OWN],
    ids=lambda recording: str(recording["file"]),
)
def test_a_recorded_stream_of_another_dialect_is_read_without_claiming_more_than_there_is(
    recording: dict[str, str],
) -> None:
    result = read_recording(recording)
    if result is None:
        return
    meter, rows = result
    got = as_index(meter, rows)
    assert meter.dialect.name in ("generic-sse", "generic-ndjson")
    assert not meter.marker_expected
    for key in ("text_len", "finish", "usage"):
        assert got[key] in (recording[key], "0", "None", "in=None out=None reason=None cached=None")
    assert bool(meter.finish_facts(None)) and bool(meter.errors) == bool(recording["errors"])
