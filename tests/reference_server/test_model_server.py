"""The server with a real (tiny, random) model, as a process, over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip

from reference_server.compute.checkpoint import open_checkpoint
from reference_server.compute.random_model import byte_tokens, write_random_model
from tests.reference_server.compute.folder_model import write_folder
from tests.reference_server.harness import QUESTION
from tests.reference_server.test_main import COMMAND, Running, server

pytestmark = pytest.mark.slow

OPTIONS = (
    "--engine",
    "model",
    "--clear-text",
    "--deterministic",
    "--threads",
    "1",
    "--kv-tokens",
    "4096",
)
TIMED = {"X-Promptpath-Timing": "1"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random model's file."""
    file = tmp_path_factory.mktemp("model") / "tiny-random.gguf"
    write_random_model(file)
    return file


@pytest.fixture(scope="module")
def running(path: Path) -> Iterator[Running]:
    """A server with that model."""
    with server("--model", str(path), *OPTIONS) as process:
        yield process


def ask(running: Running, **more: Any) -> httpx.Response:
    """A chat request that stops after 8 tokens."""
    body: dict[str, Any] = {
        "model": "tiny-random",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    with httpx.Client(base_url=running.url, trust_env=False, timeout=30) as client:
        return client.post(
            "/v1/chat/completions", json={**body, "max_tokens": 8, **more}, headers=TIMED
        )


def worker_of(running: Running) -> int:
    """The process id of the engine."""
    children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
    (pid,) = children.read_text().split()
    return int(pid)


def test_the_announcement_names_the_engine_and_the_model(running: Running) -> None:
    assert running.announced["engine"] == "model" and running.announced["note"] is None
    assert running.announced["model"] == "tiny-random"


def test_an_answer_carries_measured_stages_that_add_up(running: Running) -> None:
    body = ask(running, cache_salt="alone").json()
    timings = body["timings"]
    assert body["usage"]["completion_tokens"] == timings["predicted_n"] == 8
    assert timings["prompt_n"] == body["usage"]["prompt_tokens"] > 50
    for stage in ("queue_ms", "prefill_ms", "decode_ms", "tokenize_ms"):
        assert timings[stage] > 0
    engine_ns = timings["last_token_ns"] - timings["admitted_ns"]
    stages_ms = timings["queue_ms"] + timings["prefill_ms"] + timings["decode_ms"]
    assert stages_ms == pytest.approx(engine_ns / 1e6, abs=1e-3)


def test_the_second_identical_prompt_hits_the_cache_and_another_salt_does_not(
    running: Running,
) -> None:
    first = ask(running, cache_salt="one").json()
    second = ask(running, cache_salt="one").json()
    other = ask(running, cache_salt="two").json()
    assert first["timings"]["cached_n"] == other["timings"]["cached_n"] == 0
    assert second["timings"]["cached_n"] >= 48
    texts = [each["choices"][0]["message"]["content"] for each in (first, second, other)]
    assert texts[0] == texts[1] == texts[2]


def test_the_timeline_has_every_chunk_and_token_and_its_stages_are_the_wall_time(
    running: Running,
) -> None:
    answer = ask(running, cache_salt="timeline", stream=True)
    path = f"{running.url}/promptpath/requests/{answer.headers['x-request-id']}"
    trip = httpx.get(path, trust_env=False).json()
    assert sum(chunk["tokens"] for chunk in trip["prefill"]) == trip["prompt_tokens"]
    assert sum(row["tokens"] for row in trip["decode"]) == trip["output_tokens"] == 8
    stages = {each["stage"]: each["ms"] for each in trip["stages"]}
    assert sum(stages.values()) == pytest.approx(trip["wall_ms"], abs=1)
    first, last = trip["prefill"][0], trip["prefill"][-1]
    assert (last["end_ns"] - first["start_ns"]) / 1e6 <= stages["prefill"] + 1


def test_a_stream_gives_the_same_text_with_step_and_batch_in_each_event(running: Running) -> None:
    whole = ask(running).json()["choices"][0]["message"]["content"]
    lines = ask(running, stream=True).text.splitlines()
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    choices = [choice for event in events for choice in event["choices"]]
    assert "".join(choice["delta"].get("content") or "" for choice in choices) == whole
    steps = [event["promptpath"]["step"] for event in events if event["promptpath"].get("step")]
    assert steps == sorted(set(steps)) and len(steps) >= 1
    assert events[-1]["timings"]["predicted_n"] == 8


def test_the_anthropic_surface_answers_from_the_same_model(running: Running) -> None:
    body: dict[str, Any] = {
        "model": "tiny-random",
        "messages": [{"role": "user", "content": QUESTION}],
    }
    with httpx.Client(base_url=running.url, trust_env=False, timeout=30) as client:
        got = client.post("/v1/messages", json={**body, "max_tokens": 8}).json()
    assert got["content"][0]["text"] == ask(running).json()["choices"][0]["message"]["content"]


def test_a_prompt_longer_than_the_context_is_refused(running: Running) -> None:
    long = [{"role": "user", "content": "x" * 600}]
    refused = ask(running, messages=long)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"


def test_the_answer_ends_where_the_context_does(running: Running) -> None:
    messages = [{"role": "user", "content": "x" * 470}]
    got = ask(running, messages=messages, max_tokens=1000).json()
    usage = got["usage"]
    assert usage["total_tokens"] <= 512
    assert got["choices"][0]["finish_reason"] in ("length", "stop")


def test_a_folder_with_safetensors_and_a_tokenizer_gives_the_same_answer(
    running: Running, path: Path, tmp_path: Path
) -> None:
    checkpoint = open_checkpoint(str(path))
    folder = tmp_path / "tiny-random"
    folder.mkdir()
    write_folder(folder, checkpoint)
    checkpoint.close()
    write_tokenizer(folder)
    with server("--model", str(folder), *OPTIONS) as other:
        assert ask(other).json()["choices"] == ask(running).json()["choices"]


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json of the random model: bytes and three specials."""
    tokens = byte_tokens()
    added = [{"id": 256 + at, "content": tokens[256 + at], "special": True} for at in range(3)]
    (folder / "tokenizer.json").write_text(
        json.dumps(
            {
                "added_tokens": added,
                "pre_tokenizer": {
                    "type": "Sequence",
                    "pretokenizers": [
                        {"type": "Digits", "individual_digits": True},
                        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                    ],
                },
                "model": {
                    "type": "BPE",
                    "vocab": {token: at for at, token in enumerate(tokens[:256])},
                    "merges": [],
                },
            }
        )
    )
    config = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def test_when_the_engine_dies_the_stream_says_so_then_503_then_it_is_back(path: Path) -> None:
    with (
        server("--model", str(path), *OPTIONS) as running,
        httpx.Client(base_url=running.url, trust_env=False, timeout=30) as client,
    ):
        body: dict[str, Any] = {
            "model": "tiny-random",
            "messages": [{"role": "user", "content": QUESTION}],
        }
        body |= {"max_tokens": 400, "stream": True, "logit_bias": None}
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if '"content"' in line)
            os.kill(worker_of(running), signal.SIGKILL)
            rest = list(lines)
        assert any('"engine_error"' in line for line in rest)
        refused = ask(running)
        assert refused.status_code == 503 and refused.headers["retry-after"]
        assert refused.json()["error"]["code"] == "engine_unavailable"
        assert client.get("/healthz").status_code == 503
        end = time.monotonic() + 60
        while client.get("/healthz").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ask(running).status_code == 200


def test_sigterm_lets_a_running_answer_end_and_leaves_no_process(path: Path) -> None:
    with (
        server("--model", str(path), *OPTIONS, "--grace-s", "30") as running,
        httpx.Client(base_url=running.url, trust_env=False, timeout=30) as client,
    ):
        worker = worker_of(running)
        body: dict[str, Any] = {
            "model": "tiny-random",
            "messages": [{"role": "user", "content": QUESTION}],
        }
        body |= {"max_tokens": 60, "stream": True}
        with client.stream("POST", "/v1/chat/completions", json=body) as stream:
            lines = stream.iter_lines()
            next(line for line in lines if '"content"' in line)
            running.process.send_signal(signal.SIGTERM)
            rest = list(lines)
        assert "data: [DONE]" in rest and not any('"error"' in line for line in rest)
        assert running.ended()[0] == 0
        assert not Path(f"/proc/{worker}").exists()


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [(b"GGUF", 1, "at byte 4"), (b"", 1, "is empty"), (None, 2, "there is no model at")],
)
def test_a_model_that_cannot_be_used_ends_the_start_with_a_sentence(
    tmp_path: Path, content: bytes | None, code: int, said: str
) -> None:
    file = tmp_path / "broken.gguf"
    if content is not None:
        file.write_bytes(content)
    command = [*COMMAND, "--model", str(file), *OPTIONS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code and said in done.stderr and "Traceback" not in done.stderr
