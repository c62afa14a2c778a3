"""A path that dies without a word: no RST, no FIN, no ICMP, as with a firewall that forgets a
connection. Only TCP keepalives tell."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import environment
from tests.netns.link import DEVICE
from tests.netns.path import ShimPath, require_netns
from tests.peers.process import START_S, running

pytestmark = [pytest.mark.netns, pytest.mark.slow]

PORT = 8080
KEEPALIVE_MS = 8_000
"""5 s of silence and three probes a second apart (probe.sockets)."""
SLACK_MS = 1_500
"""Measured: 8.3 s; the machine's other work adds."""
GONE_AFTER_S = 2.0


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_netns()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[ShimPath]:
    """A path of 10 ms with a reference server at its end."""
    with ShimPath(delay_ms=5) as shim:
        command = [sys.executable, "-m", "reference_server", "--clear-text", "--engine", "paced"]
        command += ["--host", shim.server.address, "--port", str(PORT), "--base-ms", "60000"]
        with running(shim.server.command(*command), log=tmp_path / "server.log"):
            wait_until_accepting(shim)
            yield shim


def wait_until_accepting(shim: ShimPath) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with shim.client.entered(), contextlib.suppress(OSError):
            socket.create_connection((shim.server.address, PORT), timeout=1).close()
            return
        time.sleep(0.05)
    pytest.fail("the server does not accept")


def document(shim: ShimPath, *arguments: str) -> dict[str, Any]:
    """What the program prints when the path dies two seconds after it began."""
    command = shim.client.command(sys.executable, "-m", "promptpath", *arguments, "--json")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment()) as process:
        time.sleep(GONE_AFTER_S)
        down = ["ip", "-n", shim.server.name, "link", "set", DEVICE, "down"]
        subprocess.run(down, check=True)
        out, err = process.communicate(timeout=60)
    assert out, err.decode()
    found: dict[str, Any] = json.loads(out)
    return found


def test_an_idle_pass_tells_a_dead_path_from_a_timer(path: ShimPath) -> None:
    url = f"http://{path.server.address}:{PORT}/"
    found = document(path, "idle", url, "--max", "10s", "--proxy", "none")
    verdicts = [each for run in found["runs"] for each in run["report"]["verdicts"]]
    streams = [each for each in verdicts if each["question"] == "idle-stream"]
    assert {each["answer"] for each in streams} == {"silent-drop"}, streams
    (whole,) = [each for each in verdicts if each["question"] == "idle"]
    assert whole["answer"] == "silent-drop"
    silent = [each for each in streams if each["estimate"]["at"] == "body"]
    for each in silent:
        after_ms = each["estimate"]["silent_ms"]
        assert KEEPALIVE_MS <= after_ms <= KEEPALIVE_MS + GONE_AFTER_S * 1000 + SLACK_MS, each
    codes = {finding["code"] for run in found["runs"] for finding in run["report"]["findings"]}
    assert "PP441" in codes and "PP440" not in codes


def test_a_trace_says_that_the_path_died_while_it_waited(path: ShimPath) -> None:
    url = f"http://{path.server.address}:{PORT}/v1/chat/completions"
    found = document(path, "trace", url, "--model", "promptpath-paced", "--proxy", "none")
    (run,) = found["runs"]
    quiet = [f["value"] for f in run["trace"]["facts"] if f["key"] == "stream.quiet"]
    assert [note["peer"] for note in quiet] == ["unanswered"]
    assert "PP443" in {finding["code"] for finding in run["report"]["findings"]}
    (end,) = [f["value"] for f in run["trace"]["facts"] if f["key"] == "http.end"]
    assert end["how"] == "timed-out"
