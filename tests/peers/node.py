"""node with http-proxy as a reverse proxy, and the compression middleware if wanted.

npm install http-proxy compression && export NODE_PATH=$PWD/node_modules
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.peers.process import free_port, running
from tests.peers.programs import find
from tests.peers.require import unavailable

PACKAGES = ("http-proxy", "compression")
"""From npm, where node finds them (NODE_PATH)."""
_SCRIPT = """\
const proxy = require("http-proxy").createProxyServer({ target: %(upstream)s });
const pass = (request, response) => proxy.web(request, response);
const compress = %(compress)s && require("compression")({ threshold: 0, filter: () => true });
proxy.on("error", (error, request, response) => response.destroy && response.destroy());
require("http").createServer((request, response) => {
  if (compress) compress(request, response, () => pass(request, response));
  else pass(request, response);
}).listen(%(port)d, "127.0.0.1");
"""


@contextlib.contextmanager
def node_proxy(directory: Path, upstream: str, *, compress: bool = False) -> Iterator[str]:
    """http-proxy before `upstream` (an http URL without a path); gives its base URL."""
    program = find("node")
    remedy = f"apt-get install nodejs npm; npm install {' '.join(PACKAGES)}; set NODE_PATH"
    if program is None:
        unavailable("node is not installed", remedy)
    needed = " ".join(f"require('{name}');" for name in PACKAGES)
    if subprocess.run([program, "-e", needed], capture_output=True).returncode:
        unavailable("node has no http-proxy or compression", remedy)
    port = free_port()
    script = directory / "proxy.js"
    known = {"upstream": json.dumps(upstream), "compress": json.dumps(compress), "port": port}
    script.write_text(_SCRIPT % known)
    with running([program, str(script)], log=directory / "node.log", port=port):
        yield f"http://127.0.0.1:{port}"
