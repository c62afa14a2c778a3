"""The gateway from its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reference_server.clock import Now
from reference_server.gateway.gateway import Gateway
from reference_server.gateway.keys import read_keys
from reference_server.gateway.limits import Limits, LimitStore, LocalLimits
from reference_server.gateway.shared_limits import RedisLimits
from reference_server.settings import GatewaySettings


def build_gateway(
    settings: GatewaySettings, one_key_sha256: str | None, now: Now, say: Callable[[str], None]
) -> Gateway:
    """Raises OSError, KeyFileError and RedisDown (a bad URL, no redis package)."""
    store: LimitStore = LocalLimits(now)
    if settings.redis is not None:
        store = RedisLimits(settings.redis, settings.redis_down, store, now, say)
    return Gateway(
        store,
        keys=None if settings.keys is None else read_keys(Path(settings.keys)),
        one_key_sha256=one_key_sha256,
        defaults=Limits(settings.requests_per_minute, settings.tokens_per_minute),
    )
