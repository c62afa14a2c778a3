"""OpenAI completions, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from reference_server.engine.generation import TokenLogprob
from tests.reference_server.api.scripted import ScriptedEngine, ask_scripted, steps
from tests.reference_server.harness import MODEL, QUESTION, ask, data_lines

PATH = "/v1/completions"


def _request(**more: Any) -> dict[str, Any]:
    return {"model": MODEL, "prompt": QUESTION, "max_tokens": 3, **more}


def test_a_stream_has_texts_the_reason_and_the_marker() -> None:
    answer = ask("POST", PATH, _request(stream=True))
    events = answer.events()
    assert [e["choices"][0]["text"] for e in events] == ["A", " BGP", " session", ""]
    assert [e["choices"][0]["finish_reason"] for e in events] == [None] * 3 + ["length"]
    assert {e["object"] for e in events} == {"text_completion"}
    assert events[0]["id"].startswith("cmpl-") and len({e["id"] for e in events}) == 1
    assert data_lines(answer.body)[-1] == b"[DONE]"


def test_usage_comes_last_when_asked_for() -> None:
    body = _request(stream=True, stream_options={"include_usage": True})
    last = ask("POST", PATH, body).events()[-1]
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 8 + 3


def test_not_streamed_it_is_one_document() -> None:
    document = ask("POST", PATH, _request(prompt=[QUESTION], stop=" session")).json()
    (choice,) = document["choices"]
    assert choice == {"index": 0, "text": "A BGP", "logprobs": None, "finish_reason": "stop"}
    assert document["usage"]["prompt_tokens"] == 8


def test_timings_are_in_the_last_chunk_on_request() -> None:
    answer = ask("POST", PATH, _request(stream=True), {"x-promptpath-timing": "1"})
    assert answer.events()[-1]["timings"]["predicted_n"] == 3


def test_probabilities_have_offsets_into_the_answer() -> None:
    said = [[TokenLogprob(b"ab", -1.0)], [TokenLogprob(b"c", -2.0)]]
    engine = ScriptedEngine(steps("ab", "c", logprobs=said))
    events = ask_scripted(engine, PATH, _request(stream=True, logprobs=0)).events()
    forms = [e["choices"][0]["logprobs"] for e in events]
    assert [form and form["text_offset"] for form in forms] == [[0], [2], None]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"prompt": None}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": [[1]]}, "prompt"),
        ({"n": 2}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"echo": True}, "echo"),
        ({"suffix": "x"}, "suffix"),
        ({"logprobs": 6}, "logprobs"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"logprobs": 1}, "logprobs"),  # The paced engine has none.
        ({"stream_options": 5}, "stream_options"),
    ],
)
def test_what_is_wrong_or_not_supported_is_refused(change: dict[str, Any], param: str) -> None:
    answer = ask("POST", PATH, _request(**change))
    assert (answer.status, answer.json()["error"]["param"]) == (400, param)


def test_an_error_within_the_stream_has_openais_shape() -> None:
    engine = ScriptedEngine(steps("a"), failure="engine_error")
    answer = ask_scripted(engine, PATH, _request(stream=True))
    assert answer.status == 200 and answer.events()[-1]["error"]["code"] == "engine_error"
    assert data_lines(answer.body)[-1] == b"[DONE]"
