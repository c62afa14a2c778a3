"""unbound with zone data of its own: good names, and one for each way an answer can go wrong."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.process import free_port_both, running
from tests.peers.require import require

RECORDS = (
    "www.promptpath.test. 300 A 127.0.0.1",
    "www.promptpath.test. 300 AAAA ::1",
    "four.promptpath.test. 60 A 127.0.0.1",
    "api.promptpath.test. 120 HTTPS 1 . alpn=h2,h3 ipv4hint=127.0.0.1",
    "api.promptpath.test. 120 A 127.0.0.1",
    *(f"big.promptpath.test. 60 A 127.0.{n // 250}.{1 + n % 250}" for n in range(200)),
)
"""`big` has 200 addresses: 3,200 bytes and more, over any UDP limit, so its answer is truncated."""

_CONFIG = """\
server:
    username: ""
    chroot: ""
    directory: "{directory}"
    pidfile: ""
    use-syslog: no
    verbosity: 0
    do-daemonize: no
    interface: 127.0.0.1
    port: {port}
    num-threads: 1
    access-control: 127.0.0.0/8 allow
    access-control: 127.0.0.2/32 refuse
    do-not-query-localhost: no
    module-config: "iterator"
    max-udp-size: 1232
    local-zone: "test." nodefault
    local-zone: "promptpath.test." static
    local-zone: "refused.test." always_refuse
    local-zone: "nodata.test." always_nodata
    local-zone: "hole.test." deny
{records}
forward-zone:
    name: "broken.test."
    forward-addr: 127.0.0.1@{broken_port}
remote-control:
    control-enable: no
"""


@dataclass(frozen=True, slots=True)
class Unbound:
    """A running resolver and the names it knows; each failing zone answers any name under it."""

    host: str
    port: int
    dual: str = "www.promptpath.test"
    four_only: str = "four.promptpath.test"
    https: str = "api.promptpath.test"
    truncated: str = "big.promptpath.test"
    nxdomain: str = "nowhere.promptpath.test"
    refused: str = "www.refused.test"
    servfail: str = "www.broken.test"
    nodata: str = "www.nodata.test"
    silent: str = "www.hole.test"

    @property
    def address(self) -> str:
        """What `--resolver` takes."""
        return f"{self.host}:{self.port}"


@contextlib.contextmanager
def unbound(directory: Path, records: Sequence[str] = ()) -> Iterator[Unbound]:
    """unbound on loopback, UDP and TCP, with RECORDS and further ones in zone-file form."""
    program = require("unbound")
    port = free_port_both()
    data = "\n".join(f"    local-data: '{record}'" for record in (*RECORDS, *records))
    config = directory / "unbound.conf"
    with _broken_server() as broken_port:
        config.write_text(
            _CONFIG.format(directory=directory, port=port, broken_port=broken_port, records=data)
        )
        command = [program, "-d", "-p", "-c", str(config)]
        with running(command, log=directory / "unbound.log", port=port):
            yield Unbound("127.0.0.1", port)


@contextlib.contextmanager
def _broken_server() -> Iterator[int]:
    """An authoritative server that answers SERVFAIL to everything (RFC 1035 section 4.1.1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_answer_servfail, args=(sock,), daemon=True)
        thread.start()
        try:
            yield sock.getsockname()[1]
        finally:
            sock.sendto(b"", sock.getsockname())
            thread.join()


def _answer_servfail(sock: socket.socket) -> None:
    while True:
        query, client = sock.recvfrom(4096)
        if not query:
            return
        sock.sendto(query[:2] + b"\x81\x82" + query[4:], client)
