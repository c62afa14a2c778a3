"""The official clients of OpenAI and Anthropic against the running server."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from reference_server.settings import EngineSettings, PaceSettings, Settings
from tests.peers.require import unavailable
from tests.reference_server.harness import MODEL, QUESTION, in_loop, serving

_FAST = PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1)
_KEY = "sk-of-a-test"
USER: Any = [{"role": "user", "content": QUESTION}]


def _client(name: str) -> Any:
    """The vendor's package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        unavailable(f"{name} is not installed", "pip install -e '.[dev]'")


@asynccontextmanager
async def _openai(settings: Settings | None = None) -> AsyncIterator[Any]:
    openai = _client("openai")
    async with (
        serving(settings=settings or Settings(pace=_FAST)) as server,
        openai.AsyncOpenAI(
            base_url=f"{server.url}/v1", api_key=_KEY, max_retries=0, timeout=30
        ) as client,
    ):
        yield client


@asynccontextmanager
async def _anthropic(settings: Settings | None = None) -> AsyncIterator[Any]:
    anthropic = _client("anthropic")
    async with (
        serving(settings=settings or Settings(pace=_FAST)) as server,
        anthropic.AsyncAnthropic(
            base_url=server.url, api_key=_KEY, max_retries=0, timeout=30
        ) as client,
    ):
        yield client


@in_loop
async def test_openais_client_streams_a_chat() -> None:
    async with _openai() as client:
        stream = await client.chat.completions.create(
            model=MODEL,
            messages=USER,
            max_tokens=4,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == "A BGP session flaps"
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].usage.total_tokens == 8 + 4


@in_loop
async def test_openais_client_takes_a_whole_chat_with_a_stop_text() -> None:
    async with _openai() as client:
        answer = await client.chat.completions.create(
            model=MODEL, messages=USER, temperature=0.7, top_p=0.9, seed=1, stop=[" flaps"]
        )
    assert answer.choices[0].message.content == "A BGP session"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.prompt_tokens_details.cached_tokens == 0


@in_loop
async def test_openais_client_continues_a_text() -> None:
    async with _openai() as client:
        whole = await client.completions.create(model=MODEL, prompt=QUESTION, max_tokens=2)
        stream = await client.completions.create(
            model=MODEL, prompt=QUESTION, max_tokens=2, stream=True
        )
        pieces = [chunk.choices[0].text async for chunk in stream]
    assert whole.choices[0].text == "".join(pieces) == "A BGP"


@in_loop
async def test_openais_client_reads_responses() -> None:
    async with _openai() as client:
        whole = await client.responses.create(model=MODEL, input=QUESTION, max_output_tokens=3)
        async with client.responses.stream(
            model=MODEL, input=USER, instructions="Be brief.", max_output_tokens=3
        ) as stream:
            kinds = [event.type async for event in stream]
    assert whole.output_text == "A BGP session" and whole.status == "incomplete"
    assert whole.usage.input_tokens == 8
    assert kinds[0] == "response.created" and kinds[-1] == "response.incomplete"
    assert kinds.count("response.output_text.delta") == 3


@in_loop
async def test_openais_client_lists_the_model_and_understands_errors() -> None:
    openai = _client("openai")
    settings = Settings(pace=_FAST, engine=EngineSettings(slots=1, queue_limit=0))
    async with _openai(settings) as client:
        models = [model.id async for model in client.models.list()]
        assert models == [MODEL]
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="gpt-none", messages=USER)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.chat.completions.create(model=MODEL, messages=USER, max_tokens=0)
        assert wrong.value.param == "max_tokens"
        with pytest.raises(openai.NotFoundError):
            await client.embeddings.create(model=MODEL, input="x")
        stream = await client.chat.completions.create(
            model=MODEL, messages=USER, max_tokens=100_000, stream=True
        )
        with pytest.raises(openai.RateLimitError) as full:
            await client.chat.completions.create(model=MODEL, messages=USER)
        assert full.value.response.headers["retry-after"] == "1"
        await stream.close()


@in_loop
async def test_anthropics_client_streams_a_message() -> None:
    async with _anthropic() as client:
        async with client.messages.stream(
            model=MODEL, messages=USER, system="Be brief.", max_tokens=3
        ) as stream:
            pieces = [text async for text in stream.text_stream]
            message = await stream.get_final_message()
    assert "".join(pieces) == message.content[0].text == "A BGP session"
    assert message.stop_reason == "max_tokens" and message.usage.output_tokens == 3


@in_loop
async def test_anthropics_client_takes_a_whole_message_with_a_stop_sequence() -> None:
    async with _anthropic() as client:
        message = await client.messages.create(
            model=MODEL, messages=USER, max_tokens=9, stop_sequences=[" flaps"]
        )
    assert message.content[0].text == "A BGP session"
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", " flaps")


@in_loop
async def test_anthropics_client_lists_the_model_and_understands_errors() -> None:
    anthropic = _client("anthropic")
    async with _anthropic() as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        with pytest.raises(anthropic.NotFoundError) as missing:
            await client.messages.create(model="claude-none", messages=USER, max_tokens=1)
        assert missing.value.type == "not_found_error"
        with pytest.raises(anthropic.BadRequestError):
            await client.messages.create(model=MODEL, messages=USER, max_tokens=0)
