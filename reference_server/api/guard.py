"""Bounds of the test streams, so that an open server cannot be made to work for strangers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from reference_server.api.errors import ApiError
from reference_server.settings import StreamLimits

_RETRY_AFTER_S = 1


class StreamGuard:
    """Counts the test streams that run, and refuses what is too much."""

    def __init__(self, limits: StreamLimits | None = None) -> None:
        self._limits = limits or StreamLimits()
        self._running = 0

    def check(self, *, size_bytes: int, duration_ms: float) -> None:
        """Raises ApiError 400 for a stream that would be too long or too large."""
        most = self._limits
        if size_bytes > most.test_bytes:
            raise ApiError(400, "invalid_value", f"More than {most.test_bytes} bytes in all.")
        if duration_ms > most.test_seconds * 1000:
            message = f"Longer than {most.test_seconds * 1000:g} ms in all."
            raise ApiError(400, "invalid_value", message)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """A place for one stream while the block runs. Raises ApiError 429 when none is free."""
        if self._running >= self._limits.test_streams:
            retry = (b"retry-after", str(_RETRY_AFTER_S).encode())
            message = f"{self._limits.test_streams} test streams run already."
            raise ApiError(429, "too_many_streams", message, headers=(retry,))
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
