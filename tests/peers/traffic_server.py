"""Apache Traffic Server as a reverse proxy. Clear text only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.peers.process import free_port, running
from tests.peers.require import require, unavailable

_PLUGIN_FOLDERS = ("/usr/lib/trafficserver/modules", "/usr/libexec/trafficserver")
_USER = "trafficserver"
"""Debian's user for it."""
_ROOT = """\
prefix: /usr
exec_prefix: /usr
bindir: {programs}
sbindir: {programs}
sysconfdir: {directory}
datadir: {directory}
includedir: {directory}
libdir: {plugins}
libexecdir: {plugins}
localstatedir: {directory}
runtimedir: {directory}
logdir: {directory}
cachedir: {directory}
"""
_RECORDS = """\
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.admin.user_id STRING {user}
CONFIG proxy.config.http.cache.http INT 0
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.exec_thread.autoconfig.enabled INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.task_threads INT 1
CONFIG proxy.config.diags.output.status STRING E
"""
_ALLOW = """\
ip_allow:
  - {apply: in, ip_addrs: 127.0.0.1, action: allow, methods: ALL}
  - {apply: out, ip_addrs: 127.0.0.1, action: allow, methods: ALL}
"""
COMPRESS = """\
cache false
remove-accept-encoding true
compressible-content-type text/*
supported-algorithms gzip
minimum-content-length 0
"""
"""compress.so, event streams included."""
COMPRESS_LISTED = COMPRESS.replace("text/*", "text/html")


@contextlib.contextmanager
def traffic_server(directory: Path, upstream: str, *, compress: str = "") -> Iterator[str]:
    """traffic_server before `upstream` (an http URL without a path); gives its base URL. `compress`
    is the configuration of compress.so, "" leaves the plugin out."""
    program = require("traffic_server")
    plugins = next((folder for folder in _PLUGIN_FOLDERS if os.path.isdir(folder)), None)
    if plugins is None:
        unavailable("no plugins of traffic_server", "apt-get install trafficserver")
    with tempfile.TemporaryDirectory() as scratch:
        # Started by root it becomes another user, who cannot look into the caller's directory.
        home = Path(scratch)
        home.chmod(0o777)
        port = free_port()
        _write(home, Path(program).parent, plugins, port, upstream, compress)
        command = [program, f"--run-root={home}"]
        with running(command, log=directory / "traffic_server.log", port=port):
            yield f"http://127.0.0.1:{port}"


def _write(
    home: Path, programs: Path, plugins: str, port: int, upstream: str, compress: str
) -> None:
    user = _USER if os.getuid() == 0 else "#-1"
    plugin = f" @plugin=compress.so @pparam={home}/compress.config" if compress else ""
    texts = {
        "runroot.yaml": _ROOT.format(programs=programs, directory=home, plugins=plugins),
        "records.config": _RECORDS.format(port=port, user=user),
        "storage.config": f"{home} 16M\n",
        "ip_allow.yaml": _ALLOW,
        "compress.config": compress,
        "remap.config": f"map / {upstream}/{plugin}\n",
    }
    for name, text in texts.items():
        (home / name).write_text(text)
        (home / name).chmod(0o644)
