"""What a client is told about its limits, in the shape of the big providers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Literal

from reference_server.asgi import Header
from reference_server.gateway.limits import Allowance, Decision

LimitStyle = Literal["openai", "anthropic"]


def limit_headers(style: LimitStyle, decision: Decision, unix_ns: int) -> tuple[Header, ...]:
    """The headers of any answer, and Retry-After of a refusal. `unix_ns` is the time of day."""
    kinds = [("requests", decision.requests), ("tokens", decision.tokens)]
    fields: list[tuple[str, str]] = []
    for kind, allowance in kinds:
        if allowance is not None and style == "openai":
            fields += _openai(kind, allowance)
        elif allowance is not None:
            fields += _anthropic(kind, allowance, unix_ns)
    if decision.retry_in_ns is not None:
        # Whole seconds (RFC 9110 section 10.2.3), never too early.
        fields.append(("retry-after", str(max(1, math.ceil(decision.retry_in_ns / 1e9)))))
        fields.append(("retry-after-ms", str(math.ceil(decision.retry_in_ns / 1e6))))
    if decision.local:
        fields.append(("x-promptpath-limits", "local"))
    return tuple((name.encode(), value.encode()) for name, value in fields)


def _openai(kind: str, allowance: Allowance) -> list[tuple[str, str]]:
    return [
        (f"x-ratelimit-limit-{kind}", str(allowance.limit)),
        (f"x-ratelimit-remaining-{kind}", str(allowance.remaining)),
        (f"x-ratelimit-reset-{kind}", duration(allowance.full_in_ns)),
    ]


def _anthropic(kind: str, allowance: Allowance, unix_ns: int) -> list[tuple[str, str]]:
    full = datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC)
    full += timedelta(seconds=math.ceil(allowance.full_in_ns / 1e9))
    return [
        (f"anthropic-ratelimit-{kind}-limit", str(allowance.limit)),
        (f"anthropic-ratelimit-{kind}-remaining", str(allowance.remaining)),
        (f"anthropic-ratelimit-{kind}-reset", full.strftime("%Y-%m-%dT%H:%M:%SZ")),
    ]


def duration(ns: int) -> str:
    """OpenAI's way to write a time: 20ms, 6.172s, 1m30s.

    >>> duration(20_000_000), duration(6_172_000_000), duration(90_000_000_000), duration(0)
    ('20ms', '6.172s', '1m30s', '0s')
    """
    ms = math.ceil(ns / 1e6)
    if 0 < ms < 1000:
        return f"{ms}ms"
    minutes, rest = divmod(ms, 60_000)
    return (f"{minutes}m" if minutes else "") + f"{rest / 1000:g}s"
