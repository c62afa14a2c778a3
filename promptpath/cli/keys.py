"""Which key goes to which host. A key leaves the machine only for the vendor it belongs to, or when
`--key-env` says so: any URL can end in /chat/completions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from promptpath.dialect.base import Dialect
from promptpath.dialect.providers import provider_of
from promptpath.errors import UsageError
from promptpath.model.plan import Target
from promptpath.model.redact import is_secret_header

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the headers that carry it."""

    value: str = field(repr=False)
    headers: Headers = field(repr=False)


def choose_key(
    target: Target,
    dialect: Dialect | None,
    key_env: str | None,
    headers: Headers,
    environ: Mapping[str, str],
) -> Key | None:
    """The key for this target, or None when the user sends one in `headers` or none is known.

    Raises UsageError when `--key-env` names an unset variable, or the host is a vendor's own and
    none of its usual variables is set.
    """
    if key_env is not None:
        value = environ.get(key_env)
        if not value:
            raise UsageError(
                f"the key variable {key_env} is not set", hint=f"export {key_env}=... and try again"
            )
        return _key(value, dialect)
    if any(is_secret_header(name) for name, _ in headers):
        return None
    vendor = provider_of(target.host)
    if dialect is None or vendor is None:
        return None
    for name in vendor.key_variables:
        if environ.get(name):
            return _key(environ[name], dialect)
    raise UsageError(
        f"no key for {target.host}: {' or '.join(vendor.key_variables)} is not set",
        hint=f"export {vendor.key_variables[0]}=..., or name another variable with --key-env NAME",
    )


def withheld_key(target: Target, dialect: Dialect | None, environ: Mapping[str, str]) -> str | None:
    """The usual variable that is set but not sent, because the host is no vendor's own."""
    if dialect is None or provider_of(target.host) is not None:
        return None
    return next((name for name in dialect.key_variables if environ.get(name)), None)


def _key(value: str, dialect: Dialect | None) -> Key:
    if not value.isascii() or not value.isprintable():
        raise UsageError("the key holds characters no header may carry", hint="a stray line end?")
    if dialect is None:
        return Key(value, (("authorization", f"Bearer {value}"),))
    return Key(value, tuple(dialect.key_headers(value)))
