"""Real TLS messages and records: a handshake of OpenSSL with itself, in memory."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

from tests.peers.certs import Certificates


@dataclass
class Capture:
    """What crossed the wire, as the client saw it."""

    sent: bytes = b""
    """Records the client wrote."""
    received: bytes = b""
    """Records the server wrote."""
    messages: list[tuple[bool, bytes]] = field(default_factory=list)
    """Handshake messages in the clear: (sent by the client, bytes), from OpenSSL's own tap."""


def capture(
    certs: Certificates,
    *,
    version: ssl.TLSVersion,
    ask_client: bool = False,
    ciphers: str | None = None,
) -> Capture:
    """One whole handshake, and one byte of data so that tickets are read."""
    result = Capture()
    server_context = certs.good.server_context(
        alpn=("h2",), minimum=version, maximum=version, client_ca=certs.ca if ask_client else None
    )
    if ciphers is not None:
        server_context.set_ciphers(ciphers)
    if ask_client:
        server_context.verify_mode = ssl.CERT_OPTIONAL
    client_context = ssl.create_default_context(cafile=str(certs.ca))
    client_context.set_alpn_protocols(["h2", "http/1.1"])

    def tap(
        conn: object, direction: str, version: Any, content_type: Any, kind: Any, data: bytes
    ) -> None:
        if content_type == 22:
            result.messages.append((direction == "write", bytes(data)))

    client_context._msg_callback = tap  # type: ignore[attr-defined]
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    from_client, from_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, from_client, server_hostname="localhost")
    server = server_context.wrap_bio(to_server, from_server, server_side=True)
    pending = [client.do_handshake, server.do_handshake]
    for _ in range(6):
        for step in tuple(pending):
            try:
                step()
                pending.remove(step)
            except ssl.SSLWantReadError:
                pass
            up, down = from_client.read(), from_server.read()
            to_server.write(up)
            to_client.write(down)
            result.sent += up
            result.received += down
    assert not pending
    server.write(b"x")
    data = from_server.read()
    to_client.write(data)
    result.received += data
    client.read(1)
    return result
