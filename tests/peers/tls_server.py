"""`openssl s_server`: an independent TLS peer, for what Python's ssl cannot serve (a group that
forces HelloRetryRequest, early data, TLS 1.0)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.require import require

TLS12_ONLY = ("-tls1_2",)
TLS10_ONLY = ("-tls1", "-cipher", "ALL:@SECLEVEL=0")
"""What current clients refuse."""
RETRY_GROUP = ("-groups", "P-384")
"""No client of ours sends a P-384 share at first: the server must ask again (RFC 8446 4.1.4)."""
EARLY_DATA = ("-early_data", "-max_early_data", "16384")
"""Its tickets allow early data. s_server then has no status page: it answers nothing."""
ASK_CLIENT_CERTIFICATE = ("-verify", "1")


@dataclass(frozen=True, slots=True)
class TlsServer:
    """A running s_server; it answers GET with a status page (-www), but with EARLY_DATA."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Its URL by the name the certificates know."""
        return f"https://localhost:{self.port}/"


@contextlib.contextmanager
def openssl_server(
    directory: Path, leaf: Leaf, options: Sequence[str] = (), *, alpn: str = "http/1.1"
) -> Iterator[TlsServer]:
    """s_server with this leaf and these options; with alpn "" it negotiates no protocol."""
    program = require("openssl")
    port = free_port()
    command = [program, "s_server", "-accept", f"127.0.0.1:{port}", "-quiet"]
    command += [] if "-early_data" in options else ["-www"]
    command += ["-cert", str(leaf.chain), "-cert_chain", str(leaf.chain), "-key", str(leaf.key)]
    command += ["-alpn", alpn] if alpn else []
    with running([*command, *options], log=directory / "s_server.log", port=port):
        yield TlsServer("127.0.0.1", port)
