"""Which boxes a response says it passed, and where its front door stands: one decoder a header.

Forms are the vendors' own (Cloudflare, CloudFront, Fastly, Vercel, Fly, Envoy and Akamai
documentation; RFC 9110, 7.6.3 for Via; RFC 9209 for Proxy-Status; RFC 9211 for Cache-Status). A
header that no decoder knows is left to the list of headers; one whose value has another form gives
nothing: a wrong place is worse than none. All of it is the far side's word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from promptpath.analysis.facts import number
from promptpath.model.units import NS_PER_MS, NS_PER_US, Ns

KM_PER_MS: Final = 299.792458 / 1.4677
"""Light in fibre, one way: c over the group index of standard single-mode fibre at 1550 nm (ITU-T
G.652 fibres, data sheets give 1.4677 to 1.4682)."""
MOST_ITEMS: Final = 16
"""Members of a list header that are looked at: a chain of more boxes is a forgery."""

_NAME: Final = re.compile(r"[\w.-]{1,64}")
_RECEIVED_BY: Final = re.compile(r"([\w.-]{1,64})(?::\d{1,5})?")
"""RFC 9110, 7.6.3: a host with its port, or a pseudonym."""
_DISPLAYED: Final = re.compile(r"[\w., -]{1,64}")
"""A name in quotes may have blanks and commas."""
_UNQUOTED: Final = {mark: re.compile(rf'(?:[^{mark}"]|"(?:[^"\\]|\\.)*"?)+') for mark in (",", ";")}
"""Parts of a structured field (RFC 8941): a mark within a quoted string parts nothing."""
CACHE: Final = "a cache"
"""One that does not say whose it is."""
_VENDORS: Final = (
    (re.compile(r"cloudflare", re.IGNORECASE), "Cloudflare"),
    (re.compile(r"(?:[\w-]+\.)?cloudfront(?:\.net)?", re.IGNORECASE), "CloudFront"),
    (re.compile(r"varnish", re.IGNORECASE), "Varnish or Fastly"),
    (re.compile(r"fly(?:\.io)?", re.IGNORECASE), "Fly"),
    (re.compile(r"(?:istio-)?envoy", re.IGNORECASE), "Envoy"),
    (
        re.compile(r"AkamaiGHost|[\w.-]*\.akamai(?:technologies)?\.(?:com|net)", re.IGNORECASE),
        "Akamai",
    ),
    (re.compile(r"vercel", re.IGNORECASE), "Vercel"),
)
"""The names one vendor's headers go by -> its one name here. "varnish" in Via is Fastly's or
anybody's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One box that left a trace."""

    header: str
    vendor: str
    """Whose it is, or the name it gives itself."""
    place: str | None = None
    """IATA or region code, as sent."""
    role: str | None = None
    """edge | shield | function | cache | proxy."""
    detail: str | None = None
    """What it says beside: a cache's answer, an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeTcp:
    """What Cloudflare's edge says of its own TCP or QUIC connection (`Server-Timing: cfL4`)."""

    protocol: str
    rtt_ns: Ns
    min_rtt_ns: Ns | None
    lost: int | None


Decoder = Callable[[str], Iterator[Box]]


def boxes(headers: Mapping[str, str]) -> tuple[Box, ...]:
    """Every box that a response's headers (lower-case names) tell of, header by header."""
    return tuple(
        box for name, decode in DECODERS if name in headers for box in decode(headers[name].strip())
    )


def places(headers: Mapping[str, str]) -> tuple[Box, ...]:
    """Those that say where they are, the nearest to the client first within a header."""
    return tuple(box for box in boxes(headers) if box.place is not None)


def reach_km(rtt_ns: Ns) -> float:
    """How far away, at most, whatever answers after this round trip can be, in km of fibre."""
    return rtt_ns / NS_PER_MS / 2 * KM_PER_MS


def vendors(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Whose boxes these are, each once, the nameless left out. Fastly's own Via says varnish: that
    is one box where other headers name Fastly."""
    named = dict.fromkeys(box.vendor for box in boxes(headers) if box.vendor != CACHE)
    if "Fastly" in named:
        named.pop("Varnish or Fastly", None)
    return tuple(named)


def _vendor(name: str) -> str:
    return next((vendor for form, vendor in _VENDORS if form.fullmatch(name)), name)


def _cf_ray(value: str) -> Iterator[Box]:
    match = re.fullmatch(r"[0-9a-f]{8,32}-([A-Z]{3})", value)
    if match:
        yield Box(header="cf-ray", vendor="Cloudflare", place=match[1], role="edge")


def _cloudfront(value: str) -> Iterator[Box]:
    match = re.fullmatch(r"([A-Z]{3})\d{1,4}(?:-[A-Z]\d{1,3})?", value)
    if match:
        yield Box(header="x-amz-cf-pop", vendor="CloudFront", place=match[1], role="edge")


def _fastly(value: str) -> Iterator[Box]:
    """`cache-lga21984-LGA, cache-pdx12345-PDX`: the shield first, the edge last."""
    found = [
        match[1]
        for item in value.split(",")[:MOST_ITEMS]
        if (match := re.fullmatch(r"cache-[a-z0-9-]{3,40}-([A-Z]{3})", item.strip()))
    ]
    for at, place in enumerate(reversed(found)):
        role = "shield" if at else "edge"
        yield Box(header="x-served-by", vendor="Fastly", place=place, role=role)


def _vercel(value: str) -> Iterator[Box]:
    """`sfo1::iad1::id`: the edge's region, then the function's."""
    regions = value.split("::")[:-1][:MOST_ITEMS]
    for at, region in enumerate(regions):
        if re.fullmatch(r"[a-z]{3}\d", region):
            role = "function" if at else "edge"
            yield Box(header="x-vercel-id", vendor="Vercel", place=region, role=role)


def _fly(value: str) -> Iterator[Box]:
    match = re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}-([a-z]{3})", value)
    if match:
        yield Box(header="fly-request-id", vendor="Fly", place=match[1], role="edge")


def _via(value: str) -> Iterator[Box]:
    """Nearest to the server first (RFC 9110, 7.6.3)."""
    for item in value.split(",")[:MOST_ITEMS]:
        words = item.split("(")[0].split()
        match = _RECEIVED_BY.fullmatch(words[1]) if len(words) == 2 else None
        if match:
            yield Box(header="via", vendor=_vendor(match[1]), role="proxy")


def _server(value: str) -> Iterator[Box]:
    name = value.split("/")[0].split(" ")[0]
    if (vendor := _vendor(name)) != name or name in ("Cloudflare", "CloudFront", "Fly", "Vercel"):
        yield Box(header="server", vendor=vendor, role="proxy")


def _cf_cache(value: str) -> Iterator[Box]:
    yield from _cache("cf-cache-status", "Cloudflare", value)


def _x_cache(value: str) -> Iterator[Box]:
    """`Hit from cloudfront`, `TCP_MISS from a23.akamaitechnologies.com (...)`, or `MISS, HIT`, the
    edge last."""
    word, _, origin = value.split(",")[-1].strip().partition(" ")
    name = origin.removeprefix("from ").split(" ")[0]
    vendor = _vendor(name)
    yield from _cache("x-cache", vendor if vendor != name else CACHE, word)


def _cache(header: str, vendor: str, word: str) -> Iterator[Box]:
    if re.fullmatch(r"[A-Za-z_]{2,20}", word):
        yield Box(header=header, vendor=vendor, role="cache", detail=word.upper())


def _structured(header: str, role: str) -> Decoder:
    """`name; key=value; key, name ...` (RFC 8941 lists): the nearest to the server first."""

    def decode(value: str) -> Iterator[Box]:
        for item in _UNQUOTED[","].findall(value)[:MOST_ITEMS]:
            parts = [part.strip() for part in _UNQUOTED[";"].findall(item)]
            name, parameters = parts[0].strip('"'), parts[1:]
            if not _DISPLAYED.fullmatch(name):
                continue
            detail = "; ".join(part for part in parameters if len(part) <= 80) or None
            yield Box(header=header, vendor=_vendor(name), role=role, detail=detail)

    return decode


def _envoy(value: str) -> Iterator[Box]:
    if re.fullmatch(r"\d{1,9}", value):
        detail = f"{value} ms upstream"
        header = "x-envoy-upstream-service-time"
        yield Box(header=header, vendor="Envoy", role="proxy", detail=detail)


def _azure(value: str) -> Iterator[Box]:
    if re.fullmatch(r"[\w=+/-]{16,200}", value):
        yield Box(header="x-azure-ref", vendor="Azure Front Door", role="edge")


def _akamai(value: str) -> Iterator[Box]:
    """`cdn-cache; desc=HIT`, `edge; dur=1`, `origin; dur=5` in Server-Timing."""
    match = re.search(r"(?:^|,)\s*cdn-cache;\s*desc=\"?([A-Z_]{2,20})", value)
    if match:
        yield Box(header="server-timing", vendor="Akamai", role="cache", detail=match[1])
    if re.search(r"(?:^|,)\s*cfL4\s*;", value):
        yield Box(header="server-timing", vendor="Cloudflare", role="edge")


DECODERS: Final[tuple[tuple[str, Decoder], ...]] = (
    ("cf-ray", _cf_ray),
    ("x-amz-cf-pop", _cloudfront),
    ("x-served-by", _fastly),
    ("x-vercel-id", _vercel),
    ("fly-request-id", _fly),
    ("x-azure-ref", _azure),
    ("server-timing", _akamai),
    ("via", _via),
    ("server", _server),
    ("cf-cache-status", _cf_cache),
    ("x-cache", _x_cache),
    ("proxy-status", _structured("proxy-status", "proxy")),
    ("cache-status", _structured("cache-status", "cache")),
    ("x-envoy-upstream-service-time", _envoy),
)
"""Header -> what it tells."""


def edge_tcp(headers: Mapping[str, str]) -> EdgeTcp | None:
    """Cloudflare's own view of the connection that reached it, microseconds there; None without a
    readable `cfL4`."""
    match = re.search(
        r'(?:^|,)\s*cfL4\s*;\s*desc="?\??([^",;]{1,400})', headers.get("server-timing", "")
    )
    if match is None:
        return None
    pairs = dict(part.partition("=")[::2] for part in match[1].split("&"))

    def count(name: str) -> int | None:
        text = pairs.get(name, "")
        value = number(int(text)) if text.isascii() and text.isdigit() and len(text) < 12 else None
        return None if value is None else int(value)

    rtt_us, least_us = count("rtt"), count("min_rtt")
    if not rtt_us or pairs.get("proto") not in ("TCP", "QUIC"):
        return None
    return EdgeTcp(
        protocol=pairs["proto"],
        rtt_ns=rtt_us * NS_PER_US,
        min_rtt_ns=least_us * NS_PER_US if least_us else None,
        lost=count("lost"),
    )
