"""Apache httpd (mod_proxy_http) as a reverse proxy."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require, unavailable

_MODULE_FOLDERS = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules")
_MODULES = ("mpm_event", "authz_core", "proxy", "proxy_http", "filter")
_CONFIG = """\
{modules}
ServerRoot {directory}
ServerName localhost
PidFile {directory}/apache.pid
DefaultRuntimeDir {directory}
Mutex pthread
ErrorLog {directory}/apache-error.log
{user}
Listen 127.0.0.1:{port}
StartServers 1
ThreadsPerChild 64
{tls}
{extra}
ProxyPass "/" "{upstream}/" {parameters}
"""
RATE_LIMIT = "SetOutputFilter RATE_LIMIT\nSetEnv rate-limit 8"
"""mod_ratelimit, 8 KiB a second; asks for the modules `ratelimit` and `env`."""
DEFLATE = "AddOutputFilterByType DEFLATE text/event-stream"
"""Asks for the module `deflate`."""


@contextlib.contextmanager
def apache(
    directory: Path,
    upstream: str,
    *,
    tls: Leaf | None = None,
    extra: str = "",
    modules: tuple[str, ...] = (),
    parameters: str = "",
) -> Iterator[str]:
    """Apache before `upstream` (an http URL without a path); gives its base URL.

    `extra` are directives of the server, which may need further `modules`; `parameters` are those
    of ProxyPass. Behind TLS it offers HTTP/2.
    """
    program = require("apache2")
    port = free_port()
    config = directory / "apache.conf"
    config.write_text(
        _CONFIG.format(
            modules=_load((*_MODULES, *modules, *(("ssl", "http2") if tls else ()))),
            directory=directory,
            user="User www-data\nGroup www-data" if os.getuid() == 0 else "",
            port=port,
            tls=_tls(tls),
            extra=extra,
            upstream=upstream,
            parameters=parameters,
        )
    )
    command = [program, "-DFOREGROUND", "-f", str(config)]
    with running(command, log=directory / "apache.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"


def _load(names: tuple[str, ...]) -> str:
    folder = next((path for path in map(Path, _MODULE_FOLDERS) if path.is_dir()), None)
    if folder is None:
        unavailable("no modules of Apache", "apt-get install apache2")
    return "\n".join(f"LoadModule {name}_module {folder}/mod_{name}.so" for name in names)


def _tls(leaf: Leaf | None) -> str:
    if leaf is None:
        return ""
    return (
        f"SSLEngine on\nSSLCertificateFile {leaf.chain}\nSSLCertificateKeyFile {leaf.key}\n"
        "Protocols h2 http/1.1"
    )
