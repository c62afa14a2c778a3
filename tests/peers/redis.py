"""A Redis of our own on a free loopback port, in memory only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.peers.process import free_port, running
from tests.peers.require import require


@contextlib.contextmanager
def redis_server(folder: Path, port: int | None = None) -> Iterator[int]:
    """Run it; the port. Skips (in CI fails) without the Debian package."""
    program = require("redis-server")
    chosen = free_port() if port is None else port
    command = [program, "--port", str(chosen), "--bind", "127.0.0.1", "--save", ""]
    command += ["--appendonly", "no", "--dir", str(folder)]
    with running(command, log=folder / "redis.log", port=chosen):
        yield chosen
