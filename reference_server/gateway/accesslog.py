"""The access log: a line of JSON for each request, without keys, prompts, answers or queries."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from reference_server.asgi import Exchange
from reference_server.clock import realtime_ns


class AccessLog:
    """Appends lines to a file. A full disk loses lines, never requests; the next line says so."""

    def __init__(self, name: str) -> None:
        """`name` is a file, or "-" for standard error. Raises OSError."""
        self._own = name != "-"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(name, flags, 0o640) if self._own else 2
        self._lost = 0

    def note(self, exchange: Exchange) -> None:
        """The exchange has ended."""
        now = datetime.fromtimestamp(realtime_ns() / 1e9, UTC)
        line = {
            "at": now.isoformat(timespec="milliseconds"),
            "method": exchange.method[:16],
            "path": exchange.path[:256],
            "status": exchange.status,
            "duration_ms": round((exchange.now() - exchange.received_ns) / 1e6, 3),
            "bytes": exchange.sent_bytes,
            **exchange.about,
        }
        if self._lost:
            line["lines_lost"] = self._lost
        data = json.dumps(line).encode() + b"\n"
        try:
            whole = os.write(self._descriptor, data) == len(data)
        except OSError:
            whole = False
        self._lost = 0 if whole else self._lost + 1

    def close(self) -> None:
        """Nothing is noted after this."""
        if self._own:
            os.close(self._descriptor)
