"""The one gate: nothing secret and nothing unprintable gets past here into a trace, a report or an
error.

Keys live in headers, query strings, cookies and proxy credentials; they are replaced, never
shortened, because a prefix of a key is a secret too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, quote, urlsplit, urlunsplit

from promptpath.model.plan import Plan, PlanRecord
from promptpath.model.rows import Json

REDACTED = "REDACTED"
_SHORTEST_SECRET = 4
"""Shorter ones are ordinary words, and replacing them would damage the text around."""
_SHORTEST_PROMPT = 12
"""The same for prompts, which are words by nature."""
_SHORTEST_PIECE = 8
"""Of a secret that a cut left at the end of a text."""

_SECRET_HEADERS = frozenset(
    {
        "authorization",
        "proxy-authorization",
        "cookie",
        "set-cookie",
        "x-api-key",
        "api-key",
        "x-goog-api-key",
        "x-amz-security-token",
        "x-auth-token",
        "x-functions-key",
        "ocp-apim-subscription-key",
        "openai-organization",
        "openai-project",
        "proxy-authenticate-response",
        "authentication-info",
        "cf-access-client-secret",
        "cf-access-client-id",
        "cf-aig-authorization",
        "helicone-auth",
        "x-portkey-api-key",
    }
)
_SECRET_WORD = re.compile(
    r"(?:^|[-_.])(?:key|apikey|token|secret|password|passwd|auth|credential|session|cookie"
    r"|signature|sig)s?(?:$|[-_.])",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    r"token[-_]?(count|limit|type)|ratelimit|tokens[-_](remaining|limit|reset)"
    r"|(remaining|limit|reset)[-_]tokens",
    re.IGNORECASE,
)
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|pplx|hf|r8|nvapi|ya29|Bearer|Basic)[-_. ][A-Za-z0-9_\-./+=*]{6,}"
    r"|\bAIza[A-Za-z0-9_\-]{10,}"
    r"|\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-.]+"
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)


def is_secret_header(name: str) -> bool:
    """Whether a header's value must not be written down."""
    lower = name.lower()
    if lower in _SECRET_HEADERS:
        return True
    return bool(_SECRET_WORD.search(lower)) and not _NOT_SECRET.search(lower)


def redact_headers(headers: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Header pairs for a fact: names in lower case, secret values replaced, values printable."""
    return [[printable(name.lower()), _header_value(name, value)] for name, value in headers]


def _header_value(name: str, value: str) -> str:
    if is_secret_header(name):
        return REDACTED
    if name.lower() in ("location", "content-location"):
        # Signed URLs of object stores carry their signature in the query.
        return redact_url(value)
    return redact_text(value)


def redact_url(url: str) -> str:
    """A URL without user, password, fragment and secret query values."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        pairs = parse_qsl(parts.query, keep_blank_values=True)
    except ValueError:
        return REDACTED
    query = "&".join(
        quote(name, safe="") + "=" + _parameter_value(name, value) for name, value in pairs
    )
    return printable(urlunsplit((parts.scheme, host, parts.path, query, "")))


def _parameter_value(name: str, value: str) -> str:
    return REDACTED if _is_secret_parameter(name) else quote(redact_text(value), safe=":/,")


def _is_secret_parameter(name: str) -> bool:
    lower = name.lower()
    return bool(_SECRET_WORD.search(lower)) or lower in {
        "code",
        "jwt",
        "x-amz-credential",
        "x-amz-signature",
    }


def redact_text(text: str, *, secrets: Iterable[str] = (), limit: int = 2000) -> str:
    """Far-side text for a fact or an error: known secrets and key-like words replaced, control and
    direction characters escaped, cut to `limit` characters."""
    text = without_secrets(text, secrets)
    text = _KEY_LIKE.sub(REDACTED, text)
    if len(text) > limit:
        text = text[:limit] + "..."
    return printable(text)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with each of these secrets replaced, the beginning of one that a cut left at its end
    too."""
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, REDACTED)
            text = _without_cut_secret(text, secret)
    return text


def _without_cut_secret(text: str, secret: str) -> str:
    kept = text.removesuffix("...")
    for length in range(min(len(secret) - 1, len(kept)), _SHORTEST_PIECE - 1, -1):
        if kept.endswith(secret[:length]):
            return kept[:-length] + REDACTED + text[len(kept) :]
    return text


def scrub(value: Json, secrets: tuple[str, ...]) -> Json:
    """The value with these secrets replaced in every string of it; the last gate before a fact is
    kept."""
    if isinstance(value, str):
        return without_secrets(value, secrets)
    if isinstance(value, list):
        return [scrub(item, secrets) for item in value]
    if isinstance(value, dict):
        return {key: scrub(item, secrets) for key, item in value.items()}
    return value


def plan_secrets(plan: Plan) -> tuple[str, ...]:
    """What this plan sends and far-side text must never repeat: keys of headers, of the URL's query
    and of the proxy, and the prompt unless content is kept. The longest first, so that none leaves
    the rest of another one behind."""
    found = {secret for secret in _sent_secrets(plan) if len(secret) >= _SHORTEST_SECRET}
    if not plan.keep_content and len(plan.prompt) >= _SHORTEST_PROMPT:
        # As it is, and as a JSON request writes it: an error may quote the request.
        found |= {plan.prompt, json.dumps(plan.prompt)[1:-1]}
        found.add(json.dumps(plan.prompt, ensure_ascii=False)[1:-1])
    return tuple(sorted(found, key=lambda secret: (-len(secret), secret)))


def _sent_secrets(plan: Plan) -> Iterator[str]:
    for name, value in plan.headers:
        if name.lower() == "cookie":
            yield from (pair.partition("=")[2].strip() for pair in value.split(";"))
        elif is_secret_header(name):
            yield value
            yield value.rpartition(" ")[2]  # "Bearer KEY"
    query = plan.target.path.partition("?")[2]
    for pair in query.split("&"):
        yield from (raw for name, _, raw in [pair.partition("=")] if _is_secret_parameter(name))
    yield from (value for name, value in parse_qsl(query) if _is_secret_parameter(name))
    if plan.proxy is not None and plan.proxy.password:
        yield plan.proxy.password


def printable(text: str) -> str:
    """The text with control, bidirectional and zero-width characters shown as \\xNN or \\uNNNN, so
    that it cannot move a terminal's cursor or hide (tab is kept)."""
    return _CONTROL.sub(lambda match: _escape(match[0]), text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def plan_record(plan: Plan) -> PlanRecord:
    """What of a plan may be written down."""
    proxy = plan.proxy
    return PlanRecord(
        url=redact_url(plan.target.url),
        method=plan.method,
        http=plan.http.value,
        family=plan.family.value,
        dialect=plan.dialect,
        model=plan.model,
        max_tokens=plan.max_tokens,
        prompt_chars=len(plan.prompt),
        body_bytes=len(plan.body or b""),
        header_names=tuple(sorted({name.lower() for name, _ in plan.headers})),
        accept_encoding=plan.accept_encoding,
        resolver=f"{plan.resolver[0]}:{plan.resolver[1]}" if plan.resolver else None,
        overrides=tuple(f"{o.host}:{o.port}:{o.address}" for o in plan.overrides),
        proxy=f"{proxy.kind.value}://{proxy.host}:{proxy.port}" if proxy else None,
        source_address=plan.source_address,
        interface=plan.interface,
        insecure=plan.insecure,
        sni=plan.sni,
        limits=plan.limits,
        budgets=plan.budgets,
        repeat=plan.repeat,
        warm=plan.warm,
        keep_content=plan.keep_content,
        prompt=plan.prompt if plan.keep_content else None,
    )
