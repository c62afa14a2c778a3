"""Which proxy a target is reached through: from --proxy or from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from promptpath.errors import UsageError
from promptpath.model.plan import ProxyKind, ProxyPlan, Target
from promptpath.model.urls import normal_host

_DEFAULT_PORTS = {
    ProxyKind.HTTP: 80,
    ProxyKind.HTTPS: 443,
    ProxyKind.SOCKS5: 1080,  # RFC 1928, 3
    ProxyKind.SOCKS5H: 1080,
}


def choose_proxy(
    option: str, target: Target, environ: Mapping[str, str]
) -> tuple[ProxyPlan | None, str | None]:
    """The proxy for this target, and why the environment's one is not used (or None).

    `option` is --proxy: a URL, "env" or "none". Raises UsageError for a URL that names no proxy;
    credentials in it never appear in the message.
    """
    if option == "none":
        return None, None
    if option != "env":
        return parse_proxy(option, source="option"), None
    value = _from_environment(target.scheme, environ)
    if not value:
        return None, None
    bypass = _bypassing_entry(target, environ)
    if bypass is not None:
        return None, f"NO_PROXY has {bypass!r}"
    return parse_proxy(value, source="environment"), None


def parse_proxy(text: str, *, source: str) -> ProxyPlan:
    """A proxy URL; without a scheme it is an http proxy, as curl has it."""
    where = "--proxy" if source == "option" else "the environment's proxy variable"
    scheme, found, _ = text.partition("://")
    try:
        kind = ProxyKind(scheme.lower() if found else "http")
    except ValueError as error:
        raise UsageError(
            f"unknown proxy scheme {scheme[:20]!r}",
            expected="http, https, socks5 or socks5h",
            where=where,
        ) from error
    try:
        parts = urlsplit(text if found else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError("bad proxy URL", expected="http://HOST:PORT", where=where) from error
    if not host or port == 0:
        raise UsageError("bad proxy URL", expected="http://HOST:PORT", where=where)
    return ProxyPlan(
        kind=kind,
        host=normal_host(host, bracketed="[" in parts.netloc),
        port=port or _DEFAULT_PORTS[kind],
        username=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        source=source,
    )


def _from_environment(scheme: str, environ: Mapping[str, str]) -> str | None:
    """curl's variables and order: lower case wins; HTTP_PROXY in capitals is not read when a CGI
    server may have made it from a "Proxy:" request header (httpoxy, CVE-2016-5385)."""
    names = (f"{scheme}_proxy", f"{scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    unsafe = "HTTP_PROXY" if "REQUEST_METHOD" in environ else None
    return next((environ[name] for name in names if name != unsafe and environ.get(name)), None)


def _bypassing_entry(target: Target, environ: Mapping[str, str]) -> str | None:
    """The NO_PROXY entry that exempts this host: "*", a name and what is under it, a name with a
    port, an address or a network in CIDR form."""
    entries = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    for entry in (part.strip() for part in entries.split(",")):
        if entry and _exempts(entry.lower(), target):
            return entry
    return None


def _exempts(entry: str, target: Target) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return ip_address(target.host) in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, colon, port = entry.rpartition(":")
    if colon and port.isdigit() and (":" not in name or name.endswith("]")):
        if int(port) != target.port:
            return False
        entry = name
    name = entry.strip("[]").lstrip("*").lstrip(".")
    host = target.host.removesuffix(".")
    return host == name or host.endswith(f".{name}")
