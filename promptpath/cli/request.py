"""Which request is sent: the dialect's own, the user's body, a pasted command's, or a plain GET."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from promptpath.cli.curl import CurlRequest
from promptpath.cli.options import TraceOptions
from promptpath.cli.read_input import MAX_BODY_BYTES, read_input
from promptpath.dialect import registry
from promptpath.dialect.base import Dialect
from promptpath.errors import UsageError
from promptpath.model.plan import DEFAULT_PROMPT, Plan

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The plan with its request."""

    plan: Plan = field(repr=False)
    dialect: Dialect | None
    """The dialect it is asked in; None for a GET."""
    notices: tuple[str, ...] = ()


def choose_request(
    plan: Plan, options: TraceOptions, curl: CurlRequest, headers: Headers
) -> Request:
    """The request: a POST only for a known path, --dialect, --data or --curl; else a GET.

    `headers` are the user's and win over the dialect's. Raises UsageError.
    """
    target = plan.target
    if options.dialect is None:
        dialect = registry.by_url(target.host, target.path)
    else:
        dialect = registry.by_name(options.dialect)
    plan = replace(plan, dialect=dialect.name if dialect else None)
    body = curl.body if options.data is None else read_data(options.data)
    if body is not None or curl.method is not None:
        return _own_request(plan, options, curl.method or "POST", body, headers, dialect)
    if dialect is None:
        return _get(plan, options, headers)
    plan = replace(plan, prompt=DEFAULT_PROMPT if options.prompt is None else options.prompt)
    return Request(plan=replace(plan, method="POST", headers=headers), dialect=dialect)


def ask(plan: Plan, dialect: Dialect | None) -> Plan:
    """The plan with the dialect's own request, once the model is known."""
    if dialect is None or plan.body is not None or plan.method != "POST":
        return plan
    asked = dialect.ask(plan)
    return replace(
        plan, method=asked.method, body=asked.body, headers=_over(asked.headers, plan.headers)
    )


def _own_request(
    plan: Plan,
    options: TraceOptions,
    method: str,
    body: bytes | None,
    headers: Headers,
    dialect: Dialect | None,
) -> Request:
    """The user's own body, sent as it is."""
    if options.prompt is not None:
        raise UsageError(
            "--prompt with a body of your own", expected="--prompt or --data / --curl, not both"
        )
    defaults: Headers = () if body is None else (("content-type", "application/json"),)
    model, prompt = body_model_and_prompt(body)
    plan = replace(
        plan,
        method=method,
        body=body,
        headers=_over(defaults, headers),
        model=model or plan.model,
        prompt=prompt,
    )
    return Request(plan=plan, dialect=dialect)


def body_model_and_prompt(body: bytes | None) -> tuple[str | None, str]:
    """The model a JSON body names and the text of its last message; None and "" without."""
    try:
        value = json.loads(body or b"")
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(value, dict):
        return None, ""
    model = value.get("model")
    messages = value.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    content = last.get("content") if isinstance(last, dict) else None
    return model if isinstance(model, str) else None, content if isinstance(content, str) else ""


def _get(plan: Plan, options: TraceOptions, headers: Headers) -> Request:
    if options.prompt is not None or options.model is not None:
        raise UsageError(
            "the URL names no API to send a prompt to",
            expected="a URL ending in " + ", ".join(known_suffixes()),
            hint="give the whole URL, or name the API with --dialect NAME",
        )
    notice = (
        "a GET is sent: the URL names no known API"
        " (a prompt needs a path such as /v1/chat/completions, --dialect, --data or --curl)"
    )
    plan = replace(plan, method="GET", headers=headers, prompt="")
    return Request(plan=plan, dialect=None, notices=(notice,))


def known_suffixes() -> list[str]:
    """The path endings that mark an API."""
    return [suffix for dialect in registry.DIALECTS for suffix in dialect.path_suffixes]


def _over(defaults: Headers, headers: Headers) -> Headers:
    names = {name for name, _ in headers}
    return (*(pair for pair in defaults if pair[0] not in names), *headers)


def read_data(text: str) -> bytes:
    """The body --data names: @FILE, - (standard input) or the text itself. Raises UsageError."""
    if text == "-":
        return read_input("-", MAX_BODY_BYTES, where="--data", hint="name a file: --data @FILE")
    if not text.startswith("@"):
        return text.encode()
    hint = "check the path behind the @"
    return read_input(text[1:], MAX_BODY_BYTES, where="--data", hint=hint)
