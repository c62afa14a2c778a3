"""Reading a JSON request field by field; every refusal names the field."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from reference_server.api.errors import ApiError
from reference_server.text.prompt import Message

Fields = dict[str, Any]


def parse_object(body: bytes) -> Fields:
    """The body as a JSON object (RFC 8259: UTF-8, no NaN). Raises ApiError 400."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise ApiError(400, "invalid_json", "The request body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise ApiError(400, "invalid_json", "The request body must be a JSON object.")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def wrong(param: str, expected: str) -> ApiError:
    """The error for a field that is missing or of a wrong type or value."""
    return ApiError(400, "invalid_value", f"'{param}' must be {expected}.", param=param)


def string(fields: Fields, name: str) -> str:
    """A required string."""
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise wrong(name, "a string that is not empty")
    return value


def flag(fields: Fields, name: str, where: str = "") -> bool:
    """An optional boolean, false when absent or null."""
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong(where + name, "a boolean")
    return bool(value)


def positive(fields: Fields, name: str) -> int | None:
    """An optional integer of at least 1."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise wrong(name, "an integer of at least 1")
    return value


def integer(fields: Fields, name: str, low: int, high: int) -> int | None:
    """An optional integer from `low` to `high`."""
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise wrong(name, f"an integer from {low} to {high}")
    return value


def number(fields: Fields, name: str, low: float, high: float) -> float | None:
    """An optional number from `low` to `high`; NaN is none."""
    value = fields.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:
        raise wrong(name, f"a number from {low:g} to {high:g}")
    return float(value)


def check_absent(fields: Fields, *names: str) -> None:
    """Refuse what this server does not do, rather than to ignore it in silence."""
    for name in names:
        if fields.get(name) not in (None, [], {}, False, "none", "auto"):
            message = f"'{name}' is not supported by this server."
            raise ApiError(400, "unsupported_parameter", message, param=name)


def messages(
    fields: Fields,
    roles: tuple[str, ...],
    name: str = "messages",
    kinds: tuple[str, ...] = ("text",),
) -> list[Message]:
    """The messages of the field `name`, in order; only text parts, called one of `kinds`, are
    understood. An item may say that it is of the type "message"."""
    value = fields.get(name)
    if not isinstance(value, list) or not value:
        raise wrong(name, "a list with at least one message")
    found: list[Message] = []
    for index, message in enumerate(value):
        where = f"{name}[{index}]"
        if not isinstance(message, dict):
            raise wrong(where, "an object")
        if message.get("type", "message") != "message":
            raise wrong(f"{where}.type", "message")
        if message.get("role") not in roles:
            raise wrong(f"{where}.role", "one of " + ", ".join(sorted(roles)))
        parts = content(message.get("content"), f"{where}.content", kinds)
        found.append(Message(message["role"], tuple(parts)))
    return found


def content(value: object, where: str, kinds: tuple[str, ...] = ("text",)) -> list[str]:
    """A string, or a list of `{"type": "text", "text": ...}` parts; null is no text."""
    if value is None:
        return []
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        raise wrong(where, "a string or a list of text parts")
    texts = []
    for index, part in enumerate(value):
        text = part.get("text") if isinstance(part, dict) else None
        if not isinstance(text, str) or part.get("type") not in kinds:
            raise wrong(f"{where}[{index}]", "a text part: this server reads only text")
        texts.append(text)
    return texts
