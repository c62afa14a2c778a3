"""Caddy as a reverse proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require

_CONFIG = """\
{{
    admin off
    auto_https off
}}
{site} {{
    bind 127.0.0.1
    {tls}
    {extra}
    reverse_proxy {upstream}
}}
"""
GZIP = "encode gzip"
GZIP_LISTED = """encode {
        gzip
        match {
            header Content-Type text/html*
            header Content-Type application/json*
        }
    }"""
"""Compresses what is listed; the matcher of responses knows no "not"."""


@contextlib.contextmanager
def caddy(
    directory: Path, upstream: str, *, tls: Leaf | None = None, extra: str = ""
) -> Iterator[str]:
    """Caddy before `upstream` (an http URL without a path); gives its base URL. `extra` are
    directives of the site."""
    program = require("caddy")
    port = free_port()
    config = directory / "Caddyfile"
    config.write_text(
        _CONFIG.format(
            site=f"https://localhost:{port}" if tls else f"http://:{port}",
            tls=f"tls {tls.chain} {tls.key}" if tls else "",
            extra=extra,
            upstream=upstream,
        )
    )
    command = [program, "run", "--config", str(config), "--adapter", "caddyfile"]
    home = {"HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    home["XDG_CONFIG_HOME"] = str(directory)
    with running(command, log=directory / "caddy.log", port=port, environment=home):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
