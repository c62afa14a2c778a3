"""The origin's own log of what it sent when: NDJSON, one line a piece of a stream."""

from __future__ import annotations

import json
from typing import TextIO

from reference_server.clock import realtime_ns


class SendLog:
    """Collects stamps while streams run and writes them when one ends: no I/O between events."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._rows: list[tuple[str, str, int | None, int, int, int]] = []

    def note(self, request_id: str, kind: str, seq: int | None, sent_ns: int, size: int) -> None:
        """One piece of `size` bytes is being written; call it at the write.

        `sent_ns` is CLOCK_MONOTONIC; CLOCK_REALTIME is read here, right beside it.
        """
        self._rows.append((request_id, kind, seq, sent_ns, realtime_ns(), size))

    def flush(self) -> None:
        """Write what was collected."""
        for request_id, kind, seq, sent_ns, real_ns, size in self._rows:
            row = {
                "request": request_id,
                "kind": kind,
                "seq": seq,
                "sent_ns": sent_ns,
                "realtime_ns": real_ns,
                "size": size,
            }
            self._file.write(json.dumps(row) + "\n")
        self._rows.clear()
        self._file.flush()
