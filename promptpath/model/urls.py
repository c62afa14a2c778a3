"""A URL as a person types it -> Target, or a UsageError that says what to type instead."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import quote, urlsplit

from promptpath.errors import UsageError
from promptpath.model.plan import Target
from promptpath.model.redact import redact_url

_DEFAULT_PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)$")
_MAX_HOST = 253
"""Characters of a host name in text form (RFC 1035, 2.3.4: 255 octets on the wire)."""
_SAFE_IN_PATH = "/%:@!$&'()*+,;=-._~"
_SAFE_IN_QUERY = _SAFE_IN_PATH + "?[]{}|"


def parse_url(text: str) -> Target:
    """Take a URL apart. The fragment is dropped, it never goes on the wire (RFC 9110, 4.2.5).

    Raises UsageError for no or an unknown scheme, credentials, a bad host or a bad port.
    """
    if re.search(r"[\s\x00-\x1f\x7f]", text):
        raise UsageError("a blank or control character in the URL", hint="percent-encode it: %20")
    scheme, found, _ = text.partition("://")
    if not found:
        raise UsageError(
            "no scheme in the URL",
            expected="http://... or https://...",
            hint=f"did you mean {redact_url('https://' + text.lstrip('/'))}",
        )
    if scheme.lower() not in _DEFAULT_PORTS:
        raise UsageError(f"unknown scheme {scheme!r}", expected="http:// or https://")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_port_or_host(text, error) from error
    if "@" in parts.netloc:
        raise UsageError(
            "credentials in the URL",
            expected="a URL without user:password@",
            hint="name the key's variable with --key-env NAME, or send -H 'Authorization: ...'",
        )
    if port == 0:
        raise UsageError("port 0 in the URL", expected="a port from 1 to 65535")
    query = f"?{quote(parts.query, safe=_SAFE_IN_QUERY)}" if parts.query else ""
    return Target(
        scheme=parts.scheme,
        host=normal_host(host or "", bracketed="[" in parts.netloc),
        port=port or _DEFAULT_PORTS[parts.scheme],
        path=(quote(parts.path, safe=_SAFE_IN_PATH) or "/") + query,
    )


def _bad_port_or_host(text: str, error: ValueError) -> UsageError:
    if "ort" in str(error):  # "Port could not be cast ...", "Port out of range 0-65535"
        return UsageError("bad port in the URL", expected="a port from 1 to 65535")
    return UsageError(
        "bad address in the URL",
        expected="a name, an IPv4 address or an IPv6 address in brackets",
        hint="for example https://[2001:db8::1]:8443/",
    )


def normal_host(host: str, *, bracketed: bool = False) -> str:
    """A host as it is looked up: lower case, A-labels (RFC 5891) or an IP literal without brackets.

    Raises UsageError when it is none of them.
    """
    if bracketed or ":" in host:
        return _ipv6(host)
    if not host:
        raise UsageError("no host in the URL", expected="http://HOST/... or https://HOST/...")
    name = host.lower() if host.isascii() else _a_label(host)
    labels = name.removesuffix(".").split(".")
    if labels[-1].isdigit():  # a name cannot end in a number (RFC 3696, 2): it is meant as IPv4
        try:
            return str(IPv4Address(name))
        except AddressValueError as error:
            raise UsageError(f"bad IPv4 address {host!r}", expected="four numbers 0-255") from error
    if len(name) > _MAX_HOST or not all(_LABEL.match(label) for label in labels):
        raise UsageError(
            f"bad host name {host[:80]!r}",
            expected="labels of letters, digits and hyphens, 63 characters each at most",
        )
    return name


def _ipv6(host: str) -> str:
    if "%" in host:
        raise UsageError(
            f"a zone in the address {host!r}",
            expected="an address without %zone",
            hint="name the interface with --interface NAME",
        )
    try:
        return str(IPv6Address(host))
    except AddressValueError as error:
        raise UsageError(f"bad IPv6 address {host!r}", hint="for example [2001:db8::1]") from error


def _a_label(host: str) -> str:
    import idna  # lazy: its tables cost 10 ms, and few hosts need them

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except idna.IDNAError as error:
        raise UsageError(f"bad international host name {host!r}: {error}") from error


def parse_host_port(text: str, default_port: int) -> tuple[str, int]:
    """An address with an optional port: "1.1.1.1", "1.1.1.1:5353", "[::1]:53", "::1".

    Returns the IP address and port; raises UsageError when it is not an IP address.
    """
    match = re.fullmatch(r"\[([^\]]*)\](?::(\d+))?|([^:]*)(?::(\d+))?|([0-9A-Fa-f:.]+)", text)
    if match is None:
        raise UsageError(f"bad address {text!r}", expected="ADDR, ADDR:PORT or [IPV6]:PORT")
    address = match[1] or match[3] or match[5] or ""
    port = int(match[2] or match[4] or default_port)
    if not 1 <= port <= 65535:
        raise UsageError(f"bad port in {text!r}", expected="a port from 1 to 65535")
    return ip_literal(address), port


def ip_literal(text: str) -> str:
    """The IP address in normal form; raises UsageError for anything else."""
    try:
        return str(IPv6Address(text) if ":" in text else IPv4Address(text))
    except AddressValueError as error:
        raise UsageError(
            f"not an IP address: {text!r}",
            expected="an IPv4 or IPv6 address (a name would have to be resolved first)",
        ) from error


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by its name alone (RFC 6761, 6.3) or as a literal."""
    if host.removesuffix(".").endswith("localhost"):
        labels = host.removesuffix(".").split(".")
        return labels[-1] == "localhost"
    try:
        return (IPv6Address(host) if ":" in host else IPv4Address(host)).is_loopback
    except AddressValueError:
        return False
