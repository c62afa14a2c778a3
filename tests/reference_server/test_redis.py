"""The server as a process with a Redis that is there, is not there, and goes."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.process import free_port
from tests.peers.redis import redis_server
from tests.reference_server.harness import chat
from tests.reference_server.test_main import FAST, server

CHAT = "/v1/chat/completions"
LIMITED = ("--engine", "paced", "--clear-text", "--requests-per-minute", "2", *FAST)


def url(port: int) -> str:
    return f"redis://user:sekret@127.0.0.1:{port}/0"


def test_without_redis_it_does_not_start_and_keeps_the_password_to_itself() -> None:
    command = [sys.executable, "-m", "reference_server", "--announce", *LIMITED]
    done = subprocess.run(
        [*command, "--redis", url(free_port())], capture_output=True, text=True, timeout=20
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "does not answer" in done.stderr and "allow-local" in done.stderr
    assert "sekret" not in done.stderr and "Traceback" not in done.stderr


def test_with_local_counting_allowed_it_starts_and_every_answer_says_so() -> None:
    options = (*LIMITED, "--redis", url(free_port()), "--redis-down", "allow-local")
    with server(*options) as running, running.client() as client:
        answers = [client.post(CHAT, json=chat()) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert {answer.headers["x-promptpath-limits"] for answer in answers} == {"local"}
        running.process.terminate()
        said = running.ended()[1]
    assert "each process counts for itself" in said and "sekret" not in said


@pytest.mark.peer
@pytest.mark.slow
def test_two_processes_share_limits_and_conversations_until_redis_goes(tmp_path: Path) -> None:
    port = free_port()
    options = (*LIMITED, "--redis", f"redis://127.0.0.1:{port}/0")
    with redis_server(tmp_path, port):
        with server(*options) as one, server(*options) as two:
            with one.client() as first, two.client() as second:
                body = chat(conversation="c")
                answers = [each.post(CHAT, json=body) for each in (first, second, first)]
                statuses = [answer.status_code for answer in answers]
                heads = [answer.headers.get("x-promptpath-conversation") for answer in answers]
                assert statuses == [200, 200, 429]
                assert heads == ["history=0, dropped=0", "history=2, dropped=0", None]
                _stop_redis(port)
                refused = second.post(CHAT, json=chat())
                assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
                assert refused.json()["error"]["code"] == "limits_unavailable"
                assert first.get("/healthz").status_code == 200


def _stop_redis(port: int) -> None:
    """Redis answers nothing to this, it ends."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"SHUTDOWN NOSAVE\r\n")
        while connection.recv(100):
            pass
