"""The sampling fields: what is taken over, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from reference_server.api.errors import ApiError
from reference_server.api.sampling import chat_logprobs, sampling
from reference_server.engine.plan import SamplingParams
from tests.reference_server.harness import QUESTION, ask


def _read(**fields: Any) -> Any:
    return sampling(fields, hottest=2, stop="stop", top_logprobs=None)


def test_the_default_is_greedy_with_a_seed_of_its_own() -> None:
    first, second = _read(), _read()
    assert (first.params.temperature, first.params.top_p, first.params.top_k) == (0.0, 1.0, 0)
    assert first.params.seed != second.params.seed
    assert (first.stop, first.cache_salt, first.priority) == ((), "", 0)


def test_what_is_given_is_taken_over() -> None:
    read = _read(
        temperature=1,
        top_p=0.9,
        top_k=40,
        seed=7,
        stop=["a", "b"],
        cache_salt="s",
        priority=-3,
    )
    assert read.params == SamplingParams(1.0, 0.9, 40, 7)
    assert (read.stop, read.cache_salt, read.priority) == (("a", "b"), "s", -3)


def test_one_stop_text_needs_no_list() -> None:
    assert _read(stop="\n\n").stop == ("\n\n",)


def test_a_negative_seed_and_all_tokens_by_minus_one_are_taken() -> None:
    assert 0 <= _read(seed=-1).params.seed < 2**63
    assert _read(seed=-1).params.seed == _read(seed=-1).params.seed
    assert _read(top_k=-1).params.top_k == 0


_WRONG: dict[str, list[object]] = {
    "temperature": [-0.1, 2.1, "1", True, float("nan"), 10**400],
    "top_p": [0, 1.1, float("nan"), "x"],
    "top_k": [-2, 1.5, 10**7],
    "seed": [2**63, -(2**63) - 1, "1", 1.0],
    "stop": ["", [""], ["a"] * 5, [1], {}, "x" * 257, "\ud800"],
    "cache_salt": ["", 5, "x" * 129, "\udc00"],
    "priority": [True, 0.5, 10**7],
}


@pytest.mark.parametrize("name", _WRONG)
def test_what_is_wrong_is_refused_by_name(name: str) -> None:
    for value in _WRONG[name]:
        with pytest.raises(ApiError) as caught:
            _read(**{name: value})
        assert caught.value.status == 400 and caught.value.param == name


def test_logprobs_are_a_wish_with_a_number_of_alternatives() -> None:
    assert chat_logprobs({}) is None and chat_logprobs({"logprobs": False}) is None
    assert chat_logprobs({"logprobs": True}) == 0
    assert chat_logprobs({"logprobs": True, "top_logprobs": 20}) == 20


@pytest.mark.parametrize(
    "fields",
    [
        {"top_logprobs": 1},
        {"logprobs": True, "top_logprobs": 21},
        {"logprobs": 1},
        {"logprobs": True, "top_logprobs": -1},
    ],
)
def test_wrong_logprobs_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ApiError):
        chat_logprobs(fields)


def test_not_a_number_in_a_body_is_no_json() -> None:
    body = b'{"model": "promptpath-paced", "temperature": NaN, "messages": []}'
    answer = ask("POST", "/v1/chat/completions", body)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_json")


@pytest.mark.parametrize(
    ("path", "prompt"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}]}),
        ("/v1/completions", {"prompt": QUESTION}),
        ("/v1/messages", {"messages": [{"role": "user", "content": QUESTION}]}),
        ("/v1/responses", {"input": QUESTION}),
    ],
)
@pytest.mark.parametrize("limit", [0, -1, 10**9, 1.5, "4", True])
def test_a_limit_that_is_none_is_refused_everywhere(
    path: str, prompt: dict[str, Any], limit: object
) -> None:
    name = "max_output_tokens" if path.endswith("responses") else "max_tokens"
    answer = ask("POST", path, {"model": "promptpath-paced", name: limit, **prompt})
    assert answer.status == 400
