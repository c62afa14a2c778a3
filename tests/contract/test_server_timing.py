"""The reference server keeps the timing contract: docs/contract/timing-1.schema.json."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from reference_server.engine.generation import Generation, GenerationRequest, Stages
from reference_server.timing import Timeline, final_timings
from tests.reference_server.harness import MODEL, QUESTION, Answer, ask, chat

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs/contract/timing-1.schema.json").read_text())
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
TIMED = {"x-promptpath-timing": "1"}


def _validator(definition: str | None = None) -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    if definition is None:
        return jsonschema.Draft202012Validator(SCHEMA)
    return jsonschema.Draft202012Validator(
        {**SCHEMA["$defs"][definition], "$defs": SCHEMA["$defs"]}
    )


def _anthropic() -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": MODEL, "messages": messages, "max_tokens": 4, "stream": True}


def _answers() -> list[Answer]:
    usage = chat(stream_options={"include_usage": True})
    return [
        ask("POST", CHAT, chat(), TIMED),
        ask("POST", CHAT, usage, TIMED),
        ask("POST", MESSAGES, _anthropic(), TIMED),
        ask("POST", "/v1/completions", {**_short("max_tokens"), "prompt": QUESTION}, TIMED),
        ask("POST", "/v1/responses", {**_short("max_output_tokens"), "input": QUESTION}, TIMED),
    ]


def _short(limit: str) -> dict[str, Any]:
    return {"model": MODEL, limit: 4, "stream": True}


@pytest.mark.parametrize("number", range(5))
def test_every_event_fits_the_schema_and_timings_come_once_before_the_end(number: int) -> None:
    events = _answers()[number].events()
    for event in events:
        _validator().validate(event)
    with_timings = [index for index, event in enumerate(events) if "timings" in event]
    last = len(events) - (2 if events[-1].get("type") == "message_stop" else 1)
    assert with_timings == [last]


@pytest.mark.parametrize("path", ["/promptpath/calibrate?events=3", "/promptpath/silence?at=body"])
def test_the_test_streams_carry_the_same_stamp(path: str) -> None:
    for event in ask("GET", path).events():
        _validator().validate(event)


@pytest.mark.parametrize("body", [chat(), chat(stream=False)])
def test_the_response_headers_are_those_of_the_contract(body: dict[str, Any]) -> None:
    headers = ask("POST", CHAT, body).headers
    _validator("server_timing").validate(headers["server-timing"])
    names = [part.partition(";")[0] for part in headers["server-timing"].split(", ")]
    assert names == ["auth", "read", "validate", "limits", "session", "tokenize"]
    if body["stream"]:
        assert headers["cache-control"] == "no-cache, no-transform"
        assert headers["x-accel-buffering"] == "no"


def test_the_stages_add_up_to_the_time_from_received_to_last_token() -> None:
    for answer in _answers():
        (timings,) = [event["timings"] for event in answer.events() if "timings" in event]
        stages = "auth read validate limits session tokenize queue prefill decode".split()
        total_ms = sum(timings[f"{stage}_ms"] for stage in stages)
        whole_ns = timings["last_token_ns"] - timings["received_ns"]
        assert total_ms == pytest.approx(whole_ns / 1e6, abs=1e-6)
        assert timings["prefill_ms"] == pytest.approx(44, abs=0.001)
        assert timings["decode_ms"] == pytest.approx(60, abs=0.001)


def test_timings_of_a_request_that_never_ran_fit_too() -> None:
    generation = Generation(GenerationRequest("r", 8, 5), Stages(4), 5, lambda: None)
    timings = final_timings(Timeline(0, lambda: 4), generation)
    timings["tokenize_ms"] = None
    _validator("timings").validate(timings)


def test_the_clock_fits_the_schema() -> None:
    _validator("clock").validate(ask("GET", "/promptpath/clock").json())


def test_the_schema_refuses_what_breaks_the_contract() -> None:
    good = _answers()[0].events()[-1]
    broken: list[dict[str, Any]] = [
        {**good, "promptpath": {**good["promptpath"], "seq": -1}},
        {**good, "promptpath": {**good["promptpath"], "sent_ns": 1.5}},
        {**good, "promptpath": {"seq": 1}},
        {**good, "timings": {**good["timings"], "queue_ms": -1}},
        {**good, "timings": {**good["timings"], "schema": "promptpath.timing/2"}},
    ]
    for event in broken:
        assert not _validator().is_valid(event)


def test_the_wheel_is_told_to_ship_the_contract() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shipped = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert shipped["docs/contract"] == "reference_server/contract"
