from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.cli.main import run
from promptpath.model.codec import decode_document, json_schema
from tests.cli.running import environment
from tests.peers.certs import Certificates
from tests.peers.scripted import (
    HOLD,
    ReadRequest,
    ScriptedOrigin,
    Step,
    chunk,
    head,
    response,
    sse_stream,
)

PATH = "/v1/chat/completions"
SECRET = "sk-secret-1234567890"
ASK = ["--model", "m1", "--timeout", "20s", "--proxy", "none"]


def delta(text: str) -> bytes:
    payload = {
        "object": "chat.completion.chunk",
        "model": "m1",
        "choices": [{"index": 0, "delta": {"content": text}}],
    }
    return b"data: %b\n\n" % json.dumps(payload).encode()


FINISH = (
    b'data: {"object":"chat.completion.chunk",'
    b'"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
DONE = b"data: [DONE]\n\n"
GOOD = [delta("Hello"), delta(" there"), FINISH, DONE]


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin(sse_stream(GOOD, gap_ms=2)) as scripted:
        yield scripted


def document(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The JSON document that was printed; valid, or the test fails."""
    value: dict[str, Any] = json.loads(capfd.readouterr().out)
    jsonschema.validate(value, json_schema())
    return value


def test_a_good_stream_is_traced_shown_and_exit_code_0(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["trace", origin.url(PATH), *ASK]) == 0
    out, err = capfd.readouterr()
    assert err == "" and out.startswith(f"POST {origin.url(PATH)}\n")
    for part in ("TCP connect", "wait for the first token", "--- first token at ", "generation"):
        assert part in out
    assert b'"model":"m1"' in origin.requests[0]


def test_json_and_the_file_are_the_same_document(
    origin: ScriptedOrigin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, report = tmp_path / "x.json", tmp_path / "x.md"
    arguments = ["--json", "-o", str(file), "-o", str(report)]
    assert run(["trace", origin.url(PATH), *ASK, *arguments]) == 0
    printed = document(capfd)
    assert json.loads(file.read_bytes()) == printed
    assert printed["runs"][0]["report"]["latency"]["ttft_ms"] > 0
    assert printed["vantage"]["python"]
    assert report.read_text().startswith("# POST ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.md"]  # no journal


def test_what_was_saved_is_explained_the_same(
    origin: ScriptedOrigin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "x.json"
    run(["trace", origin.url(PATH), *ASK, "-o", str(file)])
    shown = capfd.readouterr().out
    assert run(["explain", str(file)]) == 0
    assert capfd.readouterr().out == shown


def test_repeat_and_warm_are_summed_up(
    capfd: pytest.CaptureFixture[str],
) -> None:
    stream = sse_stream(GOOD)
    with ScriptedOrigin([*stream, *stream]) as origin:
        assert run(["trace", origin.url(PATH), *ASK, "--repeat", "2", "--warm", "--json"]) == 0
    printed = document(capfd)
    kinds = [run["trace"]["facts"][0]["value"]["kind"] for run in printed["runs"]]
    assert kinds == ["cold", "warm", "cold", "warm"]
    assert set(printed["summary"]["metrics"]) == {"cold", "warm"}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error":{"message":"bad key","type":"auth"}}', "application/json"),
        (429, b"{}", "application/json"),
        (503, b"<html><title>Down</title></html>", "text/html"),
    ],
)
def test_an_error_response_is_measured_and_exit_code_1(
    status: int, body: bytes, kind: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedOrigin([ReadRequest(), response(status, body, kind)]) as origin:
        assert run(["trace", origin.url(PATH), *ASK, "--json"]) == 1
    assert document(capfd)["summary"]["exit_code"] == 1


def test_a_broken_budget_is_exit_code_1(origin: ScriptedOrigin) -> None:
    assert run(["trace", origin.url(PATH), *ASK, "--budget-ttft", "1ns"]) == 1


def test_a_refused_port_is_exit_code_3_with_its_stage(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with ScriptedOrigin([HOLD]) as origin:
        url = origin.url(PATH)
    assert run(["trace", url, *ASK, "--json"]) == 3
    printed = document(capfd)
    failure = next(f for f in printed["runs"][0]["trace"]["facts"] if f["key"] == "failure")
    assert failure["value"]["stage"] == "tcp" and failure["value"]["hint"]
    assert run(["trace", url, *ASK]) == 3
    assert "stopped at tcp" in capfd.readouterr().out


def test_a_wrong_certificate_is_exit_code_3(
    certs: Certificates, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedOrigin([HOLD], tls=certs.good.server_context()) as origin:
        assert run(["trace", origin.url(PATH), *ASK]) == 3
    assert "stopped at tls" in capfd.readouterr().out


def test_a_plain_url_is_a_get_and_says_so_on_standard_error(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with ScriptedOrigin([ReadRequest(), response(200, b"hi", "text/plain")]) as origin:
        code = run(["trace", origin.url("/"), "--proxy", "none"])
        assert origin.requests[0].startswith(b"GET / HTTP/1.1\r\n")
    out, err = capfd.readouterr()
    assert code in (0, 1) and out.startswith("GET ") and "note: a GET is sent" in err


def test_a_key_and_the_content_are_nowhere_in_the_results(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    echoing: list[Step] = [ReadRequest(), head(200, "text/event-stream", ("x-echo", SECRET))]
    steps: list[Step] = [
        *echoing,
        chunk(delta(f"your key is {SECRET}")),
        chunk(FINISH),
        chunk(DONE),
        b"0\r\n\r\n",
    ]
    files = [tmp_path / "x.json", tmp_path / "x.md"]
    outputs = [argument for file in files for argument in ("-o", str(file))]
    with ScriptedOrigin(steps) as origin:
        run(["trace", origin.url(PATH), *ASK, "--key-env", "MY_KEY", "--prompt", "a b c", *outputs])
        assert SECRET.encode() in origin.requests[0]
    written = "".join(file.read_text() for file in files) + "".join(capfd.readouterr())
    assert SECRET not in written and "a b c" not in written


def test_content_is_kept_when_asked(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    run(["trace", origin.url(PATH), *ASK, "--keep-content", "--json"])
    printed = document(capfd)
    texts = [event.get("text") for event in printed["runs"][0]["trace"]["events"]]
    assert "Hello" in texts and printed["plan"]["prompt"]


def test_data_and_curl_send_the_users_own_body(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = b'{"model":"own","stream":true}'
    file = tmp_path / "body.json"
    file.write_bytes(body)
    stream = sse_stream(GOOD)
    with ScriptedOrigin(stream) as origin:
        assert run(["trace", origin.url("/x"), "--data", f"@{file}", "--proxy", "none"]) == 0
        curl = f"curl {origin.url('/y')} -H 'X-Mine: 1' -d '{body.decode()}'"
        assert run(["trace", "--curl", curl, "--proxy", "none"]) == 0
    assert all(request.endswith(body) for request in origin.requests)
    assert b"x-mine: 1" in origin.requests[1].lower()


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["connected", "streaming"])
def test_ctrl_c_writes_what_there_is_and_is_exit_code_130(stage: str, tmp_path: Path) -> None:
    begun = (
        [ReadRequest(), head(), chunk(delta("Hello"))] if stage == "streaming" else [ReadRequest()]
    )
    file = tmp_path / "x.json"
    with ScriptedOrigin([*begun, HOLD]) as origin:
        command = [sys.executable, "-m", "promptpath", "trace", origin.url(PATH), *ASK]
        process = subprocess.Popen(
            [*command, "--json", "-o", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        _wait_for(lambda: bool(origin.requests))
        if stage == "streaming":
            journal = tmp_path / "x.json.partial.ndjson"
            _wait_for(lambda: journal.exists() and b'["event"' in journal.read_bytes())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (130, b"")
    made = decode_document(out)
    assert made.summary.exit_code == 130 and made.runs[0].trace.truncated == "interrupted"
    assert file.read_bytes() == out
    assert len(made.runs[0].trace.events) == (1 if stage == "streaming" else 0)


def _wait_for(condition: Any, limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.mark.slow
def test_a_crash_leaves_the_journal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "x.json"
    journal = tmp_path / "x.json.partial.ndjson"
    with ScriptedOrigin([ReadRequest(), head(), chunk(delta("Hello")), HOLD]) as origin:
        command = [sys.executable, "-m", "promptpath", "trace", origin.url(PATH), *ASK]
        process = subprocess.Popen([*command, "-o", str(file)], env=environment())
        _wait_for(lambda: journal.exists() and b'["event"' in journal.read_bytes())
        process.kill()
        process.wait()
    assert run(["explain", str(journal)]) in (0, 1)
    assert "first token at" in capfd.readouterr().out


@pytest.mark.slow
def test_a_full_disk_costs_the_files_not_the_result(
    origin: ScriptedOrigin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    full = [tmp_path / "a.json", tmp_path / "b.md"]
    for file in full:
        file.symlink_to("/dev/full")
    kept = tmp_path / "kept.json"
    outputs = [word for file in (*full, kept) for word in ("-o", str(file))]
    assert run(["trace", origin.url(PATH), *ASK, *outputs]) == 2
    out, err = capfd.readouterr()
    assert out.startswith("POST ") and kept.read_bytes()
    assert all(f"cannot write '{file}': No space left" in err for file in full)


def test_without_a_url_the_bundled_server_is_traced(capfd: pytest.CaptureFixture[str]) -> None:
    code = run(["trace", "--json", "--max-tokens", "5"])
    printed = document(capfd)
    facts = {fact["key"]: fact["value"] for fact in printed["runs"][0]["trace"]["facts"]}
    assert code == 0 and facts["http.version"] == "2" and facts["http.status"] == 200
    assert facts["tls.version"] == "TLSv1.3" and printed["plan"]["model"] == "promptpath-paced"
    reported = {hop["stage"] for hop in printed["runs"][0]["report"]["hops"] if hop["within"]}
    assert {"queue", "prefill", "decode"} <= reported


@pytest.mark.slow
def test_the_bundled_server_is_asked_in_the_other_dialect_too(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run(["trace", "--json", "--max-tokens", "3", "--dialect", "anthropic"]) == 0
    printed = document(capfd)
    assert printed["plan"]["url"].endswith("/v1/messages")
