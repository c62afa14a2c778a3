"""The reference server's ASGI app under servers that are not ours."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running

APP = "reference_server.app:app"
"""Where an ASGI server finds the application."""


@contextlib.contextmanager
def hypercorn(directory: Path, *, tls: Leaf | None = None, app: str = APP) -> Iterator[str]:
    """hypercorn (HTTP/1.1, and HTTP/2 and HTTP/3 under TLS); gives its base URL."""
    port = free_port()
    command = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{port}"]
    command += ["--graceful-timeout", "0"]
    if tls is not None:
        command += ["--certfile", str(tls.chain), "--keyfile", str(tls.key)]
        command += ["--quic-bind", f"127.0.0.1:{port}"]
    with running([*command, app], log=directory / "hypercorn.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def uvicorn(directory: Path, *, tls: Leaf | None = None, app: str = APP) -> Iterator[str]:
    """uvicorn (HTTP/1.1 only); gives its base URL."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--log-level", "warning"]
    if tls is not None:
        command += ["--ssl-certfile", str(tls.chain), "--ssl-keyfile", str(tls.key)]
    with running([*command, app], log=directory / "uvicorn.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
