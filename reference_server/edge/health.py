"""Asking a backend whether it can take requests."""

from __future__ import annotations

import asyncio

_TIMEOUT_S = 2.0
"""A choice."""


async def check(host: str, port: int) -> bool:
    """Whether `GET /healthz` answers 200 in time."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: edge\r\nconnection: close\r\n\r\n")
                line = await reader.readline()
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError):
        return False
    return line.split(b" ")[1:2] == [b"200"]
