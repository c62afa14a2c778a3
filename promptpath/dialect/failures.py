"""What went wrong, in the far side's own words: error objects in a stream and error response
bodies.

Shapes are those of recorded traffic: OpenAI and its likes `{"error": {...}}`, Anthropic
`{"type": "error", "error": {...}}`, Gemini an array around it, FastAPI `{"detail": ...}`, RFC 9457
problem documents, HTML pages of proxies, and JSON behind a `text/event-stream` header.
"""

from __future__ import annotations

import html
import re

from promptpath.dialect.base import StreamError
from promptpath.dialect.payload import NotJson, as_dict, as_list, as_str, parse, parse_prefix, word
from promptpath.model.rows import Json

DATA_ERROR = "data-error"
EVENT_ERROR = "event-error"
ERROR_BESIDE_CHOICES = "error-beside-choices"
ERROR_FIELD = "error-field"
JSON_BODY = "json-body"

MAX_MESSAGE_CHARS = 4_000
"""Cut of a message inside the process; what is kept of it is cut again (names.STREAM_ERROR:
300)."""
MAX_BODY_BYTES = 256 * 1024
"""How much of an error body is looked at: recorded ones are under 10 kB, an HTML page's title
stands at its head."""


def error_object(value: Json, shape: str) -> StreamError:
    """An error object (or bare string) as a `StreamError`."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return StreamError(code=None, type=None, message=_cut(word(value) or ""), shape=shape)
    inner = value.get("error")
    if isinstance(inner, dict):
        value = inner
    message = word(value.get("message")) or word(value.get("detail")) or word(value.get("title"))
    if message is None and isinstance(inner, str):
        message = inner
    code = next(
        (
            found
            for key in ("code", "status_code", "http_code", "error_code")
            if (found := word(value.get(key))) is not None
        ),
        None,
    )
    kind = (
        word(value.get("type"))
        or word(value.get("error_type"))
        or (as_str(value.get("status")) or None)
    )
    return StreamError(code=code, type=kind, message=_cut(message or ""), shape=shape)


def error_body(content_type: str, body: bytes) -> StreamError | None:
    """What an error response's body says, or None for an empty one.

    The content type is a hint only: a body that is JSON is read as JSON whatever the header claims
    (Gemini answers 404 with `text/event-stream` and a JSON document, 3 of 3 recorded).
    """
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace").lstrip("\ufeff").strip()
    if not text:
        return None
    if text[0] in "{[":
        payload = parse_prefix(text)
        if not isinstance(payload, NotJson):
            return _of_document(payload) or StreamError(
                code=None, type=None, message=_cut(text), shape=JSON_BODY
            )
    if "html" in content_type.lower() or _is_page(text):
        return StreamError(code=None, type="html", message=_title(text), shape="html-page")
    for line in text.splitlines()[:50]:
        if line.startswith(("data:", "error:")):
            payload = parse(line.partition(":")[2].strip().encode())
            if isinstance(payload, dict) and (found := _of_document(payload)):
                return found
    return StreamError(code=None, type=None, message=_cut(text.splitlines()[0]), shape="text-body")


def error_under_success(body: bytes) -> StreamError | None:
    """The error in a JSON document that came with a 2xx status, or None. Only its `error` member
    counts: a good document may well have a `message` or a `title`."""
    payload = parse_prefix(body[:MAX_BODY_BYTES].decode("utf-8", "replace").lstrip("\ufeff"))
    if isinstance(payload, NotJson):
        return None
    error = as_dict(payload).get("error")
    return error_object(error, JSON_BODY) if error else None


def json_error(body: bytes) -> StreamError | None:
    """The error in bytes that should have been stream frames but are a JSON document, or None when
    they are no error document."""
    start = min((at for at in (body.find(b"{"), body.find(b"[")) if at >= 0), default=-1)
    if start < 0:
        return None
    payload = parse_prefix(body[start : start + MAX_BODY_BYTES].decode("utf-8", "replace"))
    return None if isinstance(payload, NotJson) else _of_document(payload)


def _of_document(payload: Json) -> StreamError | None:
    if isinstance(payload, list):
        return _of_document(payload[0]) if payload else None
    document = as_dict(payload)
    if document.get("error"):
        found = error_object(document["error"], JSON_BODY)
        if not found.message and (message := word(document.get("message"))):
            return StreamError(
                code=found.code, type=found.type, message=_cut(message), shape=JSON_BODY
            )
        return found
    if errors := as_list(document.get("errors")):
        return error_object(errors[0], JSON_BODY)
    detail = document.get("detail")
    if isinstance(detail, dict):
        return error_object(detail, JSON_BODY)
    if isinstance(detail, list) and detail:
        first = as_dict(detail[0])
        return StreamError(
            code=None,
            type=word(first.get("type")),
            message=_cut(as_str(first.get("msg"))),
            shape=JSON_BODY,
        )
    if any(word(document.get(key)) for key in ("message", "detail", "title")):
        return error_object(document, JSON_BODY)
    return None


def page_title(body: bytes) -> str | None:
    """The title (or first words) of an HTML page, or None for anything else."""
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace").lstrip("\ufeff").lstrip()
    return _title(text) if _is_page(text) else None


def _is_page(text: str) -> bool:
    return text[:20].lower().startswith(("<!doctype html", "<html", "<head"))


def _title(text: str) -> str:
    """The title of an HTML page, or its first words without tags."""
    lower = text.lower()
    start = lower.find("<title")
    start = text.find(">", start) + 1 if start >= 0 else 0
    end = lower.find("</title", start)
    if start > 0 and end > start:
        return _cut(" ".join(html.unescape(text[start:end]).split()))
    words = re.sub(r"<[^<>]{0,2000}>", " ", text[:20_000])
    return _cut(" ".join(html.unescape(words).split()))[:200]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE_CHARS else text[:MAX_MESSAGE_CHARS]
