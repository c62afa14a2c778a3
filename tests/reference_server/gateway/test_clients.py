"""Limits and conversations as the official clients of OpenAI and Anthropic meet them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from reference_server.settings import GatewaySettings, PaceSettings, SessionSettings, Settings
from tests.peers.require import unavailable
from tests.reference_server.harness import MODEL, QUESTION, in_loop, serving

FAST = PaceSettings(base_ms=1, prefill_ms_per_token=0, itl_ms=1)
USER: Any = [{"role": "user", "content": QUESTION}]


def package(name: str) -> Any:
    """The vendor's package."""
    try:
        return importlib.import_module(name)
    except ImportError:
        unavailable(f"{name} is not installed", "pip install -e '.[dev]'")


def one_a_minute() -> Settings:
    return Settings(pace=FAST, gateway=GatewaySettings(requests_per_minute=1))


@in_loop
async def test_openais_client_knows_the_limit_and_when_to_come_back() -> None:
    openai = package("openai")
    async with serving(settings=one_a_minute()) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
            raw = client.chat.completions.with_raw_response
            first = await raw.create(model=MODEL, messages=USER, max_tokens=2)
            assert first.headers["x-ratelimit-remaining-requests"] == "0"
            try:
                client.max_retries = 0
                await client.chat.completions.create(model=MODEL, messages=USER, max_tokens=2)
            except openai.RateLimitError as error:
                assert error.code == "rate_limit_exceeded"
                assert 55 <= int(error.response.headers["retry-after"]) <= 60
            else:
                raise AssertionError("the second request was not limited")


@in_loop
async def test_anthropics_client_knows_it_too() -> None:
    anthropic = package("anthropic")
    async with serving(settings=one_a_minute()) as server:
        async with anthropic.AsyncAnthropic(
            base_url=server.url, api_key="k", max_retries=0
        ) as client:
            await client.messages.create(model=MODEL, messages=USER, max_tokens=2)
            try:
                await client.messages.create(model=MODEL, messages=USER, max_tokens=2)
            except anthropic.RateLimitError as error:
                assert error.body["error"]["type"] == "rate_limit_error"
                remaining = "anthropic-ratelimit-requests-remaining"
                assert error.response.headers[remaining] == "0"
            else:
                raise AssertionError("the second request was not limited")


@in_loop
async def test_openais_client_goes_on_with_a_conversation(tmp_path: Path) -> None:
    openai = package("openai")
    settings = Settings(pace=FAST, sessions=SessionSettings(str(tmp_path / "talks")))
    async with serving(settings=settings) as server:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k") as client:
            counts = []
            for _ in range(2):
                answer = await client.chat.completions.create(
                    model=MODEL, messages=USER, max_tokens=2, extra_body={"conversation": "c"}
                )
                counts.append(answer.usage.prompt_tokens)
    # The question has 8 pieces; the second prompt has it twice, the answer, and two line ends.
    assert counts == [8, 8 + 1 + 2 + 1 + 8]
