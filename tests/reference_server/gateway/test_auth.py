"""Who may ask."""

from __future__ import annotations

import hashlib

import pytest

from reference_server.gateway.auth import key_allowed, key_of

HASH = hashlib.sha256(b"secret").hexdigest()


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "key"),
    [
        ("Bearer secret", None, "secret"),
        ("bearer  secret ", None, "secret"),
        ("Basic secret", None, None),
        ("Bearer ", None, None),
        (None, "secret", "secret"),
        (None, None, None),
    ],
)
def test_the_key_is_found_in_either_header(
    authorization: str | None, x_api_key: str | None, key: str | None
) -> None:
    assert key_of(authorization, x_api_key) == key


def test_only_the_right_key_may_ask_when_one_is_set() -> None:
    assert key_allowed("secret", HASH)
    assert not key_allowed("Secret", HASH)
    assert not key_allowed(None, HASH)
    assert not key_allowed(None, hashlib.sha256(b"").hexdigest())
    assert key_allowed(None, None)
