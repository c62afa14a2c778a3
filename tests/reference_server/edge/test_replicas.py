"""The edge as a process, with replicas that it starts, starts again and stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from reference_server.edge.app import EdgeApp
from reference_server.edge.balance import Backend
from reference_server.edge.replicas import ReplicaError, Replicas
from tests.reference_server.harness import chat, in_loop
from tests.reference_server.test_main import server

PACED = ("--engine", "paced")
CHAT = "/v1/chat/completions"


def alive(pid: int) -> bool:
    """Whether the process is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.slow
def test_it_announces_itself_like_a_server_and_leaves_no_process_behind() -> None:
    with server("--edge", "--replicas", "2", *PACED) as running, running.client() as client:
        assert running.announced["model"] == "promptpath-paced"
        answer = client.post(CHAT, json=chat())
        assert answer.http_version == "HTTP/2" and answer.text.endswith("data: [DONE]\n\n")
        ports = [row["port"] for row in client.get("/promptpath/edge").json()["backends"]]
        assert len(set(ports)) == 2
        children = _children(running.process.pid)
        assert len(children) == 2
        running.process.send_signal(signal.SIGTERM)
        assert running.ended()[0] == 0
    deadline = time.monotonic() + 10
    while any(map(alive, children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _children(pid: int) -> list[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


@pytest.mark.slow
@in_loop
async def test_a_replica_that_dies_is_started_again_on_its_port() -> None:
    backends = [Backend("r1", "127.0.0.1", 0)]
    replicas = Replicas(PACED)
    app = EdgeApp(backends, replicas=replicas)
    await app.start()
    try:
        port, first = backends[0].port, replicas.process_of(backends[0])
        os.kill(first, signal.SIGKILL)
        while replicas.process_of(backends[0]) == first or not backends[0].healthy:
            await asyncio.sleep(0.05)
        assert backends[0].port == port
    finally:
        await app.close()


@in_loop
async def test_one_that_cannot_start_is_an_error() -> None:
    app = EdgeApp([Backend("r1", "127.0.0.1", 0)], replicas=Replicas(["--no-such-option"]))
    with pytest.raises(ReplicaError, match="r1 did not start"):
        await app.start()
    await app.close()


@pytest.mark.parametrize(
    ("options", "text"),
    [(["--replicas", "2"], "needs --edge"), (["--edge", "--replicas", "0"], "")],
)
def test_wrong_usage_is_said(options: list[str], text: str) -> None:
    command = [sys.executable, "-m", "reference_server", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and text in done.stderr
