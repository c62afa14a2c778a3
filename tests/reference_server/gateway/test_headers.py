"""What a client reads about its limits."""

from __future__ import annotations

import pytest

from reference_server.gateway.headers import duration, limit_headers
from reference_server.gateway.limits import Allowance, Decision

SECOND = 1_000_000_000
DECISION = Decision(
    refused_by="tokens",
    retry_in_ns=1_400_000_000,
    requests=Allowance(60, 59, SECOND),
    tokens=Allowance(1000, 0, 90 * SECOND),
    local=True,
)


def test_openais_shape() -> None:
    assert dict(limit_headers("openai", DECISION, 0)) == {
        b"x-ratelimit-limit-requests": b"60",
        b"x-ratelimit-remaining-requests": b"59",
        b"x-ratelimit-reset-requests": b"1s",
        b"x-ratelimit-limit-tokens": b"1000",
        b"x-ratelimit-remaining-tokens": b"0",
        b"x-ratelimit-reset-tokens": b"1m30s",
        b"retry-after": b"2",
        b"retry-after-ms": b"1400",
        b"x-promptpath-limits": b"local",
    }


def test_anthropics_shape_names_instants() -> None:
    fields = dict(limit_headers("anthropic", DECISION, 1_700_000_000 * SECOND))
    assert fields[b"anthropic-ratelimit-tokens-limit"] == b"1000"
    assert fields[b"anthropic-ratelimit-tokens-reset"] == b"2023-11-14T22:14:50Z"
    assert fields[b"retry-after"] == b"2"


def test_without_limits_nothing_is_said() -> None:
    assert limit_headers("openai", Decision(None, None, None, None), 0) == ()


@pytest.mark.parametrize(
    ("ns", "text"), [(0, "0s"), (1, "1ms"), (6_172_000_000, "6.172s"), (60 * SECOND, "1m0s")]
)
def test_times_are_written_as_openai_does(ns: int, text: str) -> None:
    assert duration(ns) == text
