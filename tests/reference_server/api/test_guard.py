"""Bounds of the test streams."""

from __future__ import annotations

import asyncio

import pytest

from reference_server.app import create_app
from reference_server.settings import Settings, StreamLimits
from tests.reference_server.harness import Answer, Client, ask
from tests.virtual_time import VirtualTimeLoop, run

CALIBRATE = "/promptpath/calibrate"
SILENCE = "/promptpath/silence"
SMALL = Settings(streams=StreamLimits(test_streams=2, test_seconds=5, test_bytes=10_000))


def test_one_stream_too_many_is_a_429_and_places_come_free_again() -> None:
    async def scenario(loop: VirtualTimeLoop) -> tuple[list[Answer], Answer]:
        client = Client(create_app(SMALL, loop.now_ns), loop.now_ns)
        paths = [SILENCE + "?silence_ms=1000"] * 2 + [CALIBRATE + "?events=1"]
        answers = await asyncio.gather(*(client.ask("GET", path) for path in paths))
        return answers, await client.ask("GET", CALIBRATE + "?events=1")

    (first, second, refused), later = run(scenario)[0]
    assert (first.status, second.status, later.status) == (200, 200, 200)
    assert refused.status == 429
    assert refused.headers["retry-after"] == "1"


def test_a_client_that_leaves_gives_its_place_back() -> None:
    async def scenario(loop: VirtualTimeLoop) -> Answer:
        app = create_app(SMALL, loop.now_ns)
        for _ in range(3):
            client = Client(app, loop.now_ns)
            loop.call_later(0.5, client.leave)
            await client.ask("GET", SILENCE + "?silence_ms=4000")
        return await Client(app, loop.now_ns).ask("GET", CALIBRATE + "?events=1")

    assert run(scenario)[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        SILENCE + "?silence_ms=5000",
        CALIBRATE + "?events=10&max_gap_ms=600",
        CALIBRATE + "?events=10&max_bytes=1100",
        CALIBRATE + "?events=1&preamble_bytes=9000",
    ],
)
def test_a_stream_that_would_be_too_long_or_too_large_is_a_400(path: str) -> None:
    answer = ask("GET", path, settings=SMALL)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")


def test_without_an_engine_there_are_the_test_streams_and_nothing_else() -> None:
    alone = Settings(api=False)
    assert ask("GET", CALIBRATE + "?events=1", settings=alone).status == 200
    assert ask("GET", "/promptpath/clock", settings=alone).status == 200
    assert ask("GET", "/healthz", settings=alone).status == 200
    assert ask("POST", "/v1/chat/completions", {"model": "m"}, settings=alone).status == 404
    assert ask("GET", "/metrics", settings=alone).status == 404
    assert ask("GET", "/promptpath/requests/x", settings=alone).status == 404


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", "application/x-ndjson"])
def test_the_stream_can_call_itself_another_type(kind: str) -> None:
    answer = ask("GET", f"{CALIBRATE}?events=1&content_type={kind}")
    assert answer.headers["content-type"] == kind
    assert answer.events()[-1]["kind"] == "end"
