"""Between the head and the queue: prompts, and who waits for them."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from reference_server.app import ReferenceApp, create_app
from reference_server.clock import monotonic_ns
from reference_server.text.model_text import ModelText
from reference_server.text.prompt import Message, PacedText, Prompt, PromptText
from tests.reference_server.api.scripted import ScriptedEngine, steps
from tests.reference_server.harness import MODEL, QUESTION, Answer, Client, chat, in_loop
from tests.reference_server.text.tiny import model_text, vocabulary


async def _ask(text: PromptText, path: str, body: dict[str, Any], engine: Any = None) -> Answer:
    service = create_app()._service
    changed = dataclasses.replace(service, text=text, engine=engine or ScriptedEngine(steps("a")))
    return await Client(ReferenceApp(changed), monotonic_ns).ask("POST", path, body)


class _Noting(PacedText):
    """Says whether it was called in the event loop's thread."""

    def __init__(self) -> None:
        self.in_loop: list[bool] = []

    def chat(self, messages: Sequence[Message], limit: int) -> Prompt:
        self.in_loop.append(threading.current_thread() is threading.main_thread())
        return super().chat(messages, limit)


@in_loop
async def test_a_long_prompt_is_tokenized_beside_the_event_loop() -> None:
    text = _Noting()
    for size in (100, 100_000):
        messages = [{"role": "user", "content": "x" * size}]
        assert (await _ask(text, "/v1/chat/completions", chat(messages=messages))).status == 200
    assert text.in_loop == [True, False]


@in_loop
async def test_the_engine_is_given_the_models_tokens_and_where_they_end() -> None:
    text, engine = model_text(), ScriptedEngine(steps("a"))
    body = chat(stop=["x"], cache_salt="s", priority=3, seed=9, temperature=0.5)
    assert (await _ask(text, "/v1/chat/completions", body, engine)).status == 200
    (request,) = engine.requests
    assert request.prompt_ids == text.chat([Message("user", (QUESTION,))], 10**6).ids
    assert request.prompt_tokens == len(request.prompt_ids)
    assert (request.stop, request.stop_ids) == (("x",), (0, 2))
    assert (request.cache_salt, request.priority, request.params.seed) == ("s", 3, 9)


@in_loop
async def test_a_completion_is_continued_without_a_template() -> None:
    text, engine = model_text(), ScriptedEngine(steps("a"))
    body = {"model": MODEL, "prompt": QUESTION, "max_tokens": 1}
    assert (await _ask(text, "/v1/completions", body, engine)).status == 200
    assert list(engine.requests[0].prompt_ids) == text.tokenizer.encode(QUESTION)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/completions", {"model": MODEL, "prompt": ""}, "prompt"),
        ("/v1/chat/completions", chat(), "messages"),
        ("/v1/responses", {"model": MODEL, "input": QUESTION}, "input"),
    ],
)
def test_what_the_model_has_no_form_for_is_a_400(
    path: str, body: dict[str, Any], param: str
) -> None:
    template = {"tokenizer.chat_template": "{{ raise_exception('no such role') }}"}
    answer = asyncio.run(_ask(ModelText(vocabulary(**template)), path, body))
    error = answer.json()["error"]
    assert (answer.status, error["code"], error["param"]) == (400, "invalid_prompt", param)
