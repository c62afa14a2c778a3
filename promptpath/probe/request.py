"""The request of a plan: method, headers and body as this connection sends them."""

from __future__ import annotations

from promptpath import __version__
from promptpath.model.plan import Plan
from promptpath.probe.connect import Connection
from promptpath.probe.proxy import proxy_authorization
from promptpath.wire.http import Headers, HttpRequest

TIMING_HEADER = ("x-promptpath-timing", "1")
"""Asks a server that knows the timing contract (docs/contract/timing.md) for its own times."""


def build_request(plan: Plan, connection: Connection) -> HttpRequest:
    """The plan's request. Headers of the plan win over our defaults."""
    target = connection.target
    extra: Headers = ()
    if connection.absolute_form and plan.proxy is not None:
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
        target=target.url if connection.absolute_form else target.path,
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
