"""The server as a process: announcement, stop, wrong usage."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.peers.certs import Certificates
from tests.reference_server.harness import chat

COMMAND = [sys.executable, "-m", "reference_server"]
FAST = ("--base-ms", "1", "--itl-ms", "1", "--prefill-ms-per-token", "0")


class Running:
    """A server process and what it announced."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert process.stdout is not None
        self.announced: dict[str, Any] = json.loads(process.stdout.readline())
        self.url: str = self.announced["url"]

    def client(self) -> httpx.Client:
        """A client that trusts the announced CA."""
        ca = self.announced["ca"]
        verify = ssl.create_default_context(cafile=ca) if ca else True
        return httpx.Client(http2=True, verify=verify, trust_env=False, base_url=self.url)

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error, once it has ended."""
        assert self.process.stderr is not None
        return self.process.wait(10), self.process.stderr.read()


@contextlib.contextmanager
def server(*options: str) -> Iterator[Running]:
    """A process that ends with the block at the latest."""
    pipe = subprocess.PIPE
    command = [*COMMAND, "--announce", "--stop-with-stdin", *options]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def test_it_announces_itself_in_one_line_and_serves_tls_under_its_own_ca() -> None:
    with server(*FAST) as running, running.client() as client:
        announced = running.announced
        assert announced["event"] == "listening" and announced["port"] > 0
        assert announced["protocols"] == ["h2", "http/1.1", "h3"]
        answer = client.post("/v1/chat/completions", json=chat())
        assert answer.http_version == "HTTP/2" and answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("how", ["stdin", "SIGTERM", "SIGINT", "SIGHUP"])
def test_it_stops_cleanly_and_leaves_no_file(how: str) -> None:
    with server() as running:
        folder = Path(running.announced["ca"]).parent
        assert sorted(path.name for path in folder.iterdir()) == ["ca.pem", "leaf.pem"]
        if how == "stdin":
            assert running.process.stdin is not None
            running.process.stdin.close()
        else:
            running.process.send_signal(signal.Signals[how])
        assert running.ended() == (0, "")
        assert not folder.exists()


@pytest.mark.slow
def test_it_does_not_outlive_its_starter_for_a_stream_that_is_still_open() -> None:
    with server("--grace-s", "60") as running, running.client() as client:
        path = "/promptpath/silence?silence_ms=600000"
        with client.stream("GET", path) as answer:
            next(answer.iter_raw())
            assert running.process.stdin is not None
            running.process.stdin.close()
            assert running.ended()[0] == 0
    assert not Path(running.announced["ca"]).exists()


def test_without_the_option_a_closed_standard_input_means_nothing() -> None:
    command = [*COMMAND, "--announce", "--clear-text"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as process:
        running = Running(process)
        with running.client() as client:
            assert client.get("/healthz").status_code == 200
        process.terminate()
        assert running.ended()[0] == 0


def test_one_of_its_own_certificates_can_be_given(certs: Certificates) -> None:
    options = ("--cert", str(certs.good.chain), "--key", str(certs.good.key))
    with server(*options) as running:
        assert running.announced["ca"] is None
        context = ssl.create_default_context(cafile=str(certs.ca))
        with httpx.Client(verify=context, trust_env=False) as client:
            assert client.get(running.url + "/healthz").status_code == 200


def test_the_key_from_the_environment_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVER_KEY", "sk-test")
    with server("--clear-text", "--api-key-env", "SERVER_KEY") as running:
        with running.client() as client:
            assert client.post("/v1/chat/completions", json=chat()).status_code == 401
            headers = {"authorization": "Bearer sk-test"}
            answer = client.post("/v1/chat/completions", json=chat(), headers=headers)
            assert answer.status_code == 200


def test_the_send_log_has_a_line_for_each_event_with_the_stamp_that_was_sent(
    tmp_path: Path,
) -> None:
    log = tmp_path / "sent.ndjson"
    with server("--clear-text", "--send-log", str(log), *FAST) as running:
        with running.client() as client:
            headers = {"x-promptpath-timing": "1"}
            answer = client.post("/v1/chat/completions", json=chat(max_tokens=3), headers=headers)
        running.process.terminate()
        running.ended()
        rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["role", "text", "text", "text", "finish", "end"]
    data = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
    stamps = [json.loads(line)["promptpath"] for line in data]
    assert [(row["seq"], row["sent_ns"]) for row in rows[:-1]] == [
        (stamp["seq"], stamp["sent_ns"]) for stamp in stamps
    ]
    assert sum(row["size"] for row in rows) == len(answer.content)
    offsets = [row["realtime_ns"] - row["sent_ns"] for row in rows]
    # Both clocks are read side by side, so their difference hardly moves within one answer.
    assert max(offsets) - min(offsets) < 50_000_000


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (["--cert", "x.pem"], 2, "belong together"),
        (["--cert", "x.pem", "--key", "y.pem"], 1, "cannot be used"),
        (["--port", "70000"], 2, "must be from 0 to 65535"),
        (["--jitter", "nan"], 2, "must be from 0 to 1"),
        (["--text", ""], 2, "must not be empty"),
        (["--host", "192.0.2.1"], 1, "cannot listen on 192.0.2.1"),
        (["--send-log", "no/such/folder/log"], 1, "file cannot be written"),
        (["--api-key-env", "NO_SUCH_VARIABLE"], 2, "is not set"),
        (["--http1-only", "--http2-only"], 2, "not allowed with"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_announced(
    options: list[str], code: int, text: str
) -> None:
    done = subprocess.run(
        [*COMMAND, "--announce", *options], capture_output=True, text=True, timeout=10
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert text in done.stderr and "Traceback" not in done.stderr


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--port", port], capture_output=True, text=True, timeout=10
        )
    assert done.returncode == 1 and f"port {port}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--edge",)])
def test_a_stream_that_outlasts_the_grace_is_told_and_ends_cleanly(
    options: tuple[str, ...],
) -> None:
    slow = ("--engine", "paced", "--base-ms", "1", "--itl-ms", "50", "--grace-s", "0.2")
    # HTTP/1.1: httpx gives an HTTP/2 stream up at the GOAWAY, although it is still answered.
    with (
        server("--clear-text", *slow, *options) as running,
        httpx.Client(trust_env=False) as client,
    ):
        url, body = running.url + "/v1/chat/completions", chat(max_tokens=10_000)
        with client.stream("POST", url, json=body) as answer:
            lines = answer.iter_lines()
            while "content" not in next(lines):
                pass
            running.process.send_signal(signal.SIGTERM)
            rest = [line for line in lines if line]
    assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "engine_stopped"
    assert rest[-1] == "data: [DONE]"
