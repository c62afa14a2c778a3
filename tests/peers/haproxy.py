"""haproxy as a reverse proxy, TLS in front if wanted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require

_CONFIG = """\
global
    log stderr local0 warning
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client {timeout_ms}
    timeout server {timeout_ms}
    {options}
frontend in
    bind 127.0.0.1:{port}{bind_options}
    default_backend out
backend out
    server only {address}{server_options}
"""


@contextlib.contextmanager
def haproxy(
    directory: Path,
    upstream: str,
    *,
    tls: Leaf | None = None,
    timeout_ms: int = 60_000,
    options: str = "",
) -> Iterator[str]:
    """haproxy before `upstream` (an http or https URL without a path); gives its base URL.

    `timeout_ms` is how long either side may be silent, `options` a line of the defaults section.
    """
    program = require("haproxy")
    port = free_port()
    url = urlsplit(upstream)
    bind_options = ""
    if tls is not None:
        pem = directory / "haproxy.pem"
        pem.write_bytes(tls.chain.read_bytes() + tls.key.read_bytes())
        bind_options = f" ssl crt {pem} alpn h2,http/1.1"
    config = directory / "haproxy.cfg"
    config.write_text(
        _CONFIG.format(
            port=port,
            timeout_ms=timeout_ms,
            options=options,
            bind_options=bind_options,
            address=url.netloc,
            server_options=" ssl verify none" if url.scheme == "https" else "",
        )
    )
    with running([program, "-db", "-f", str(config)], log=directory / "haproxy.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
