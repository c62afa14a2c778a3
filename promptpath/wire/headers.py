"""Response headers that say more than their text: alternatives, limits, request ids, dates.

Server-Timing and the vendors' own times are read in `dialect.server_timings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from promptpath.model.redact import redact_headers, redact_text
from promptpath.model.rows import Json
from promptpath.wire.http import Headers

DEFAULT_ALT_SVC_AGE_S: Final = 86_400
"""RFC 7838, section 3.1: an alternative without `ma` is fresh for 24 hours."""

_MAX_ALTERNATIVES: Final = 16
"""Kept of a hostile Alt-Svc; real ones name one to five (h3 and its drafts)."""

_MAX_SECONDS: Final = 10**9
"""A number of seconds beyond 31 years is not read as one."""

REQUEST_ID_HEADERS: Final = (
    "x-request-id",
    "request-id",
    "openai-request-id",
    "x-amzn-requestid",
    "x-amzn-request-id",
    "x-ms-request-id",
    "apim-request-id",
    "x-goog-request-id",
    "mistral-correlation-id",
    "x-generation-id",
    "x-litellm-call-id",
    "x-correlation-id",
    "cf-ray",
    "fly-request-id",
    "x-vercel-id",
    "x-amz-cf-id",
)
"""The vendor's own id first, the edge's last: the first one present is what a vendor's support asks
for."""

_RATE_LIMIT: Final = re.compile(
    r"(?:x-)?ratelimit(?:-.*|by.*)?|anthropic-ratelimit-.*|x-ms-.*ratelimit.*|retry-after(?:-ms)?"
)
_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT"
)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip
_SECONDS: Final = re.compile(r"\d{1,10}(?:\.\d{1,9})?")


def first(headers: Headers, name: str) -> str | None:
    """The first value of a header, or None."""
    return next((value for key, value in headers if key == name), None)


def alt_svc(headers: Headers) -> list[dict[str, Json]]:
    """What Alt-Svc offers (RFC 7838, section 3), each `{"protocol", "authority", "max_age_s"}`; the
    authority is ":443" when only the port differs. Empty when there is none, and after "clear"."""
    offers: list[dict[str, Json]] = []
    for value in _all(headers, "alt-svc"):
        if value.strip() == "clear":
            return []
        for entry in value[:4096].split(","):
            offer, *parameters = (part.strip() for part in entry.split(";"))
            protocol, equals, authority = offer.partition("=")
            if equals and protocol.strip():
                offers.append(
                    {
                        "protocol": redact_text(protocol.strip(), limit=40),
                        "authority": redact_text(authority.strip().strip('"'), limit=255),
                        "max_age_s": _max_age_s(parameters),
                    }
                )
    return offers[:_MAX_ALTERNATIVES]


def request_id(headers: Headers) -> dict[str, Json] | None:
    """The id to give to the vendor's support, `{"header", "value"}`; None when there is none."""
    for name in REQUEST_ID_HEADERS:
        value = first(headers, name)
        if value:
            return {"header": name, "value": redact_text(value, limit=200)}
    return None


def rate_limit(headers: Headers) -> dict[str, Json] | None:
    """What the response says about limits, `{"retry_after_s", "headers"}` (names.HTTP_RATE_LIMIT);
    None when it says nothing."""
    told = [(name, value) for name, value in headers if _RATE_LIMIT.fullmatch(name)]
    if not told:
        return None
    return {"retry_after_s": retry_after_s(headers), "headers": redact_headers(told)}


def retry_after_s(headers: Headers) -> float | None:
    """Seconds to wait: `retry-after-ms` where a vendor sends it, else Retry-After (RFC 9110,
    section 10.2.3). A date there is counted from the response's own Date, not from our clock;
    without one, or with nonsense, None."""
    precise = first(headers, "retry-after-ms")
    if precise is not None and _SECONDS.fullmatch(precise.strip()):
        return float(precise) / 1000
    value = (first(headers, "retry-after") or "").strip()
    if _SECONDS.fullmatch(value):
        seconds = float(value)
        return seconds if seconds <= _MAX_SECONDS else None
    until, now = _unix_s(value), _unix_s(first(headers, "date") or "")
    return None if until is None or now is None else max(0.0, until - now)


def _all(headers: Headers, name: str) -> Iterable[str]:
    return (value for key, value in headers if key == name)


def _max_age_s(parameters: list[str]) -> int:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        value = value.strip().strip('"')
        if name.strip().lower() == "ma" and value.isascii() and value.isdigit():
            return min(int(value[:10]), _MAX_SECONDS)
    return DEFAULT_ALT_SVC_AGE_S


def _unix_s(date: str) -> float | None:
    """An IMF-fixdate (RFC 9110, section 5.6.7) as seconds since 1970, or None. The two obsolete
    forms are not read: a server that sends Retry-After sends the current one."""
    match = _DATE.fullmatch(date.strip())
    if match is None or match[2] not in _MONTHS:
        return None
    year, month, day = int(match[3]), _MONTHS.index(match[2]) + 1, int(match[1])
    try:
        moment = datetime(year, month, day, int(match[4]), int(match[5]), int(match[6]), tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp()
