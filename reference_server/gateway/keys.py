"""API keys in a file: JSON lines, each with a key's name, its limits and a salted hash of it.

A key is `pp-<id>-<secret>`. The id finds the line, so that one hash is computed for a request
however many keys there are. The secret has 256 random bits: it cannot be guessed, so a slow
password hash would only make every request slow (NIST SP 800-63B section 5.1.1.2 asks for one for
secrets that people choose).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference_server.gateway.limits import Limits

_ID_BYTES = 4
_SECRET_BYTES = 32
_SALT_BYTES = 16
_LARGEST_LIMIT = 10**12


class KeyFileError(ValueError):
    """The key file cannot be used; the text names the line and never holds a key or a hash."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One line of the key file."""

    id: str
    name: str
    """Whose key it is, for the access log."""
    salt: str
    sha256: str
    """Hex SHA-256 of salt and key."""
    limits: Limits


def make_key(name: str, limits: Limits) -> tuple[str, ApiKey]:
    """A fresh key and the line that knows it again."""
    key_id = secrets.token_hex(_ID_BYTES)
    key = f"pp-{key_id}-{secrets.token_urlsafe(_SECRET_BYTES)}"
    salt = secrets.token_hex(_SALT_BYTES)
    return key, ApiKey(key_id, name, salt, _digest(salt, key), limits)


def append_key(path: Path, key: ApiKey) -> None:
    """Add a line; a new file is its owner's only. Raises OSError."""
    line = {
        "id": key.id,
        "name": key.name,
        "salt": key.salt,
        "sha256": key.sha256,
        "requests_per_minute": key.limits.requests_per_minute,
        "tokens_per_minute": key.limits.tokens_per_minute,
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """Every key of the file. Raises OSError, KeyFileError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        raise KeyFileError("the key file is not UTF-8 text") from None
    keys = [_read(line, number) for number, line in enumerate(lines, 1) if line.strip()]
    if len({key.id for key in keys}) < len(keys):
        raise KeyFileError("the key file has an id twice")
    return tuple(keys)


class KeyRing:
    """Finds whose key it is."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._keys = {key.id: key for key in keys}
        # An unknown id costs what a known one does.
        self._nobody = make_key("nobody", Limits())[1]

    def find(self, key: str | None) -> ApiKey | None:
        """The line of this key; None when there is none."""
        parts = (key or "").split("-", 2)
        known = self._keys.get(parts[1], self._nobody) if len(parts) == 3 else self._nobody
        right = hmac.compare_digest(_digest(known.salt, key or ""), known.sha256)
        return known if right and known is not self._nobody else None


def _digest(salt: str, key: str) -> str:
    text = (salt + key).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()


def _read(line: str, number: int) -> ApiKey:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise KeyFileError(f"line {number} of the key file is not JSON") from None
    if not isinstance(value, dict):
        raise KeyFileError(f"line {number} of the key file is not an object")
    texts = [value.get(name) for name in ("id", "name", "salt", "sha256")]
    for text, name in zip(texts, ("id", "name", "salt", "sha256"), strict=True):
        if not isinstance(text, str) or not text:
            raise KeyFileError(f"line {number} of the key file: '{name}' must be a text")
    key_id, key_name, salt, digest = map(str, texts)
    limits = Limits(
        _limit(value, "requests_per_minute", number), _limit(value, "tokens_per_minute", number)
    )
    return ApiKey(key_id, key_name, salt, digest, limits)


def _limit(value: dict[str, Any], name: str, number: int) -> int | None:
    found = value.get(name)
    if found is None:
        return None
    if not isinstance(found, int) or isinstance(found, bool) or not 1 <= found <= _LARGEST_LIMIT:
        raise KeyFileError(f"line {number} of the key file: '{name}' must be an integer from 1")
    return found
