"""squid and tinyproxy as forward proxies (CONNECT and absolute-form), a login if wanted."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.peers.process import free_port, running
from tests.peers.require import require, unavailable

_SQUID = """\
http_port 127.0.0.1:{port}
pid_filename none
access_log none
cache_log {directory}/cache.log
cache_store_log none
coredump_dir {directory}
cache deny all
shutdown_lifetime 0 seconds
visible_hostname squid.promptpath.test
{user}
{rules}
http_access deny all
"""
_SQUID_LOGIN = """\
auth_param basic program {helper} {passwords}
auth_param basic realm promptpath
acl known proxy_auth REQUIRED
http_access allow known"""
_SQUID_USER = "proxy"
"""Debian's user for proxies; base-passwd has it on every machine."""
_SQUID_HELPERS = ("/usr/lib/squid/basic_ncsa_auth", "/usr/lib64/squid/basic_ncsa_auth")

_TINYPROXY = """\
Listen 127.0.0.1
Port {port}
Timeout 60
MaxClients 50
LogLevel Warning
{login}
"""


def _password_file(directory: Path, user: str, password: str) -> Path:
    """An htpasswd file with an MD5 (apr1) entry, which basic_ncsa_auth reads."""
    command = [require("openssl"), "passwd", "-apr1", "-stdin"]
    entry = subprocess.run(command, input=password.encode(), capture_output=True, check=True).stdout
    path = directory / "passwords"
    path.write_text(f"{user}:{entry.decode().strip()}\n")
    path.chmod(0o644)
    return path


@contextlib.contextmanager
def squid(directory: Path, *, credentials: tuple[str, str] | None = None) -> Iterator[str]:
    """squid, tunnelling to any port; gives its URL (no login in it)."""
    program = require("squid")
    with tempfile.TemporaryDirectory() as scratch:
        # Started by root, squid becomes another user, who cannot look into pytest's directories.
        shared = Path(scratch)
        shared.chmod(0o777)
        port = free_port()
        config = shared / "squid.conf"
        config.write_text(_squid_config(shared, port, credentials))
        config.chmod(0o644)
        command = [program, "-N", "-n", f"promptpath{port}", "-f", str(config)]
        with running(command, log=directory / "squid.log", port=port):
            yield f"http://127.0.0.1:{port}"


def _squid_config(shared: Path, port: int, credentials: tuple[str, str] | None) -> str:
    rules = "http_access allow all"
    if credentials is not None:
        helper = next((path for path in _SQUID_HELPERS if os.path.exists(path)), None)
        if helper is None:
            unavailable("squid has no basic_ncsa_auth", "apt-get install squid")
        rules = _SQUID_LOGIN.format(helper=helper, passwords=_password_file(shared, *credentials))
    user = f"cache_effective_user {_SQUID_USER}" if os.getuid() == 0 else ""
    return _SQUID.format(port=port, directory=shared, rules=rules, user=user)


@contextlib.contextmanager
def tinyproxy(directory: Path, *, credentials: tuple[str, str] | None = None) -> Iterator[str]:
    """tinyproxy, tunnelling to any port; gives its URL (no login in it)."""
    program = require("tinyproxy")
    port = free_port()
    login = "" if credentials is None else f"BasicAuth {credentials[0]} {credentials[1]}"
    config = directory / "tinyproxy.conf"
    config.write_text(_TINYPROXY.format(port=port, login=login))
    command = [program, "-d", "-c", str(config)]
    with running(command, log=directory / "tinyproxy.log", port=port):
        yield f"http://127.0.0.1:{port}"
