"""nginx as a reverse proxy: as it comes (buffering on), or set up for streams."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require

_CONFIG = """\
daemon off;
master_process off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port}{listen_options};
        {tls}
        location / {{
            proxy_pass {upstream};
            proxy_ssl_verify off;
            {upstream_version}
            {extra}
        }}
    }}
}}
"""

HTTP_1_1 = 'proxy_http_version 1.1; proxy_set_header Connection "";'
"""To the upstream; nginx before 1.29.7 speaks 1.0 unless told."""
STREAMING = "proxy_buffering off;"
"""What a stream needs; nginx's own default is on."""


@contextlib.contextmanager
def nginx(
    directory: Path,
    upstream: str,
    *,
    tls: Leaf | None = None,
    http2: bool = True,
    extra: str = STREAMING,
    upstream_version: str = HTTP_1_1,
) -> Iterator[str]:
    """nginx before `upstream` (an http or https URL without a path); gives its base URL.

    `extra` and `upstream_version` are directives of the location: "" leaves nginx as it comes.
    """
    program = require("nginx")
    port = free_port()
    certificate = f"ssl_certificate {tls.chain}; ssl_certificate_key {tls.key};" if tls else ""
    config = directory / "nginx.conf"
    config.write_text(
        _CONFIG.format(
            directory=directory,
            port=port,
            listen_options=(" ssl" + (" http2" if http2 else "")) if tls else "",
            tls=certificate,
            upstream=upstream,
            extra=extra,
            upstream_version=upstream_version,
        )
    )
    command = [program, "-p", str(directory), "-c", str(config), "-e", "stderr"]
    with running(command, log=directory / "nginx.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
