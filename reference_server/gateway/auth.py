"""One API key, kept as its SHA-256 only and compared in constant time."""

from __future__ import annotations

import hashlib
import hmac


def key_of(authorization: str | None, x_api_key: str | None) -> str | None:
    """The key a client sent: `Authorization: Bearer` (RFC 6750 section 2.1) or `x-api-key`."""
    if x_api_key:
        return x_api_key
    scheme, _, value = (authorization or "").partition(" ")
    return value.strip() or None if scheme.lower() == "bearer" else None


def key_allowed(key: str | None, sha256_hex: str | None) -> bool:
    """Whether the key may call; without a configured hash everybody may."""
    if sha256_hex is None:
        return True
    digest = hashlib.sha256((key or "").encode("utf-8", "surrogatepass")).hexdigest()
    return hmac.compare_digest(digest, sha256_hex.lower()) and key is not None
