from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import parse

import jsonschema
import pytest

from promptpath.cli.main import run
from promptpath.model.codec import json_schema
from tests.cli.running import environment
from tests.cli.test_trace import DONE, FINISH, PATH, SECRET, delta
from tests.peers.process import free_port
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

GOOD = [*(delta(f"word{number} ") for number in range(20)), FINISH, DONE]
ASK = ["--model", "m1", "--timeout", "20s", "--proxy", "none"]
CUT: list[Step] = [ReadRequest(), head(), chunk(delta("Hello")), b"0\r\n\r\n"]


@pytest.fixture(autouse=True)
def _no_github(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture
def origin() -> Iterator[ScriptedOrigin]:
    with ScriptedOrigin(sse_stream(GOOD, gap_ms=5)) as scripted:
        yield scripted


def printed(capfd: pytest.CaptureFixture[str]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert value["schema"] == "promptpath.check/1"
    for target in value["targets"]:
        if target["document"] is not None:
            jsonschema.validate(target["document"], json_schema())
    return value


def verdicts(target: dict[str, Any]) -> dict[str, str]:
    return {budget["name"]: budget["verdict"] for budget in target["budgets"]}


def test_a_healthy_path_keeps_its_budgets(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    budgets = ["--max-ttft", "10s", "--max-total", "15s", "--require-terminal"]
    budgets += ["--require-http", "1.1", "--max-itl-p95", "5s", "--max-headers", "10s"]
    assert run(["check", origin.url(PATH), *ASK, *budgets]) == 0
    out, err = capfd.readouterr()
    assert out.endswith("1 target: 1 passed\n") and out.count("  ok ") == 6 and err == ""


def test_a_broken_budget_is_exit_code_1(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", origin.url(PATH), *ASK, "--max-total", "10ms"]) == 1
    assert "!! max-total 10.0 ms: broken; " in capfd.readouterr().out


def test_a_cut_stream_fails_unless_its_finding_is_allowed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with ScriptedOrigin(CUT) as origin:
        assert run(["check", origin.url(PATH), *ASK, "--json"]) == 1
        failing = [f for f in printed(capfd)["targets"][0]["findings"] if f["fails"]]
        allowed = [part for f in failing for part in ("--allow", f["finding"]["code"])]
        assert allowed and run(["check", origin.url(PATH), *ASK, *allowed]) == 0
        assert run(["check", origin.url(PATH), *ASK, *allowed, "--require-terminal"]) == 1


def test_too_short_a_stream_is_inconclusive_and_strict_fails_on_it(
    capfd: pytest.CaptureFixture[str],
) -> None:
    short = sse_stream([delta("Hello"), FINISH, DONE])
    with ScriptedOrigin(short) as origin:
        assert run(["check", origin.url(PATH), *ASK, "--require-streaming"]) == 0
        assert "?? require-streaming: inconclusive" in (out := capfd.readouterr().out)
        assert "8 are needed" in out
        assert run(["check", origin.url(PATH), *ASK, "--require-streaming", "--strict"]) == 1


def test_repeats_are_judged_together(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--repeat", "3", "--max-ttft", "10s", "--json"]
    assert run(["check", origin.url(PATH), *ASK, *arguments]) == 0
    (target,) = printed(capfd)["targets"]
    assert len(target["document"]["runs"]) == 3
    assert target["budgets"][0]["because"][0].startswith("median of 3 runs: ")


def test_a_target_that_is_down_is_exit_code_3_and_a_junit_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url, file = f"http://127.0.0.1:{free_port()}{PATH}", tmp_path / "x.xml"
    arguments = ["--max-ttft", "1s", "--repeat", "3", "--strict", "--junit", str(file)]
    assert run(["check", url, *ASK, *arguments]) == 3
    assert "stopped at tcp" in capfd.readouterr().out
    root = parse(file).getroot()
    assert root is not None
    assert (root.get("errors"), root.get("failures")) == ("1", "0")


def test_a_rate_limit_stops_the_repeats_and_the_other_targets_of_the_host(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with ScriptedOrigin([ReadRequest(), response(429, b"{}", "application/json")]) as origin:
        file = tmp_path / "paths.toml"
        url = origin.url(PATH)
        file.write_text(
            f'[[target]]\nname = "a"\nurl = "{url}"\n[[target]]\nname = "b"\nurl = "{url}"\n'
        )
        code = run(["check", str(file), *ASK, "--repeat", "5", "--max-ttft", "1s"])
        assert len(origin.requests) == 1
    out = capfd.readouterr().out
    assert code == 3 and "limits the rate of requests (429)" in out
    assert "1 of 5 runs were made" in out and "not asked: " in out
    assert "?? max-ttft 1.00 s: inconclusive; there was no answer to judge" in out


def test_a_budget_file_has_targets_with_their_own_budgets(
    origin: ScriptedOrigin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paths.toml"
    file.write_text(
        f"""
[defaults]
model = "m1"
proxy = "none"
max-ttft = "10s"

[[target]]
name = "good"
url = "{origin.url(PATH)}"

[[target]]
name = "bad"
url = "{origin.url(PATH)}"
max-total = "10ms"
max-ttft = "9ms"
allow = ["PP412"]
"""
    )
    for arguments in ([str(file)], ["--config", str(file)]):
        assert run(["check", *arguments, "--json"]) == 1
        good, bad = printed(capfd)["targets"]
        assert (good["name"], verdicts(good)) == ("good", {"max-ttft": "kept"})
        assert bad["outcome"] == "failed" and verdicts(bad)["max-total"] == "broken"


def test_an_option_on_the_command_line_wins_over_the_file(
    origin: ScriptedOrigin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paths.toml"
    file.write_text(f'[[target]]\nurl = "{origin.url(PATH)}"\nmax-total = "1ms"\n')
    assert run(["check", str(file), *ASK, "--max-total", "15s"]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.toml"], "cannot read"),
        (["--max-ttft", "soon", "http://127.0.0.1:1/"], "--max-ttft: not a duration"),
        (["http://127.0.0.1:1/", "--config", "x.toml"], "a URL beside a budget file"),
        (["x.toml", "--config", "x.toml"], "two budget files"),
        (["http://127.0.0.1:1/", "--junit", "/nowhere/x.xml"], "--junit FILE"),
        (["http://127.0.0.1:1/", "--require-tls", "1.3"], "contradicts an http URL"),
    ],
)
def test_wrong_usage_is_exit_code_2_before_anything_is_measured(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", *arguments]) == 2
    out, err = capfd.readouterr()
    assert out == "" and said in err


def test_a_wrong_budget_in_a_file_names_file_line_and_target(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "paths.toml"
    file.write_text('\n[[target]]\nname = "chat"\nurl = "http://127.0.0.1:1/"\nmax-ttft = "2y"\n')
    assert run(["check", str(file)]) == 2
    err = capfd.readouterr().err
    assert f"where: {file}, line 5, target chat" in err and "not a duration: '2y'" in err


def test_on_github_there_are_annotations_and_a_job_summary(
    origin: ScriptedOrigin,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    file = tmp_path / "own.md"
    arguments = ["--max-total", "10ms", "--json", "--markdown", str(file)]
    assert run(["check", origin.url(PATH), *ASK, *arguments]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["exit_code"] == 1
    assert err.startswith("::error title=") and "max-total" in err
    assert summary.read_text() == "before\n" + file.read_text()


def test_a_key_is_nowhere_in_the_results(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", SECRET)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    error = f'{{"error":{{"message":"bad key {SECRET}","type":"auth"}}}}'.encode()
    files = {name: tmp_path / name for name in ("junit", "sarif", "markdown")}
    outputs = [part for name, file in files.items() for part in (f"--{name}", str(file))]
    with ScriptedOrigin([ReadRequest(), response(401, error, "application/json")]) as origin:
        code = run(["check", origin.url(PATH), *ASK, "--key-env", "MY_KEY", "--json", *outputs])
        assert SECRET.encode() in origin.requests[0]
    assert code == 1
    written = "".join(file.read_text() for file in files.values()) + "".join(capfd.readouterr())
    assert SECRET not in written and "PP" in written


@pytest.mark.slow
def test_ctrl_c_writes_what_there_is_and_is_exit_code_130(tmp_path: Path) -> None:
    begun: list[Step] = [ReadRequest(), head(), chunk(delta("Hello")), HOLD]
    with ScriptedOrigin(begun) as origin:
        command = [sys.executable, "-m", "promptpath", "check", origin.url(PATH), *ASK, "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment())
        _wait_for(lambda: bool(origin.requests))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(out)["targets"][0]["outcome"] == "interrupted"


def _wait_for(condition: Callable[[], bool], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


@pytest.mark.slow
def test_without_a_url_the_bundled_server_passes(capfd: pytest.CaptureFixture[str]) -> None:
    budgets = ["--require-streaming", "--require-terminal", "--require-http", "2"]
    assert run(["check", *budgets, "--require-tls", "1.3", "--max-hold", "100ms", "--json"]) == 0
    (target,) = printed(capfd)["targets"]
    assert set(verdicts(target).values()) == {"kept"} and len(target["budgets"]) == 5


@pytest.mark.slow
def test_min_idle_without_a_reference_server_is_unmeasured_and_says_what_to_run(
    origin: ScriptedOrigin, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", origin.url(PATH), *ASK, "--min-idle", "5s"]) == 3
    assert "promptpath serve --engine none" in capfd.readouterr().out
