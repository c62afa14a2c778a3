"""What models an endpoint offers, asked before t0 to help a person; never part of a measurement."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from promptpath.dialect.base import Dialect
from promptpath.errors import UsageError
from promptpath.model.plan import Plan
from promptpath.model.redact import printable
from promptpath.model.urls import is_loopback

_TIMEOUT_S = 3.0
"""A hint is not worth a longer wait: two round trips over 500 ms and a slow answer fit."""
_MAX_BYTES = 4 * 1024 * 1024
"""A list longer than this is no help to a person; reading stops there."""
_SHOWN = 12
"""Names in a hint: a dozen still fits a screen."""


def choose_model(plan: Plan, dialect: Dialect | None) -> tuple[Plan, tuple[str, ...]]:
    """The plan with a model named, and what to tell about it.

    A remote model costs money, so it is never chosen for the user; on this machine the only model
    there is is taken. Raises UsageError whose hint lists what the endpoint offers.
    """
    if dialect is None or plan.body is not None or plan.model is not None:
        return plan, ()
    why = None
    try:
        names = list_models(plan)
    except OSError as error:
        names, why = [], _reason(error)
    if len(names) == 1 and is_loopback(plan.target.host):
        return replace(plan, model=names[0]), (f"asking {names[0]}, the only model there is",)
    hint = "name it with --model NAME"
    if names:
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        hint += f"; it offers {', '.join(names[:_SHOWN])}{more}"
    elif why is not None:
        hint += f" (its list could not be had: {why})"
    raise UsageError("no model named", expected="--model NAME", hint=hint)


def models_path(path: str) -> str | None:
    """The path of the list that belongs to a prompt's path: both vendors keep it beside them
    (/v1/chat/completions and /v1/messages -> /v1/models). None when there is no such place."""
    match = re.fullmatch(r"(.*?)/(?:chat/completions|completions|responses|messages)", path)
    return f"{match[1]}/models" if match else None


def list_models(plan: Plan) -> list[str]:
    """The model names the endpoint lists, printable and in its order.

    Empty when it cannot be reached this simply (a proxy, an override) or answers something else.
    Raises OSError when it does not answer, or its certificate does not verify.
    """
    path = models_path(plan.target.path.partition("?")[0])
    if path is None or plan.proxy is not None or plan.overrides:
        return []
    try:
        return _names(_get(plan, path))
    except OSError:  # before ValueError, of which a certificate error is one as well
        raise
    except (ValueError, RecursionError):
        return []


def _reason(error: OSError) -> str:
    """What went wrong, in words of this side alone."""
    import ssl

    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}; see --cacert"
    return (error.strerror or "no answer").lower()


def _get(plan: Plan, path: str) -> bytes:
    import http.client
    import ssl

    target = plan.target
    if target.scheme == "http":
        connection = http.client.HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
    else:
        context = ssl.create_default_context(cafile=plan.ca_file)
        if plan.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            target.host, target.port, timeout=_TIMEOUT_S, context=context
        )
    headers = {k: v for k, v in plan.headers if k not in ("content-type", "content-length")}
    try:
        connection.request("GET", path, headers={**headers, "accept": "application/json"})
        response = connection.getresponse()
        return response.read(_MAX_BYTES) if response.status == 200 else b""
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def _names(raw: bytes) -> list[str]:
    body = json.loads(raw)
    entries = body.get("data") if isinstance(body, dict) else None
    if not isinstance(entries, list):
        return []
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return [printable(name)[:100] for name in names if isinstance(name, str) and name]
