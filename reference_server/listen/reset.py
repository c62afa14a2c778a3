"""Breaking a connection on purpose, for the fault paths."""

from __future__ import annotations

import asyncio
import socket
import struct


def reset_connection(transport: asyncio.Transport, how: str) -> None:
    """`reset` sends a TCP RST (SO_LINGER with time 0, RFC 9293 3.10.5 ABORT); `close` a FIN."""
    sock = transport.get_extra_info("socket")
    if how == "reset" and sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
