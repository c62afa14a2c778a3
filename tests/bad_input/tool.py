"""Runs the program against something bad, and holds every run to what must always be true.

However bad the peer: the exit code is one of ours, no traceback and no control character comes out,
neither key nor prompt is found in anything written, the document keeps to its schema, and memory
and time are bounded.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import re
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from promptpath.model.codec import json_schema
from tests.bad_input.fork_server import Forked, ForkServer, Running
from tests.cli.running import environment
from tests.peers.certs import Certificates
from tests.peers.threaded import Connection

KEY = "marker5f2c91keyb7d0"
"""The key of every run: shaped like no vendor's, so that no pattern hides it by luck."""
PROMPT = "marker7b1e44prompt why is the stream slow"
KEY_ENV = "PROMPTPATH_TEST_KEY"
CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"

LIMIT_S = 30.0
"""No run of this folder may need longer, on any machine; each test says its own, shorter bound."""
RSS_LIMIT_MIB = 200
"""The memory bar of the measuring process; what a test allows beyond it, it says itself."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run left."""

    code: int
    out: str
    err: str
    seconds: float
    rss_mib: float
    directory: Path = field(repr=False)
    document: dict[str, Any] | None = field(repr=False)
    """The document of `-o trace.json`, None when none was written."""

    @property
    def trace(self) -> dict[str, Any]:
        """The last run's trace."""
        assert self.document is not None, f"no document; stderr: {self.err}"
        trace: dict[str, Any] = self.document["runs"][-1]["trace"]
        return trace

    @property
    def report(self) -> dict[str, Any]:
        """The last run's report."""
        assert self.document is not None, f"no document; stderr: {self.err}"
        report: dict[str, Any] = self.document["runs"][-1]["report"]
        return report

    def fact(self, key: str) -> Any:
        """The last value of a fact; None without one."""
        found = [fact["value"] for fact in self.trace["facts"] if fact["key"] == key]
        return found[-1] if found else None

    def spans(self, outcome: str) -> set[str]:
        """The stages that have a span of this outcome."""
        return {span["stage"] for span in self.trace["spans"] if span["outcome"] == outcome}

    def stages(self) -> list[str]:
        """The top-level hops, in order."""
        return [hop["stage"] for hop in self.report["hops"] if hop["within"] is None]

    def kinds(self) -> list[str]:
        """The kinds of the stream's events, in order."""
        return [event["kind"] for event in self.trace["events"]]

    def codes(self) -> set[str]:
        """The codes of the findings."""
        return {finding["code"] for finding in self.report["findings"]}

    def advice(self, code: str) -> str:
        """What a finding advises; it must have fired."""
        found = [f for f in self.report["findings"] if f["code"] == code]
        assert found, f"{code} did not fire, but {sorted(self.codes())}"
        assert found[0]["because"], "a finding without evidence"
        return str(found[0]["advice"])

    def failed_at(self, stage: str, code: str | None = None) -> str:
        """The run stopped at this stage: every place says so, with a hint. Returns the hint."""
        assert self.code == 3, f"exit {self.code}: {self.out}{self.err}"
        failure = self.fact("failure")
        assert failure is not None, f"no failure fact: {self.out}"
        assert (failure["stage"], failure["code"]) == (stage, code or failure["code"]), failure
        assert failure["hint"], f"no hint: {failure}"
        assert f"stopped at {stage}: " in self.out
        assert "hint: " in self.out
        assert self.report["end_state"] == "no-response"
        return str(failure["hint"])


def trace(
    directory: Path,
    url: str | None,
    *options: str,
    key: bool = True,
    prompt: bool = True,
    model: str | None = "m",
    limit_s: float = LIMIT_S,
    rss_mib: float = RSS_LIMIT_MIB,
    during: Callable[[Running], None] | None = None,
    stdin: bytes = b"",
    **environ: str,
) -> Run:
    """Run `promptpath trace URL` with the marked key and prompt, and check what always holds.

    `during` runs beside it, in this thread (to send signals). The document and the ticket are
    written too, so that they are searched as well.
    """
    command = ["trace", *([] if url is None else [url]), *options]
    if key:
        command += ["--key-env", KEY_ENV]
    if prompt:
        command += ["--prompt", PROMPT]
    if model is not None:
        command += ["--model", model]
    command += ["-o", str(directory / "trace.json"), "-o", str(directory / "report.md")]
    return run(
        directory,
        *command,
        limit_s=limit_s,
        rss_mib=rss_mib,
        during=during,
        stdin=stdin,
        **{KEY_ENV: KEY, **environ},
    )


def run(
    directory: Path,
    *command: str,
    limit_s: float = LIMIT_S,
    rss_mib: float = RSS_LIMIT_MIB,
    during: Callable[[Running], None] | None = None,
    stdin: bytes = b"",
    **environ: str,
) -> Run:
    """Run any command of the program and check what always holds."""
    out, err, given = directory / "stdout", directory / "stderr", directory / "stdin"
    given.write_bytes(stdin)
    started = time.monotonic()
    with out.open("wb") as stdout, err.open("wb") as stderr, given.open("rb") as source:
        process = fork_server().start(command, environment(**environ), (source, stdout, stderr))
        code, rss = _finish(process, limit_s, during)
    result = Run(
        code=code,
        out=out.read_bytes().decode(),
        err=err.read_bytes().decode(),
        seconds=time.monotonic() - started,
        rss_mib=rss,
        directory=directory,
        document=_document(directory / "trace.json"),
    )
    given.unlink()
    check(result, rss_mib)
    return result


@cache
def fork_server() -> ForkServer:
    """The one of this test process; it ends with it."""
    server = ForkServer()
    atexit.register(server.close)
    return server


def _finish(
    process: Forked,
    limit_s: float,
    during: Callable[[Running], None] | None,
) -> tuple[int, float]:
    """Its exit code and its largest resident size in MiB."""
    killer = threading.Timer(limit_s, process.kill)
    killer.start()
    peak = _Peak(process.pid)
    peak.start()
    try:
        if during is not None:
            during(process)
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        killer.cancel()
        peak.over.set()
        peak.join()
    return code, peak.mib


class _Peak(threading.Thread):
    """Reads the kernel's high-water mark of a process's memory while it runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self.over = threading.Event()
        self.mib = 0.0

    def run(self) -> None:
        while not self.over.wait(0.02):
            with contextlib.suppress(OSError):  # it has ended
                found = re.search(r"VmHWM:\s+(\d+) kB", self._status.read_text())
                self.mib = int(found[1]) / 1024 if found else self.mib


def check(result: Run, rss_mib: float = RSS_LIMIT_MIB) -> None:
    """What holds for every run."""
    assert result.code in (0, 1, 2, 3, 130), f"exit {result.code}: {result.out}{result.err}"
    for text in (result.out, result.err):
        assert "Traceback" not in text, text
        found = _CONTROL.search(text)
        assert found is None, f"control character {found[0]!r} in {text!r}"
    assert result.rss_mib < rss_mib, f"{result.rss_mib:.0f} MiB resident"
    kept = result.document is not None and result.document["plan"]["keep_content"]
    for path in result.directory.iterdir():
        if path.is_file():
            content = path.read_bytes()
            assert KEY.encode() not in content, f"the key is in {path.name}"
            assert kept or PROMPT.encode() not in content, f"the prompt is in {path.name}"
    if result.document is not None:
        validator().validate(result.document)
        assert result.document["summary"]["exit_code"] == result.code
        assert not list(result.directory.glob("*.partial.ndjson")), "the journal was left behind"


@cache
def validator() -> jsonschema.Draft202012Validator:
    """Checks documents against the schema the program declares."""
    return jsonschema.Draft202012Validator(json_schema())


def _document(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    document: dict[str, Any] = json.loads(path.read_bytes())
    return document


def trusting(certs: Certificates) -> tuple[str, str]:
    """Options to trust the suite's own CA."""
    return ("--cacert", str(certs.ca))


def hold_without_reading(connection: Connection) -> None:
    """Read nothing more until the client is gone, so that its upload stays blocked."""
    poll = select.poll()
    poll.register(connection.sock, select.POLLRDHUP)
    poll.poll(LIMIT_S * 1000)


def openai_events(count: int = 3, *, finish: bool = False) -> list[bytes]:
    """Chat completion events as OpenAI sends them: a role, `count` texts, and the end if asked."""
    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": f"word{index} "}, None) for index in range(count)]
    if finish:
        deltas.append(({}, "stop"))
    events = [_chat_chunk(delta, reason) for delta, reason in deltas]
    return [*events, b"data: [DONE]\n\n"] if finish else events


def _chat_chunk(delta: dict[str, str], finish: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def anthropic_events() -> list[bytes]:
    """The beginning of a message as Anthropic sends it, three texts long."""
    usage = {"input_tokens": 5, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
    start = {"type": "message_start", "message": {**message, "usage": usage}}
    block = {"type": "text", "text": ""}
    events: list[dict[str, Any]] = [
        start,
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]
    for index in range(3):
        delta = {"type": "text_delta", "text": f"word{index} "}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    return [named_event(str(event["type"]), event) for event in events]


def named_event(name: str, payload: object) -> bytes:
    """An event with a name."""
    return f"event: {name}\ndata: {json.dumps(payload)}\n\n".encode()
