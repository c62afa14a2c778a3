"""lighttpd (mod_proxy) as a reverse proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require

_CONFIG = """\
server.document-root = "{directory}"
server.bind = "127.0.0.1"
server.port = {port}
server.upload-dirs = ("{directory}")
server.modules = ("mod_proxy"{modules})
proxy.server = ("" => (("host" => "{host}", "port" => {upstream_port})))
{tls}
{extra}
"""
STREAMING = "server.stream-response-body = 1"
"""What a stream needs; lighttpd's default of 0 collects the body."""


@contextlib.contextmanager
def lighttpd(
    directory: Path, upstream: str, *, tls: Leaf | None = None, extra: str = ""
) -> Iterator[str]:
    """lighttpd before `upstream` (an http URL without a path); gives its base URL. Behind TLS
    (Debian's lighttpd-mod-openssl) it offers HTTP/2."""
    program = require("lighttpd")
    port, url = free_port(), urlsplit(upstream)
    certificate = ""
    if tls is not None:
        certificate = (
            f'ssl.engine = "enable"\nssl.pemfile = "{tls.chain}"\nssl.privkey = "{tls.key}"'
        )
    config = directory / "lighttpd.conf"
    config.write_text(
        _CONFIG.format(
            directory=directory,
            port=port,
            modules=', "mod_openssl"' if tls else "",
            host=url.hostname,
            upstream_port=url.port,
            tls=certificate,
            extra=extra,
        )
    )
    with running([program, "-D", "-f", str(config)], log=directory / "lighttpd.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
