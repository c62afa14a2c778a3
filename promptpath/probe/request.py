"""The request of a plan: method, headers and body as this connection sends them."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath import __version__
from promptpath.model.plan import Plan, Target
from promptpath.probe.proxy import proxy_authorization
from promptpath.wire.http import Headers, HttpConnection, HttpRequest

TIMING_HEADER = ("x-promptpath-timing", "1")
"""Asks a server that knows the timing contract (docs/contract/timing.md) for its own times."""


@dataclass(frozen=True, slots=True)
class QueuedRequest:
    """A request that an HTTP connection has taken, and its bytes as far as they may go out now."""

    request: HttpRequest
    stream: int
    first: bytes


def queue_request(http: HttpConnection, request: HttpRequest) -> QueuedRequest:
    """Have the connection write the request. Raises MeasureError when it can take none."""
    stream = http.request(request)
    return QueuedRequest(request, stream, http.data_to_send())


def build_request(plan: Plan, target: Target, *, absolute_form: bool) -> HttpRequest:
    """The plan's request, to `target`; `absolute_form` names the whole URL, as an HTTP proxy wants
    it (RFC 9112, 3.2.2). Headers of the plan win over our defaults."""
    extra: Headers = ()
    if absolute_form and plan.proxy is not None:
        extra = proxy_authorization(plan.proxy)
    if plan.server_timing and plan.method == "POST":
        extra = (*extra, TIMING_HEADER)
    defaults: Headers = (
        ("user-agent", f"promptpath/{__version__}"),
        ("accept", "text/event-stream, application/json, */*"),
        ("accept-encoding", plan.accept_encoding),
    )
    return HttpRequest(
        method=plan.method,
        scheme=target.scheme,
        authority=target.authority,
        target=target.url if absolute_form else target.path,
        headers=_merge(defaults, extra, plan.headers),
        body=plan.body or b"",
    )


def _merge(*layers: Headers) -> Headers:
    """Later layers replace names of earlier ones; a name may be repeated within one layer."""
    merged: list[tuple[str, str]] = []
    for layer in layers:
        lowered = tuple((name.lower(), value) for name, value in layer)
        names = {name for name, _ in lowered}
        merged = [pair for pair in merged if pair[0] not in names]
        merged.extend(lowered)
    return tuple(merged)
