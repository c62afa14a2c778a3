"""squid as a reverse proxy (an accelerator), with an ICAP scanner if wanted. Clear text only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from tests.peers.process import free_port, running
from tests.peers.require import require

_CONFIG = """\
http_port 127.0.0.1:{port} accel defaultsite=localhost no-vhost
cache_peer {host} parent {upstream_port} 0 no-query no-digest originserver name=only
pid_filename none
access_log none
cache_log {directory}/cache.log
cache_store_log none
coredump_dir {directory}
cache deny all
shutdown_lifetime 0 seconds
visible_hostname squid.promptpath.test
{user}
{scanner}
http_access allow all
"""
_SCANNER = """\
icap_enable on
icap_preview_enable on
icap_service scanner respmod_precache {icap} bypass=off
{rules}
adaptation_access scanner allow all"""
BUT_STREAMS = "acl sse rep_mime_type ^text/event-stream\nadaptation_access scanner deny sse"
"""What lets event streams past the scanner."""


@contextlib.contextmanager
def accelerator(
    directory: Path, upstream: str, *, icap: str = "", rules: str = ""
) -> Iterator[str]:
    """squid before `upstream` (an http URL without a path); gives its base URL. `icap` is the URL
    of a scanner for all responses, but for what `rules` take out."""
    program = require("squid")
    with tempfile.TemporaryDirectory() as scratch:
        # Started by root, squid becomes another user, who cannot look into the caller's directory.
        shared = Path(scratch)
        shared.chmod(0o777)
        port, url = free_port(), urlsplit(upstream)
        config = shared / "squid.conf"
        config.write_text(
            _CONFIG.format(
                port=port,
                host=url.hostname,
                upstream_port=url.port,
                directory=shared,
                user="cache_effective_user proxy" if os.getuid() == 0 else "",
                scanner=_SCANNER.format(icap=icap, rules=rules) if icap else "",
            )
        )
        config.chmod(0o644)
        command = [program, "-N", "-n", f"promptpath{port}", "-f", str(config)]
        with running(command, log=directory / "squid.log", port=port):
            yield f"http://127.0.0.1:{port}"
