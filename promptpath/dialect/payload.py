"""Reading JSON from the far side: whatever comes, a value of the type asked for or None.

Nothing here raises for any bytes, and no text that leaves here holds a lone surrogate, so that it
can be encoded again.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec

from promptpath.model.rows import Json

INT64_MAX: Final = 2**63 - 1
"""The event log's columns are signed 64-bit; a larger number from the far side is no
measurement."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_decode = msgspec.json.Decoder().decode
_lenient = json.JSONDecoder(strict=False)

_Failures = (msgspec.MsgspecError, ValueError, RecursionError, MemoryError)


class NotJson:
    """The type of `NOT_JSON`, which is no JSON value (None is one)."""


NOT_JSON: Final = NotJson()


def parse(data: bytes) -> Json | NotJson:
    """The JSON value in `data`, or NOT_JSON.

    Invalid UTF-8 becomes U+FFFD (WHATWG HTML 9.2.6: a stream is always decoded as UTF-8), NaN and
    raw control characters pass: real servers send them.
    """
    try:
        return _decode(data)
    except _Failures:
        pass
    try:
        return _scrub(_lenient.decode(data.decode("utf-8", "replace")))
    except _Failures:
        return NOT_JSON


def encode(value: Json) -> bytes:
    """A JSON value as bytes; lone surrogates (bytes of a command line that were no UTF-8) become
    U+FFFD."""
    return msgspec.json.encode(_scrub(value))


def parse_prefix(text: str) -> Json | NotJson:
    """The JSON value that `text` begins with, whatever follows it, or NOT_JSON."""
    try:
        value, _ = _lenient.raw_decode(text.lstrip())
        return _scrub(value)
    except _Failures:
        return NOT_JSON


def _scrub(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_scrub(item) for item in value]
    if isinstance(value, dict):
        return {_scrub(name): _scrub(item) for name, item in value.items()}
    return value


def as_dict(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """The array, or an empty one."""
    return value if isinstance(value, list) else []


def as_str(value: Json) -> str:
    """The string, or ""."""
    return value if isinstance(value, str) else ""


def word(value: Json) -> str | None:
    """A non-empty string, or a number as its digits; else None."""
    if isinstance(value, str):
        return value or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None


def count(value: Json) -> int | None:
    """A whole number from 0 to 2^63-1, or None. A float that is whole counts (some gateways)."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= INT64_MAX else None
    amount = number(value)
    return int(amount) if amount is not None and amount == int(amount) else None


def number(value: Json) -> float | None:
    """A finite number from 0 to 2^63-1, or None; digits in a string count (Fireworks sends
    them)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and len(value) > 40:
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) and 0 <= result <= INT64_MAX else None


def at(value: Json, *path: str) -> Json:
    """What stands at a path of object keys, or None."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
