"""Headless Chromium, driven over the W3C WebDriver protocol by Debian's chromedriver."""

from __future__ import annotations

import base64
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.peers.process import free_port, running
from tests.peers.require import require

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--ignore-certificate-errors", "--window-size=1360,860"),
)
WAIT_S = 30.0
"""How long a page may take on a busy machine."""


class Browser:
    """One tab."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client = client
        self._session = session

    def go(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._post("url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """Run JavaScript in the page; what it returns."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, script: str) -> Any:
        """Until the script returns something true; what it returned."""
        deadline = time.monotonic() + WAIT_S
        while not (value := self.run(f"return {script}")):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.02)
        return value

    def log(self) -> list[str]:
        """What the console said since the last call: errors, refused scripts, lost files."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        """What it looks like, as PNG."""
        path.write_bytes(base64.b64decode(self._get("screenshot")))

    def _post(self, what: str, body: dict[str, Any]) -> Any:
        return _value(self._client.post(f"/session/{self._session}/{what}", json=body))

    def _get(self, what: str) -> Any:
        return _value(self._client.get(f"/session/{self._session}/{what}"))


def _value(answer: httpx.Response) -> Any:
    value = answer.json()["value"]
    assert answer.is_success, value
    return value


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A fresh browser without a profile. Skips (in CI fails) without the Debian packages."""
    driver, program = require("chromedriver"), require("chromium")
    port = free_port()
    profile = folder / "profile"
    options = {"binary": program, "args": [*_FLAGS, f"--user-data-dir={profile}"]}
    wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
    with running([driver, f"--port={port}"], log=folder / "chromedriver.log", port=port):
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=WAIT_S, trust_env=False) as client:
            body = {"capabilities": {"alwaysMatch": wanted}}
            session = _value(client.post("/session", json=body))["sessionId"]
            try:
                yield Browser(client, session)
            finally:
                client.delete(f"/session/{session}")
