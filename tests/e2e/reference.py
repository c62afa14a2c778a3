"""The reference server as a process of its own, at a pace that makes hops tell apart."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import START_S, accepts, free_port, running

BASE_MS = 20.0
ITL_MS = 8.0
"""Time to the first token, and between two: longer than a busy loopback's own jitter."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    """Without a path."""
    port: int


@contextlib.contextmanager
def reference_server(
    directory: Path, *options: str, tls: Leaf | None = None, host: str = "127.0.0.1"
) -> Iterator[Server]:
    """Serve until the block ends; `tls` puts it behind this leaf, for the name localhost."""
    port = free_port(host=host)
    command = [sys.executable, "-m", "reference_server", "--host", host, "--port", str(port)]
    command += ["--base-ms", str(BASE_MS), "--itl-ms", str(ITL_MS), "--prefill-ms-per-token", "0"]
    command += ["--cert", str(tls.chain), "--key", str(tls.key)] if tls else ["--clear-text"]
    with running([*command, *options], log=directory / f"server-{port}.log"):
        wait_until_accepting(port, host)
        yield Server(f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}", port)


def wait_until_accepting(port: int, host: str) -> None:
    """Until a connection is taken; an import of the server takes a second on a busy machine."""
    deadline = time.monotonic() + START_S
    while not accepts(port, host):
        assert time.monotonic() < deadline, f"nothing accepts at {host} {port}"
        time.sleep(0.01)
