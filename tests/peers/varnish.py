"""Varnish as a reverse proxy, with the VCL of the test. It speaks clear text only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.peers.process import free_port, running
from tests.peers.require import require

_VCL = """\
vcl 4.1;
backend only {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_backend_response {{ {extra} }}
"""
WHOLE = "set beresp.do_stream = false;"
"""Fetch everything before anything is sent."""
GZIP = "set beresp.do_gzip = true;"
"""Varnish's encoder does not flush."""
BUT_STREAMS = """if (beresp.http.Content-Type ~ "^text/event-stream") {
    set beresp.do_stream = true;
    set beresp.do_gzip = false;
}"""
"""After other lines: what lets event streams pass in spite of them."""


@contextlib.contextmanager
def varnish(directory: Path, upstream: str, *, extra: str = "") -> Iterator[str]:
    """varnishd before `upstream` (an http URL without a path); gives its base URL. `extra` stands
    in vcl_backend_response."""
    program = require("varnishd")
    port, url = free_port(), urlsplit(upstream)
    config = directory / "varnish.vcl"
    config.write_text(_VCL.format(host=url.hostname, port=url.port, extra=extra))
    command = [program, "-F", "-j", "none", "-n", str(directory / "varnish")]
    command += ["-a", f"127.0.0.1:{port}", "-f", str(config), "-s", "malloc,16m"]
    with running(command, log=directory / "varnish.log", port=port):
        yield f"http://127.0.0.1:{port}"
