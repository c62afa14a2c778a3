"""PP14x and PP45x: the front door, and the boxes that say of themselves that they are there."""

from __future__ import annotations

from promptpath.analysis.doors import edge_tcp, places, reach_km, vendors
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.transport import DELACK_HIGH_NS
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity
from promptpath.model.names import HTTP_HEADERS, PROXY
from promptpath.model.units import format_duration

HALF = 0.5
"""Both are smallest values of one path, were it one: a factor of two is another path's, once the
difference is more than `DELACK_HIGH_NS`, the longest that a delayed ACK adds to one sample."""


def _door(measured: Measured) -> Because:
    found = places(measured.headers)
    if not found:
        return NO
    said = ", ".join(f"{box.vendor} {box.place} ({box.header})" for box in found)
    rtt = measured.rtt_ns
    if rtt is None or measured.facts.records(PROXY):
        return because(f"served from {said}", facts=(HTTP_HEADERS,))
    reach = f"a round trip of {format_duration(rtt)} allows at most {reach_km(rtt):,.0f} km"
    return because(f"served from {said}; {reach}", facts=(HTTP_HEADERS,))


def _chain(measured: Measured) -> Because:
    named = vendors(measured.headers)
    if len(named) < 2:
        return NO
    return because(f"the response names {', '.join(named)}", facts=(HTTP_HEADERS,))


def _terminated(measured: Measured) -> Because:
    edge, ours = edge_tcp(measured.headers), measured.rtt_ns
    if edge is None or ours is None or measured.facts.records(PROXY):
        return NO
    theirs = min(edge.rtt_ns, edge.min_rtt_ns or edge.rtt_ns)
    if theirs >= ours * HALF or ours - theirs <= DELACK_HIGH_NS:
        return NO
    return because(
        f"the edge is {format_duration(theirs)} from whoever connected to it, and"
        f" {format_duration(ours)} from us",
        facts=(HTTP_HEADERS,),
    )


DOOR = Rule(
    code="PP140",
    title="The front door says where it stands",
    severity=Severity.INFO,
    asks="Which point of presence answered, and how far can it be?",
    decided="A header in its vendor's documented form (cf-ray, x-amz-cf-pop, x-served-by,"
    " x-vercel-id, fly-request-id) names the site. Light in fibre covers 204 km a ms (c over the"
    " group index 1.4677 of standard fibre), so half the round trip bounds the distance.",
    advice="If a nearer site exists, ask the vendor why anycast or DNS chose this one; compare from"
    " another network.",
    is_not="Not where the GPU is: this is the front door.",
    condition=_door,
)
CHAIN = Rule(
    code="PP450",
    title="Several boxes stand between you and the model",
    severity=Severity.INFO,
    asks="Which intermediaries leave their name?",
    decided="At least two vendors in Via, Server, Server-Timing, X-Served-By, X-Cache, Proxy-Status"
    " (RFC 9209), Cache-Status (RFC 9211) and the vendors' own headers; a vendor counts once,"
    " whatever its headers call it.",
    advice="Each of them may hold a stream or cut a silent one: promptpath calibrate and idle tell"
    " which does.",
    is_not="Not a fault, and not complete: a box may say nothing.",
    condition=_chain,
)
TERMINATED = Rule(
    code="PP451",
    title="A box between you and the edge ends the TCP connection",
    severity=Severity.WARNING,
    asks="Is there a transparent proxy on the way to the CDN?",
    decided="The edge's own round trip to its peer (Server-Timing cfL4) is less than half of ours"
    " and shorter by more than 46 ms, the longest that a delayed ACK adds (measured, see PP208): it"
    " talks to somebody nearer than we are.",
    advice="Look for a transparent proxy, a TLS inspector or a VPN; it may hold the stream.",
    is_not="Not the proxy of --proxy: with one, this is not judged.",
    condition=_terminated,
)
