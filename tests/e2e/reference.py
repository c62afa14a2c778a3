"""The reference server as a process of its own, at a pace that makes hops tell apart."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running

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
def reference_server(directory: Path, *options: str, tls: Leaf | None = None) -> Iterator[Server]:
    """Serve until the block ends; `tls` puts it behind this leaf, for the name localhost."""
    port = free_port()
    command = [sys.executable, "-m", "reference_server", "--port", str(port)]
    command += ["--base-ms", str(BASE_MS), "--itl-ms", str(ITL_MS), "--prefill-ms-per-token", "0"]
    command += ["--cert", str(tls.chain), "--key", str(tls.key)] if tls else ["--clear-text"]
    with running([*command, *options], log=directory / f"server-{port}.log", port=port):
        yield Server(f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}", port)
