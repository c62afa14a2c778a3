"""The page, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.peers.browser import Browser, browser
from tests.reference_server.harness import MODEL, ask
from tests.reference_server.test_main import Running, server

STAGES = ["to the server", "check the key", "read the body", "check fields", "check limits"]
STAGES += ["session", "tokenize", "queue", "prefill", "back to you", "decode"]
STAGES += ["save the turn", "write"]
PACE = ("--engine", "paced", "--base-ms", "40", "--itl-ms", "5", "--clear-text")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with server(*PACE, "--sessions", str(tmp_path / "talks"), "--delay", "queue=30ms") as started:
        yield started


def send(tab: Browser, prompt: str, most: int = 24) -> None:
    """Type and send, then wait for the end."""
    script = (
        "document.getElementById('prompt').value = arguments[0];"
        "document.getElementById('most').value = arguments[1];"
        "document.getElementById('ask').requestSubmit();"
    )
    tab.run(script, prompt, most)
    tab.wait_for("document.body.dataset.state === 'done'")


def texts(tab: Browser, selector: str) -> list[str]:
    found: list[str] = tab.run(
        "return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)",
        selector,
    )
    return found


@pytest.mark.peer
@pytest.mark.slow
def test_a_prompt_is_answered_and_its_trip_is_drawn(tab: Browser, running: Running) -> None:
    tab.go(running.url + "/")
    tab.wait_for("document.body.dataset.state === 'ready'")
    assert texts(tab, "#model") == [MODEL]
    send(tab, "Why does my BGP session keep flapping?")
    user, answer = texts(tab, ".said")
    assert user.startswith("Why does") and answer.startswith("A BGP session flaps when")
    assert texts(tab, "#stages .name") == STAGES
    ms = dict(zip(STAGES, texts(tab, "#stages .ms"), strict=True))
    assert float(ms["queue"].split()[0]) >= 30 and float(ms["prefill"].split()[0]) >= 40
    assert len(texts(tab, "#tokens i")) == 24
    (summary,) = texts(tab, "#summary")
    assert "First token after" in summary and "of it is prefill" in summary
    assert tab.log() == []
    if folder := os.environ.get("PAGE_SCREENSHOTS"):
        tab.screenshot(Path(folder) / "page.png")


@pytest.mark.peer
@pytest.mark.slow
def test_the_second_turn_knows_the_first(tab: Browser, running: Running) -> None:
    tab.go(running.url + "/")
    tab.wait_for("document.body.dataset.state === 'ready'")
    send(tab, "one", 2)
    send(tab, "two", 2)
    # "one", two tokens of an answer and "two", with a line end between them.
    assert "6 prompt tokens" in texts(tab, "#summary")[0]


@pytest.mark.peer
@pytest.mark.slow
def test_behind_an_edge_it_shows_the_same_trip_and_the_sum_of_all_replicas(
    tab: Browser, tmp_path: Path
) -> None:
    with server(*PACE, "--edge", "--replicas", "2", "--sessions", str(tmp_path / "t")) as running:
        tab.go(running.url + "/")
        tab.wait_for("document.body.dataset.state === 'ready'")
        send(tab, "one", 2)
        assert texts(tab, "#stages .name") == STAGES
        assert texts(tab, "#running") == ["0"] and tab.log() == []


@pytest.mark.peer
@pytest.mark.slow
def test_what_people_and_servers_say_is_shown_as_text(tab: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    with server(*PACE, "--sessions", "off", "--text", evil) as running:
        tab.go(running.url + "/")
        tab.wait_for("document.body.dataset.state === 'ready'")
        send(tab, evil)
        # Without a store for conversations the request is refused, and the page says why.
        assert texts(tab, ".said.failed") == ["This server keeps no conversations."]
        tab.run("document.getElementById('remember').checked = false")
        send(tab, evil)
        assert texts(tab, ".said")[2] == evil and evil in texts(tab, ".said")[3]
        assert tab.run("return document.querySelectorAll('img').length") == 0


def test_only_the_pages_own_files_are_served_under_a_strict_policy() -> None:
    for path in ("/", "/page/page.js", "/page/trip.js", "/page/page.css", "/page/icon.svg"):
        answer = ask("GET", path)
        assert answer.status == 200
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    for path in ("/page/", "/page/index.html", "/page/../app.py", "/page/%2e%2e/app.py"):
        assert ask("GET", path).status == 404


def test_the_page_loads_nothing_from_elsewhere() -> None:
    for path in ("/", "/page/page.css", "/page/page.js", "/page/stream.js", "/page/trip.js"):
        body = ask("GET", path).body.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"://" not in body and b"innerHTML" not in body and b"style=" not in body
