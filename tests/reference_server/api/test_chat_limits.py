"""Keys and limits as a client meets them, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reference_server.app import create_app
from reference_server.gateway.keys import append_key, make_key
from reference_server.gateway.limits import Limits
from reference_server.settings import EngineSettings, GatewaySettings, Settings
from tests.reference_server.harness import MODEL, Answer, Client, chat
from tests.virtual_time import VirtualTimeLoop, run

Request = tuple[str, Any, dict[str, str]]
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"


def asks(settings: Settings, *requests: Request) -> list[Answer]:
    """One after the other, of one server."""

    async def scenario(loop: VirtualTimeLoop) -> list[Answer]:
        app = create_app(settings, loop.now_ns)
        client = Client(app, loop.now_ns)
        try:
            return [await client.ask("POST", *request) for request in requests]
        finally:
            await app.close()

    return run(scenario)[0]


def limited(requests: int | None = None, tokens: int | None = None) -> Settings:
    gateway = GatewaySettings(requests_per_minute=requests, tokens_per_minute=tokens)
    return Settings(gateway=gateway)


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_the_request_beyond_the_limit_is_a_429_in_the_vendors_shape(path: str) -> None:
    request: Request = (path, chat(), {})
    first, second, third = asks(limited(requests=2), request, request, request)
    prefix = "x-ratelimit-remaining-requests"
    if path == MESSAGES:
        prefix = "anthropic-ratelimit-requests-remaining"
    assert [each.status for each in (first, second, third)] == [200, 200, 429]
    assert [each.headers[prefix] for each in (first, second, third)] == ["1", "0", "0"]
    assert 28 <= int(third.headers["retry-after"]) <= 30
    assert third.json()["error"]["type"] == "rate_limit_error"


def test_what_was_reserved_and_not_used_can_be_used_by_the_next_request() -> None:
    settings = limited(tokens=1000)
    big: Request = (CHAT, chat(max_tokens=600), {})
    answers = asks(Settings(gateway=settings.gateway), big, (CHAT, chat(max_tokens=350), {}))
    # The first used 608 of some 640 reserved; without the settlement 360 would be left for 390.
    assert [answer.status for answer in answers] == [200, 200]
    left = [int(answer.headers["x-ratelimit-remaining-tokens"]) for answer in answers]
    assert left[0] == 1000 - 600 - len(json.dumps(chat(max_tokens=600))) // 4


def test_a_refused_request_gives_its_tokens_back() -> None:
    settings = Settings(
        gateway=GatewaySettings(tokens_per_minute=200), engine=EngineSettings(queue_limit=0)
    )
    bad: Request = (
        CHAT,
        chat(max_tokens=100, messages=[{"role": "user", "content": ""}], model="x"),
        {},
    )
    answers = asks(settings, bad, bad, bad, (CHAT, chat(max_tokens=100), {}))
    assert [answer.status for answer in answers] == [404, 404, 404, 200]


def test_a_request_that_can_never_fit_gets_no_time_to_try_again() -> None:
    (answer,) = asks(limited(tokens=50), (CHAT, chat(max_tokens=100), {}))
    assert answer.status == 429 and "retry-after" not in answer.headers
    assert "alone needs more than 50" in answer.json()["error"]["message"]


def test_each_key_of_the_file_has_its_own_limit(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    alice, line = make_key("alice", Limits(1, None))
    append_key(file, line)
    bob, line = make_key("bob", Limits())
    append_key(file, line)
    a, b = ({"authorization": f"Bearer {alice}"}, {"x-api-key": bob})
    requests = [(CHAT, chat(), each) for each in (a, a, b, b, {}, {"x-api-key": "pp-1-2"})]
    answers = asks(Settings(gateway=GatewaySettings(keys=str(file))), *requests)
    assert [answer.status for answer in answers] == [200, 429, 200, 200, 401, 401]


def test_the_access_log_names_the_key_and_holds_no_secret(tmp_path: Path) -> None:
    file, log = tmp_path / "keys", tmp_path / "access"
    key, line = make_key("alice", Limits())
    append_key(file, line)
    settings = Settings(gateway=GatewaySettings(keys=str(file)), access_log=str(log))
    head = {"authorization": f"Bearer {key}"}
    asks(settings, (CHAT + "?key=sekret", chat(), head), (CHAT, b"{", head), (MESSAGES, {}, {}))
    text = log.read_text()
    assert key not in text and "sekret" not in text and "flap" not in text
    good, bad, nobody = map(json.loads, text.splitlines())
    assert (good["key"], good["status"], good["path"]) == ("alice", 200, CHAT)
    assert (good["model"], good["outcome"]) == (MODEL, "length")
    assert (good["prompt_tokens"], good["output_tokens"]) == (8, 4)
    assert good["duration_ms"] == pytest.approx(104, abs=0.1) and good["bytes"] > 500
    assert (bad["status"], bad["outcome"]) == (400, "invalid_json")
    assert (nobody["status"], "key" in nobody) == (401, False)


def test_a_disk_that_is_full_loses_log_lines_only() -> None:
    settings = Settings(access_log="/dev/full")
    assert [answer.status for answer in asks(settings, (CHAT, chat(), {}))] == [200]
