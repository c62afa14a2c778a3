"""Starting the origin and the tool, as separate processes, the way a user has them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.peers.certs import Leaf

ROOT = Path(__file__).parents[1]
RUN_S = 120.0
"""A run that takes longer has failed."""


class ToolFailedError(RuntimeError):
    """The tool ended without a document."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A running benchmarks.origin."""

    host: str
    port: int
    tls: bool
    log: Path

    @property
    def url(self) -> str:
        """Where it answers, in a form that is traced as a chat completion."""
        scheme = "https" if self.tls else "http"
        return f"{scheme}://{self.host}:{self.port}/v1/chat/completions"

    def records(self) -> list[dict[str, Any]]:
        """Its log: a dictionary a request (benchmarks.origin.Record)."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@contextlib.contextmanager
def origin(
    log: Path,
    *,
    host: str = "127.0.0.1",
    prefix: Sequence[str] = (),
    tls: Leaf | None = None,
    **options: float,
) -> Iterator[Origin]:
    """Run the origin; `options` are its own (events=400, gap_ms=5 ...)."""
    log.touch()
    command = [*prefix, sys.executable, "-m", "benchmarks.origin", "--host", host, f"--log={log}"]
    command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    if tls is not None:
        command += [f"--cert={tls.chain}", f"--key={tls.key}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        yield Origin(host, int(process.stdout.readline()), tls is not None, log)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def command(url: str, *arguments: str) -> list[str]:
    """The tool's command line for a stream of the origin."""
    tool = [sys.executable, "-m", "promptpath", "trace", url, "--model", "bench"]
    return [*tool, "--proxy", "none", "--max-tokens", "1000000", "--timeout", "1h", *arguments]


def trace(
    url: str,
    scratch: Path,
    *arguments: str,
    prefix: Sequence[str] = (),
    live: bool = False,
) -> dict[str, Any]:
    """Trace the URL in a fresh process and read the document; with `live`, on a terminal, so that
    the live view runs. Raises ToolFailedError with what the tool said."""
    output = scratch / "trace.json"
    output.unlink(missing_ok=True)
    line = [*prefix, *command(url, "-o", str(output), *arguments)]
    said = _on_terminal(line) if live else _quietly(line)
    if not output.exists():
        raise ToolFailedError(f"no document from {' '.join(line)}:\n{said[-3000:]}")
    document: dict[str, Any] = json.loads(output.read_bytes())
    return document


def _quietly(line: Sequence[str]) -> str:
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S, cwd=ROOT
    )
    return done.stdout + done.stderr


def _on_terminal(line: Sequence[str]) -> str:
    """Run with a pseudo-terminal for stdout and stderr, read as a terminal would."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    said = bytearray()

    def drain() -> None:
        with contextlib.suppress(OSError):  # EIO: the last writer closed
            while data := os.read(master, 65536):
                said.extend(data)

    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        line, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=ROOT
    )
    os.close(slave)
    reader = threading.Thread(target=drain)
    reader.start()
    try:
        process.wait(RUN_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        reader.join()
        os.close(master)
    return said.decode(errors="replace")


def content_events(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The text events of the first run, in order."""
    events = document["runs"][0]["trace"]["events"]
    return [event for event in events if event["kind"] == "text"]
