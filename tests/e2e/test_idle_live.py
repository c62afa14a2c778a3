"""`promptpath idle` through real proxies whose timers are set to 3 s. All passes run at once: each
takes as long as the longest timer it looks for."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from promptpath.model.codec import json_schema
from tests.cli.running import Done, environment, promptpath
from tests.e2e.reference import Server, reference_server
from tests.peers.certs import Certificates
from tests.peers.haproxy import haproxy
from tests.peers.holding import Hold, HoldingBox
from tests.peers.nginx import nginx
from tests.peers.scripted import ReadRequest, ScriptedOrigin, Step, response

pytestmark = [pytest.mark.peer, pytest.mark.slow]

TIMER_MS = 3000
EARLY_MS, LATE_MS = 300, 1100
"""The slack of real products (analysis.defaults); a busy machine adds to the later end."""
READ_TIMEOUT = "proxy_buffering off; proxy_read_timeout 3s; keepalive_timeout 4s;"
SWALLOWS = "proxy_ignore_headers X-Accel-Buffering;"
"""nginx with TLS and HTTP/1.1 then fills 16 KB records: keepalives wait inside."""
STOP_AFTER_S = 12.0
"""Start of the program on a busy machine, and the timer; the other passes take as long."""


@dataclass(frozen=True)
class Found:
    """One pass."""

    done: Done
    seconds: float

    @cached_property
    def runs(self) -> list[dict[str, Any]]:
        document = json.loads(self.done.out)
        jsonschema.validate(document, json_schema())
        runs: list[dict[str, Any]] = document["runs"]
        return runs

    def verdict(self, question: str) -> list[dict[str, Any]]:
        """All verdicts of that question."""
        verdicts = [each for run in self.runs for each in run["report"]["verdicts"]]
        return [each for each in verdicts if each["question"] == question]

    @property
    def whole(self) -> dict[str, Any]:
        """The verdict of the pass."""
        (verdict,) = self.verdict("idle")
        return verdict

    def stream(self, at: str, keepalive: str) -> dict[str, Any]:
        """The verdict of one stream."""
        (found,) = [
            each
            for each in self.verdict("idle-stream")
            if (each["estimate"]["at"], each["estimate"]["keepalive"]) == (at, keepalive)
        ]
        return found


def idle(url: str, *options: str) -> Found:
    began = time.monotonic()
    done = promptpath("idle", url, "--json", "--proxy", "none", *options)
    return Found(done, time.monotonic() - began)


def stopped(url: str) -> Found:
    """A pass that a person ends by Ctrl-C."""
    command = [sys.executable, "-m", "promptpath", "idle", url, "--json", "--proxy", "none"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment()) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_AFTER_S)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    return Found(Done(process.returncode, out.decode(), err.decode()), STOP_AFTER_S)


@pytest.fixture(scope="module")
def found(
    certs: Certificates, clear: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Found]]:
    """Every pass of this file."""

    def folder(name: str) -> Path:
        return tmp_path_factory.mktemp(name)

    trust = ("--cacert", str(certs.ca), "--max", "4s")
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        read_timeout = enter(nginx(folder("nginx"), clear.url, extra=READ_TIMEOUT))
        h2 = enter(nginx(folder("nginx-h2"), clear.url, tls=certs.good, extra=READ_TIMEOUT))
        cork = enter(haproxy(folder("haproxy"), clear.url, timeout_ms=TIMER_MS))
        clean = enter(haproxy(folder("haproxy-h2"), clear.url, tls=certs.good, timeout_ms=TIMER_MS))
        inner = enter(
            nginx(folder("inner"), clear.url, tls=certs.good, http2=False, extra=SWALLOWS)
        )
        chain = enter(haproxy(folder("outer"), inner, timeout_ms=TIMER_MS))
        alone = enter(reference_server(folder("alone"), "--engine", "none"))
        total = enter(HoldingBox(clear.url, Hold(cut_after_ms=TIMER_MS))).url
        hang = enter(HoldingBox(clear.url, Hold(stop_after_ms=TIMER_MS))).url
        with ThreadPoolExecutor(9) as pool:
            passes = {
                "nginx": pool.submit(idle, read_timeout, "--max", "4s"),
                "nginx-h2": pool.submit(idle, h2, *trust),
                "haproxy": pool.submit(idle, cork, "--max", "4s"),
                "haproxy-h2": pool.submit(idle, clean, *trust),
                "chain": pool.submit(idle, chain, "--max", "4s"),
                "total": pool.submit(idle, total, "--max", "4s"),
                "hang": pool.submit(idle, hang, "--max", "8s"),
                "alone": pool.submit(idle, alone.url, "--max", "3s"),
                "stopped": pool.submit(stopped, read_timeout),
            }
            yield {name: future.result() for name, future in passes.items()}


def near(value_ms: float | None) -> bool:
    return value_ms is not None and TIMER_MS - EARLY_MS <= value_ms <= TIMER_MS + LATE_MS


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("nginx", "FIN without the last chunk"),
        ("nginx-h2", "RST_STREAM code 2"),
        ("haproxy", "FIN without the last chunk"),
        ("haproxy-h2", "a clean end (END_STREAM) without the end event"),
    ],
)
def test_a_read_timer_is_found_with_its_cut_and_comments_reset_it(
    name: str, how: str, found: dict[str, Found]
) -> None:
    measured = found[name]
    assert measured.done.code == 1, measured.done.err
    whole = measured.whole
    assert whole["answer"] == "idle-timer"
    estimate = whole["estimate"]
    for place in ("idle_ms", "before_head_ms", "before_first_byte_ms"):
        assert near(estimate[place]), (place, estimate[place])
    assert estimate["total_ms"] is None
    assert (estimate["comments_reset"], estimate["events_reset"]) == (True, True)
    assert estimate["keepalives_swallowed"] is False
    assert measured.stream("stream", "none")["estimate"]["how"] == how
    assert measured.stream("head", "none")["estimate"]["status"] == 504
    assert measured.stream("stream", "busy")["answer"] == "survived"
    assert estimate["looks_complete"] is (name == "haproxy-h2")
    codes = {finding["code"] for run in measured.runs for finding in run["report"]["findings"]}
    assert "PP440" in codes


def test_a_pass_ends_within_five_seconds_of_the_longest_timer(found: dict[str, Found]) -> None:
    # The bound is the probe's own (probe.idle); the rest is the start of the program.
    assert found["nginx"].seconds < 4 + 5 + 5


def test_an_idle_connection_is_closed_when_its_timer_says_so(found: dict[str, Found]) -> None:
    kept = found["nginx"].stream("kept", "none")
    assert kept["answer"] == "cut"
    assert 4000 - EARLY_MS <= kept["estimate"]["silent_ms"] <= 4000 + LATE_MS
    goaway = found["haproxy-h2"].stream("kept", "none")
    assert goaway["estimate"]["how"] == "closed by goaway"


def test_a_box_that_swallows_keepalives_is_told_from_a_timer_they_do_not_reset(
    found: dict[str, Found],
) -> None:
    measured = found["chain"]
    estimate = measured.whole["estimate"]
    assert measured.whole["answer"] == "idle-timer"
    assert estimate["keepalives_swallowed"] is True
    assert estimate["comments_reset"] is None
    assert estimate["total_ms"] is None
    comments = measured.stream("stream", "comment")["estimate"]
    assert (comments["keepalives"], comments["status"]) == (0, 504)
    assert near(comments["after_request_ms"])


def test_a_timer_for_the_whole_response_is_told_from_an_idle_one(found: dict[str, Found]) -> None:
    measured = found["total"]
    assert measured.whole["answer"] == "total-timer"
    estimate = measured.whole["estimate"]
    assert near(estimate["total_ms"])
    assert (estimate["idle_ms"], estimate["before_first_byte_ms"]) == (None, None)
    assert measured.stream("stream", "comment")["answer"] == "cut"


def test_a_stream_that_somebody_forgets_is_a_hang_with_a_living_peer(
    found: dict[str, Found],
) -> None:
    measured = found["hang"]
    assert measured.whole["answer"] == "hang"
    middle = measured.stream("stream", "none")
    assert middle["answer"] == "hang"
    assert "the peer answers TCP keepalives" in middle["estimate"]["how"]
    codes = {finding["code"] for run in measured.runs for finding in run["report"]["findings"]}
    assert "PP441" in codes


def test_a_path_without_a_timer_passes(found: dict[str, Found]) -> None:
    measured = found["alone"]
    assert measured.done.code == 0, measured.done.err
    assert measured.whole["answer"] == "none-found"
    assert measured.whole["confidence"] == 1.0
    assert {each["answer"] for each in measured.verdict("idle-stream")} == {"survived"}


def test_a_saved_pass_is_judged_and_shown_again(found: dict[str, Found], tmp_path: Path) -> None:
    measured = found["haproxy-h2"]
    again = promptpath("explain", "-", stdin=measured.done.out.encode())
    assert again.code == 1, again.err
    lines = again.out.splitlines()
    assert lines[-1] == measured.whole["estimate"]["sentence"]
    assert "the cut looks like a complete answer" in lines[-1]
    row = next(line for line in lines if " mid-stream  " in line)
    assert row.startswith("!!") and "END_STREAM" in row
    ticket = tmp_path / "idle.md"
    promptpath("explain", "-", "-o", str(ticket), stdin=measured.done.out.encode())
    written = ticket.read_text().splitlines()
    assert "    " + row in written and "    " + lines[-1] in written
    assert json.loads(measured.done.out)["summary"]["metrics"] == {}


def test_ctrl_c_keeps_what_was_found(found: dict[str, Found]) -> None:
    measured = found["stopped"]
    assert measured.done.code == 130, measured.done.err
    assert measured.whole["answer"] == "idle-timer"
    assert near(measured.whole["estimate"]["idle_ms"])
    assert measured.stream("stream", "comment")["answer"] == "unfinished"


def test_an_endpoint_without_test_streams_says_what_to_run_instead() -> None:
    missing: list[Step] = [ReadRequest(), response(404, b'{"error": "no"}', "application/json")]
    with ScriptedOrigin(missing) as origin:
        done = promptpath("idle", origin.url("/v1/chat/completions"), "--proxy", "none")
    assert done.code == 3
    assert "no reference server behind this URL (status 404)" in done.err
    assert "promptpath serve --engine none" in done.err


def test_a_rate_limited_endpoint_is_left_alone() -> None:
    limited: list[Step] = [ReadRequest(), response(429, b'{"error": "no"}', "application/json")]
    with ScriptedOrigin(limited) as origin:
        done = promptpath("idle", origin.url("/"), "--json", "--proxy", "none")
        asked = len(origin.requests)
    assert (done.code, asked) == (3, 1)
    assert "limits the rate" in done.err
    assert json.loads(done.out)["summary"]["exit_code"] == 3


@pytest.mark.parametrize("wrong", ["2s", "2h", "soon"])
def test_a_longest_time_that_cannot_be_is_wrong_usage(wrong: str) -> None:
    done = promptpath("idle", "http://127.0.0.1:9/", "--max", wrong)
    assert done.code == 2
    assert "--max" in done.err
