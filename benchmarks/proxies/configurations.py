"""Which products the lab runs, how each is configured, and over which protocols."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager as Block
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.proxies.stream import LARGE, SMALL, Stream
from tests.peers import (
    apache,
    caddy,
    envoy,
    lighttpd,
    nginx,
    node,
    traefik,
    traffic_server,
    varnish,
)
from tests.peers.accelerator import BUT_STREAMS, accelerator
from tests.peers.certs import Leaf
from tests.peers.haproxy import haproxy
from tests.peers.icap import IcapServer, Scanner


class Protocol(StrEnum):
    """What the client speaks to the product."""

    H1 = "HTTP/1.1"
    H1_TLS = "HTTP/1.1, TLS"
    H2_TLS = "HTTP/2, TLS"


CLEAR = (Protocol.H1,)
ALL = tuple(Protocol)
Start = Callable[[Path, str, Leaf | None], Block[str]]
"""(scratch directory, upstream URL, leaf or None) -> the product's base URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """One way to configure one product."""

    product: str
    name: str
    setting: str
    """The lines that make it, as they stand in the product's file; "" as it comes."""
    holds: bool
    """Whether it is known to hold a tenth of the events or more, over one protocol at least."""
    start: Start
    protocols: tuple[Protocol, ...] = CLEAR
    compressed: bool = False
    """Whether the client asks for gzip."""
    stream: Stream = SMALL


def _tls_able(peer: Callable[..., Block[str]], **options: Any) -> Start:
    def start(directory: Path, upstream: str, tls: Leaf | None) -> Block[str]:
        return peer(directory, upstream, tls=tls, **options)

    return start


def _clear(peer: Callable[..., Block[str]], **options: Any) -> Start:
    def start(directory: Path, upstream: str, tls: Leaf | None) -> Block[str]:
        return peer(directory, upstream, **options)

    return start


def _scanned(scanner: Scanner, rules: str = "") -> Start:
    @contextlib.contextmanager
    def start(directory: Path, upstream: str, tls: Leaf | None) -> Iterator[str]:
        with IcapServer(scanner) as icap:
            with accelerator(directory, upstream, icap=icap.url, rules=rules) as url:
                yield url

    return start


_NGINX_GZIP = "gzip on; gzip_types text/event-stream; gzip_min_length 0; gzip_proxied any;"
_NGINX = (
    Configuration(
        product="nginx", name="as it comes", setting="", holds=True, protocols=ALL,
        start=_tls_able(nginx.nginx, extra="", upstream_version=""),
    ),
    Configuration(
        product="nginx", name="HTTP/1.1 to the server", setting=nginx.HTTP_1_1, holds=True,
        protocols=ALL, start=_tls_able(nginx.nginx, extra=""),
    ),
    Configuration(
        product="nginx", name="buffering off", setting="proxy_buffering off;", holds=False,
        protocols=ALL, start=_tls_able(nginx.nginx, upstream_version=""),
    ),
    Configuration(
        product="nginx", name="gzip", setting=_NGINX_GZIP, holds=True, compressed=True,
        start=_tls_able(nginx.nginx, extra=_NGINX_GZIP),
    ),
    Configuration(
        product="nginx", name="gzip, buffering off", compressed=True, holds=False,
        setting=f"{_NGINX_GZIP} proxy_buffering off;",
        start=_tls_able(nginx.nginx, extra=_NGINX_GZIP + nginx.STREAMING),
    ),
)  # fmt: skip

_NO_DELAY = "option http-no-delay"
_COMPRESSION = f"{_NO_DELAY}\n    compression algo gzip\n    compression type text/event-stream"
_OTHER_TYPES = f"{_NO_DELAY}\n    compression algo gzip\n    compression type text/html"
_HAPROXY = (
    Configuration(
        product="HAProxy", name="as it comes", setting="", holds=True, protocols=ALL,
        start=_tls_able(haproxy),
    ),
    Configuration(
        product="HAProxy", name="http-no-delay", setting="option http-no-delay", holds=False,
        protocols=ALL, start=_tls_able(haproxy, options="option http-no-delay"),
    ),
    Configuration(
        product="HAProxy", name="compression", holds=True, compressed=True,
        setting=_COMPRESSION,
        start=_tls_able(haproxy, options=_COMPRESSION),
    ),
    Configuration(
        product="HAProxy", name="compression of other types", holds=False, compressed=True,
        setting=_OTHER_TYPES,
        start=_tls_able(haproxy, options=_OTHER_TYPES),
    ),
)  # fmt: skip

_APACHE = (
    Configuration(
        product="Apache httpd", name="as it comes", setting="", holds=False, protocols=ALL,
        start=_tls_able(apache.apache),
    ),
    Configuration(
        product="Apache httpd", name="mod_deflate", setting=apache.DEFLATE, holds=False,
        compressed=True, start=_tls_able(apache.apache, extra=apache.DEFLATE, modules=("deflate",)),
    ),
    Configuration(
        product="Apache httpd", name="mod_ratelimit", setting=apache.RATE_LIMIT, holds=True,
        start=_tls_able(apache.apache, extra=apache.RATE_LIMIT, modules=("ratelimit", "env")),
    ),
)  # fmt: skip

_SQUID = (
    Configuration(
        product="Squid", name="as it comes", setting="", holds=False, start=_clear(accelerator)
    ),
    Configuration(
        product="Squid", name="ICAP scanner that reads all", holds=True,
        setting="icap_service ... respmod_precache", start=_scanned(Scanner.WHOLE),
    ),
    Configuration(
        product="Squid", name="the same, event streams exempt", holds=False,
        setting=BUT_STREAMS, start=_scanned(Scanner.WHOLE, BUT_STREAMS),
    ),
    Configuration(
        product="Squid", name="ICAP scanner with a preview of 1 KiB", holds=False,
        setting="icap_preview_enable on", start=_scanned(Scanner.PREVIEW),
    ),
    Configuration(
        product="Squid", name="ICAP scanner that passes on", holds=False,
        setting="icap_service ... respmod_precache", start=_scanned(Scanner.STREAM),
    ),
)  # fmt: skip

_VARNISH = (
    Configuration(
        product="Varnish", name="as it comes", setting="", holds=False,
        start=_clear(varnish.varnish),
    ),
    Configuration(
        product="Varnish", name="do_stream = false", setting=varnish.WHOLE, holds=True,
        start=_clear(varnish.varnish, extra=varnish.WHOLE),
    ),
    Configuration(
        product="Varnish", name="do_gzip", setting=varnish.GZIP, holds=True, compressed=True,
        start=_clear(varnish.varnish, extra=varnish.GZIP),
    ),
    Configuration(
        product="Varnish", name="both, event streams exempt", holds=False, compressed=True,
        setting=f"{varnish.WHOLE} {varnish.GZIP} {varnish.BUT_STREAMS}",
        start=_clear(
            varnish.varnish, extra=f"{varnish.WHOLE} {varnish.GZIP} {varnish.BUT_STREAMS}"
        ),
    ),
)  # fmt: skip

_CADDY = (
    Configuration(
        product="Caddy", name="as it comes", setting="", holds=False, protocols=ALL,
        start=_tls_able(caddy.caddy),
    ),
    Configuration(
        product="Caddy", name="encode gzip", setting=caddy.GZIP, holds=True, compressed=True,
        stream=LARGE, start=_tls_able(caddy.caddy, extra=caddy.GZIP),
    ),
    Configuration(
        product="Caddy", name="encode gzip, types listed", setting=caddy.GZIP_LISTED, holds=False,
        compressed=True, stream=LARGE, start=_tls_able(caddy.caddy, extra=caddy.GZIP_LISTED),
    ),
)  # fmt: skip

_LIGHTTPD = (
    Configuration(
        product="lighttpd", name="as it comes", setting="", holds=True, protocols=ALL,
        start=_tls_able(lighttpd.lighttpd),
    ),
    Configuration(
        product="lighttpd", name="stream-response-body", setting=lighttpd.STREAMING, holds=False,
        protocols=ALL, start=_tls_able(lighttpd.lighttpd, extra=lighttpd.STREAMING),
    ),
)  # fmt: skip

_ENVOY = (
    Configuration(
        product="Envoy", name="as it comes", setting="", holds=False, protocols=ALL,
        start=_tls_able(envoy.envoy),
    ),
    Configuration(
        product="Envoy", name="compressor", setting="envoy.filters.http.compressor, gzip",
        holds=False, compressed=True, start=_tls_able(envoy.envoy, filters=[envoy.GZIP]),
    ),
    Configuration(
        product="Envoy", name="Lua body()", setting="function envoy_on_response(h) h:body() end",
        holds=True, start=_tls_able(envoy.envoy, filters=[envoy.LUA_BODY]),
    ),
    Configuration(
        product="Envoy", name="Lua bodyChunks()", holds=False,
        setting="function envoy_on_response(h) for chunk in h:bodyChunks() do end end",
        start=_tls_able(envoy.envoy, filters=[envoy.LUA_CHUNKS]),
    ),
)  # fmt: skip

_TRAEFIK = (
    Configuration(
        product="Traefik", name="as it comes", setting="", holds=False, protocols=ALL,
        start=_tls_able(traefik.traefik),
    ),
    Configuration(
        product="Traefik", name="compress", setting="middleware: compress", holds=False,
        compressed=True, start=_tls_able(traefik.traefik, middleware=traefik.COMPRESS),
    ),
    Configuration(
        product="Traefik", name="buffering", setting="middleware: buffering", holds=True,
        start=_tls_able(traefik.traefik, middleware=traefik.BUFFERING),
    ),
)  # fmt: skip

_NODE = (
    Configuration(
        product="node http-proxy", name="as it comes", setting="", holds=False,
        start=_clear(node.node_proxy),
    ),
    Configuration(
        product="node http-proxy", name="compression middleware", holds=True, compressed=True,
        setting="compression({ threshold: 0, filter: () => true })",
        start=_clear(node.node_proxy, compress=True),
    ),
)  # fmt: skip

_TRAFFIC_SERVER = (
    Configuration(
        product="Traffic Server", name="as it comes", setting="", holds=False,
        start=_clear(traffic_server.traffic_server),
    ),
    Configuration(
        product="Traffic Server", name="compress.so", setting=traffic_server.COMPRESS, holds=True,
        compressed=True,
        start=_clear(traffic_server.traffic_server, compress=traffic_server.COMPRESS),
    ),
    Configuration(
        product="Traffic Server", name="compress.so, types listed", holds=False, compressed=True,
        setting=traffic_server.COMPRESS_LISTED,
        start=_clear(traffic_server.traffic_server, compress=traffic_server.COMPRESS_LISTED),
    ),
)  # fmt: skip

CONFIGURATIONS: tuple[Configuration, ...] = (
    *_NGINX,
    *_HAPROXY,
    *_APACHE,
    *_SQUID,
    *_VARNISH,
    *_CADDY,
    *_LIGHTTPD,
    *_ENVOY,
    *_TRAEFIK,
    *_TRAFFIC_SERVER,
    *_NODE,
)
PRODUCTS = tuple(dict.fromkeys(each.product for each in CONFIGURATIONS))
