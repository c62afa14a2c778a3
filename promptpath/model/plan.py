"""A plan: what to measure, complete before t0. It may hold secrets; its public form is
`PlanRecord`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from promptpath.model.units import NS_PER_S, Ns

DEFAULT_MAX_TOKENS = 128
"""Enough tokens for a cadence (DESIGN: 128 at most unless told), few enough to stay cheap."""
DEFAULT_PROMPT = "Why does my BGP session keep flapping?"


class HttpChoice(StrEnum):
    """--http."""

    AUTO = "auto"
    """HTTP/2 or HTTP/1.1 as ALPN says."""
    H1 = "1.1"
    H2 = "2"
    H3 = "3"
    RACE = "race"
    """QUIC first, TCP beside it 250 ms later: the first to stand carries the prompt."""


class Family(StrEnum):
    """-4 and -6."""

    ANY = "any"
    IPV4 = "ipv4"
    IPV6 = "ipv6"


class ProxyKind(StrEnum):
    """How a proxy is spoken to. `socks5h` lets the proxy resolve the name."""

    HTTP = "http"
    HTTPS = "https"
    SOCKS5 = "socks5"
    SOCKS5H = "socks5h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to go, taken apart once."""

    scheme: str
    """http | https."""
    host: str
    """A-label or IP literal, no brackets."""
    port: int
    path: str = field(repr=False)
    """Path and query as sent, at least "/". May hold a key in its query."""

    @property
    def authority(self) -> str:
        """Host and port as in a Host header: the default port is left out, IPv6 is bracketed."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == default else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL again; may hold a key in its query."""
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyPlan:
    """A proxy to go through."""

    kind: ProxyKind
    host: str
    port: int
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    source: str = "option"
    """option | environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """--resolve HOST:PORT:ADDR."""

    host: str
    port: int
    address: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When we give up. None is "no limit"."""

    connect_ns: Ns = 15 * NS_PER_S
    """Name resolution to the end of the last handshake."""
    first_token_ns: Ns | None = None
    """Last request byte to first content event."""
    idle_ns: Ns | None = None
    """Between two arrivals of content; keepalives do not count."""
    total_ns: Ns | None = 300 * NS_PER_S
    """The whole run."""
    max_bytes: int | None = 256 * 1024 * 1024
    """Response body bytes after decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """What the user promised somebody; a broken one is an error finding. None is "no budget"."""

    ttft_ns: Ns | None = None
    total_ns: Ns | None = None
    itl_p99_ns: Ns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One command's work. Field order follows the trip."""

    target: Target
    prompt: str = field(default=DEFAULT_PROMPT, repr=False)
    dialect: str | None = None
    """Name of the dialect to speak; None: by the URL, or a plain GET."""
    model: str | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    method: str = "GET"
    body: bytes | None = field(default=None, repr=False)
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Headers of the request beside those of HTTP itself; may hold keys."""
    accept_encoding: str = "identity"
    http: HttpChoice = HttpChoice.AUTO
    family: Family = Family.ANY
    overrides: tuple[Override, ...] = ()
    resolver: tuple[str, int] | None = None
    """--resolver: its address and port; it then gives the addresses."""
    proxy: ProxyPlan | None = None
    proxy_bypassed: str | None = None
    """Why the environment's proxy is not used (the NO_PROXY entry)."""
    source_address: str | None = None
    interface: str | None = None
    ca_file: str | None = None
    insecure: bool = False
    sni: str | None = None
    """None: the host; "": none sent."""
    keylog_file: str | None = None
    resume: bool = True
    """Open a second connection after the stream to see whether TLS resumes (off the critical
    path)."""
    early_data: bool = False
    """--early-data: try a replay-safe request as 0-RTT data on a second QUIC connection."""
    udp_probe: bool = True
    """Where h3 is on offer and was not used: try after the stream whether UDP gets through."""
    dns_detail: bool = True
    """Ask the configured resolver ourselves after the stream (off the critical path)."""
    max_redirects: int = 5
    limits: Limits = Limits()
    budgets: Budgets = Budgets()
    repeat: int = 1
    warm: bool = False
    keep_content: bool = False
    server_timing: bool = True
    """Ask for the timing contract (X-Promptpath-Timing: 1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRecord:
    """A plan without its secrets: what may be written down."""

    url: str
    method: str
    http: str
    family: str
    dialect: str | None
    model: str | None
    max_tokens: int
    prompt_chars: int
    body_bytes: int
    header_names: tuple[str, ...]
    accept_encoding: str
    resolver: str | None
    overrides: tuple[str, ...]
    proxy: str | None
    source_address: str | None
    interface: str | None
    insecure: bool
    sni: str | None
    limits: Limits
    budgets: Budgets
    repeat: int
    warm: bool
    keep_content: bool
    prompt: str | None = None
    """Only with --keep-content."""
