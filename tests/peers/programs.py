"""Which outside programs the suite drives, which Debian package brings each, and what to do when
one is missing.

Standard library only: `make test` runs this file with the system's Python, before any environment
exists, to learn what to install.
"""

from __future__ import annotations

import os
import shutil
import sys

PACKAGES: dict[str, str] = {
    "apache2": "apache2",
    "caddy": "caddy",
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "curl": "curl",
    "haproxy": "haproxy",
    "ip": "iproute2",
    "lighttpd": "lighttpd",
    "nft": "nftables",
    "nginx": "nginx",
    "openssl": "openssl",
    "redis-server": "redis-server",
    "squid": "squid",
    "tcpdump": "tcpdump",
    "tinyproxy": "tinyproxy",
    "unbound": "unbound",
    "varnishd": "varnish",
}
"""Program -> Debian package."""
LAB_PACKAGES: dict[str, str] = {
    "traffic_server": "trafficserver",
}
"""The same for programs that only `python -m benchmarks.proxies` drives: not installed for the
suite."""

SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Daemons live in sbin, which a plain user's PATH leaves out."""


def find(program: str) -> str | None:
    """The program's path, or None."""
    return shutil.which(program, path=SEARCH_PATH)


def install_line(*packages: str) -> str:
    """What a person types to get the packages."""
    return f"apt-get install --no-install-recommends {' '.join(packages)}"


def package(program: str) -> str:
    """The Debian package that brings it."""
    return (PACKAGES | LAB_PACKAGES)[program]


def missing_packages() -> list[str]:
    """The Debian packages whose programs are not on this machine, sorted."""
    return sorted({package for program, package in PACKAGES.items() if find(program) is None})


if __name__ == "__main__":
    sys.stdout.write(" ".join(missing_packages()) + "\n")
