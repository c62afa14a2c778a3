"""What `promptpath quic` found: one row a handshake, and their medians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from promptpath.model.rows import Json

QUIC_REPORT_SCHEMA = "promptpath.quic/1"
"""Only grows within the major version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicRun:
    """One handshake. Times in ms; None where it did not come so far."""

    outcome: str
    """ok | failed."""
    address: str | None
    """address:port."""
    dns_ms: float | None
    handshake_ms: float | None
    """First datagram written to certificate judged."""
    server_ms: float | None
    """The last Initial on its way to the first packet of the server's handshake, less a round trip:
    what the server computed. Never negative."""
    rtt_ms: float | None
    """The smallest of our packet log."""
    round_trips: int | None
    version: str | None
    alpn: str | None
    retry: bool | None
    version_negotiation: tuple[str, ...] | None
    initials: int
    steps: tuple[tuple[str, float], ...]
    """(step, ms since the first datagram)."""
    parameters: dict[str, Json]
    """The server's transport parameters."""
    cipher: str | None
    verified: bool | None
    verify_error: str | None
    names: tuple[str, ...]
    """What the certificate is for."""
    resumed: bool | None
    """Whether a second connection resumed; None where it was not tried."""
    packets: dict[str, Json]
    findings: tuple[tuple[str, str, str], ...]
    """(code, severity, title)."""
    failure: dict[str, Json] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicReport:
    """All handshakes of one command."""

    schema: str
    target: str
    runs: tuple[QuicRun, ...]
    interrupted: bool
    exit_code: int


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{QUIC_REPORT_SCHEMA.replace('/', ':')}",
        "title": QUIC_REPORT_SCHEMA,
        **msgspec.json.schema(QuicReport),
    }
