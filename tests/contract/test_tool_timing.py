"""The tool reads all of the timing contract: docs/contract/timing-1.schema.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.dialect.anthropic import ANTHROPIC
from promptpath.dialect.base import Dialect, Meaning
from promptpath.dialect.openai_chat import OPENAI_CHAT
from promptpath.dialect.server_timings import FAMILIES, header_timings
from promptpath.model.names import SERVER_TIMING
from promptpath.model.plan import Plan, Target
from tests.dialect.streams import means, metered
from tests.reference_server.harness import MODEL, ask

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/contract/timing-1.schema.json").read_text())
STAGES = SCHEMA["$defs"]["timings"]["properties"]
TIMES = [name for name in STAGES if name.endswith("_ms")]
STAMP = {"seq": 7, "sent_ns": 1_000, "step": 3, "batch": 2}
TIMINGS: dict[str, Any] = {
    "schema": "promptpath.timing/1",
    **{name: number + 0.5 for number, name in enumerate(TIMES)},
    "prompt_n": 9,
    "cached_n": 4,
    "predicted_n": 5,
}


def timed(dialect: Dialect) -> Meaning:
    """The event that carries the timings, as this dialect's servers send it."""
    payload: dict[str, Any] = {"promptpath": STAMP, "timings": TIMINGS}
    jsonschema.validate(payload, SCHEMA)
    if dialect is ANTHROPIC:
        return means(dialect, payload | {"type": "promptpath.timings"}, "promptpath.timings")
    return means(dialect, payload | {"choices": []})


def test_every_time_of_the_contract_is_in_the_table() -> None:
    known = {
        name for family in FAMILIES if family.path == ("timings",) for name, _ in family.fields
    }
    assert set(TIMES) <= known


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC], ids=lambda dialect: dialect.name)
def test_the_last_event_gives_every_stage_once_and_the_counts(dialect: Dialect) -> None:
    meaning = timed(dialect)
    found = {timing.name: timing.duration_ns for timing in meaning.timings}
    assert found == {f"timings.{name}": round(TIMINGS[name] * 1e6) for name in TIMES}
    scopes = [timing.scope for timing in meaning.timings if timing.scope != "other"]
    assert sorted(scopes) == sorted(
        ["auth", "limits", "session", "tokenize", "queue", "prefill", "decode"]
    )
    assert {timing.place for timing in meaning.timings} == {"final"}
    counts = {"prompt_n": 9, "cached_n": 4, "predicted_n": 5, "batch": 2, "step": 3}
    assert dict(meaning.counts) == counts


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC], ids=lambda dialect: dialect.name)
def test_every_event_gives_its_number_and_the_servers_clock(dialect: Dialect) -> None:
    meaning = timed(dialect)
    assert (meaning.seq, meaning.server_ns) == (7, 1_000)


def test_a_stage_that_was_not_reached_is_missing_not_zero() -> None:
    payload = {"choices": [], "timings": {"queue_ms": 1.0, "prefill_ms": None}}
    assert [timing.scope for timing in means(OPENAI_CHAT, payload).timings] == ["queue"]


def test_the_response_header_gives_the_stages_before_the_engine() -> None:
    value = ", ".join(
        f"{name};dur=1.500" for name in "auth read validate limits session tokenize".split()
    )
    jsonschema.validate(value, {**SCHEMA["$defs"]["server_timing"], "$defs": SCHEMA["$defs"]})
    found = [timing.scope for timing in header_timings([("server-timing", value)])]
    assert found == ["auth", "other", "other", "limits", "session", "tokenize"]


@pytest.mark.parametrize("dialect", [OPENAI_CHAT, ANTHROPIC], ids=lambda dialect: dialect.name)
def test_a_real_answer_of_the_reference_server_is_read_whole(dialect: Dialect) -> None:
    target = Target(scheme="http", host="localhost", port=80, path=dialect.path_suffixes[-1])
    asked = dialect.ask(Plan(target=target, model=MODEL, max_tokens=4))
    path = "/v1/messages" if dialect is ANTHROPIC else "/v1/chat/completions"
    answer = ask("POST", path, asked.body, {**dict(asked.headers), "x-promptpath-timing": "1"})
    assert answer.status == 200
    meter, rows = metered(answer.body, answer.headers["content-type"])
    assert (meter.dialect, meter.because) == (dialect, "payload")
    assert (meter.model, meter.malformed, meter.pending_bytes) == (MODEL, 0, 0)
    assert meter.marker is not None and meter.finish is not None and not meter.errors
    assert meter.usage is not None and meter.usage.output_tokens == 4
    texts = [row for row in rows if row.kind == "text"]
    assert len(texts) == 4 and all(row.server_ns is not None for row in texts)
    stamped = [row.seq for row in rows if row.seq is not None]
    assert stamped == list(range(len(stamped)))
    facts = [value for key, value, _ in meter.finish_facts(None) if key == SERVER_TIMING]
    assert {"queue", "prefill", "decode"} <= {value["scope"] for value in facts}
    assert {value["place"] for value in facts} == {"final"}
