"""The idle and total timers that products come with, so that a measured one can be named.

Each row says where the number is from. `verified` means: the product's own timer of that kind was
set, fired, and measured; the default's value itself is the vendor's word.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns

EARLY_NS = 300 * NS_PER_MS
"""nginx re-arms a timer only when it moved by 300 ms (NGX_TIMER_LAZY_DELAY): measured 2.72 s of
3."""
LATE_NS = 1_100 * NS_PER_MS
"""Envoy closes an HTTP/1.1 connection 1 s after its timer (delayed_close_timeout), lighttpd and ATS
look once a second: measured up to 1.1 s on 42 configurations."""


class TimerKind(StrEnum):
    """What a timer counts."""

    IDLE = "idle"
    """Silence of the response: bytes start it anew."""
    FIRST_BYTE = "first-byte"
    """Silence before the response begins."""
    TOTAL = "total"
    """The whole response, however busy."""
    KEPT = "kept"
    """An idle connection between two requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """One product's default."""

    seconds: float
    kinds: tuple[TimerKind, ...]
    product: str
    setting: str
    cure: str
    """What to write, or what to do where it cannot be set."""
    source: str
    verified: bool = False
    signs: tuple[str, ...] = ()
    """Words in a Server, Via or X-Served-By header that suggest the product (lower case)."""


_IDLE = (TimerKind.IDLE, TimerKind.FIRST_BYTE)

DEFAULTS: tuple[Default, ...] = (
    Default(
        seconds=60,
        kinds=_IDLE,
        product="nginx, ingress-nginx, Kong, APISIX",
        setting="proxy_read_timeout",
        cure="proxy_read_timeout 3600s; (ingress: nginx.ingress.kubernetes.io/proxy-read-timeout)",
        source="ngx_http_proxy_module.c; ingress-nginx config.go",
        verified=True,
        signs=("nginx", "openresty", "kong", "apisix"),
    ),
    Default(
        seconds=60,
        kinds=_IDLE,
        product="AWS Application and Classic Load Balancer",
        setting="idle_timeout.timeout_seconds",
        cure="raise idle_timeout.timeout_seconds (up to 4000); HTTP/2 PINGs and TCP keepalives do"
        " not reset it, a comment line does",
        source="docs.aws.amazon.com, edit-load-balancer-attributes",
        signs=("awselb",),
    ),
    Default(
        seconds=60,
        kinds=_IDLE,
        product="Apache httpd",
        setting="ProxyTimeout (Timeout)",
        cure="ProxyPass / http://... timeout=3600",
        source="httpd docs, core Timeout",
        verified=True,
        signs=("apache",),
    ),
    Default(
        seconds=60,
        kinds=_IDLE,
        product="Varnish",
        setting="first_byte_timeout, between_bytes_timeout",
        cure=".first_byte_timeout = 3600s; .between_bytes_timeout = 3600s; in the backend",
        source="varnishd -x parameter, 7.1",
        verified=True,
        signs=("varnish",),
    ),
    Default(
        seconds=60,
        kinds=_IDLE,
        product="nghttpx",
        setting="--backend-read-timeout",
        cure="--backend-read-timeout=1h",
        source="nghttpx --help, 1.52",
        verified=True,
        signs=("nghttpx",),
    ),
    Default(
        seconds=60,
        kinds=(TimerKind.IDLE,),
        product="Fly.io proxy",
        setting="idle timeout",
        cure="send a comment line every 30 s",
        source="users' reports (secondary)",
        signs=("fly/", "fly.io"),
    ),
    Default(
        seconds=10,
        kinds=_IDLE,
        product="Bun.serve",
        setting="idleTimeout",
        cure="idleTimeout: 255 (its largest), and a comment line more often",
        source="users' reports, Bun documentation",
    ),
    Default(
        seconds=15,
        kinds=(TimerKind.TOTAL, TimerKind.FIRST_BYTE),
        product="Envoy, Istio, Contour",
        setting="route timeout",
        cure="timeout: 0s in the route (Istio: VirtualService http.timeout: 0s)",
        source="Envoy docs, faq/configuration/timeouts",
        verified=True,
        signs=("envoy", "istio"),
    ),
    Default(
        seconds=29,
        kinds=(TimerKind.TOTAL, TimerKind.FIRST_BYTE),
        product="AWS API Gateway (REST, HTTP)",
        setting="integration timeout",
        cure="turn response streaming on (REST API, up to 15 min), or go past API Gateway",
        source="docs.aws.amazon.com; terraform-provider-aws issues 45322, 45472",
    ),
    Default(
        seconds=30,
        kinds=_IDLE,
        product="Apache Traffic Server",
        setting="proxy.config.http.transaction_no_activity_timeout_in / _out",
        cure="CONFIG proxy.config.http.transaction_no_activity_timeout_out INT 3600",
        source="records.config as shipped, 9.2",
        verified=True,
        signs=("trafficserver", "ats/"),
    ),
    Default(
        seconds=30,
        kinds=_IDLE,
        product="AWS CloudFront",
        setting="origin response timeout",
        cure="OriginReadTimeout: 60 (120 on request)",
        source="docs.aws.amazon.com, VpcOriginConfig",
        signs=("cloudfront",),
    ),
    Default(
        seconds=30,
        kinds=(TimerKind.TOTAL, TimerKind.FIRST_BYTE),
        product="Google Cloud external Application Load Balancer",
        setting="backend service timeoutSec",
        cure="gcloud compute backend-services update NAME --timeout=3600",
        source="cloud.google.com, request distribution",
        signs=("google",),
    ),
    Default(
        seconds=30,
        kinds=_IDLE,
        product="Azure Front Door",
        setting="origin response timeout",
        cure="raise it to 240 s, its largest, and send a comment line more often",
        source="learn.microsoft.com, front-door-troubleshoot-routing",
    ),
    Default(
        seconds=30,
        kinds=_IDLE,
        product="Gcore CDN",
        setting="proxy read timeout",
        cure="raise the CDN resource's proxy read timeout",
        source="gcore.com/docs, CDN timeouts",
        signs=("gcore",),
    ),
    Default(
        seconds=30,
        kinds=(TimerKind.FIRST_BYTE,),
        product="Heroku router (H12)",
        setting="first byte within 30 s, then 55 s rolling",
        cure="send the head and a comment line at once, then one every 30 s",
        source="devcenter.heroku.com, request-timeout",
        signs=("vegur", "heroku"),
    ),
    Default(
        seconds=55,
        kinds=(TimerKind.IDLE,),
        product="Heroku router (H15)",
        setting="55 s rolling window",
        cure="send a comment line every 30 s",
        source="devcenter.heroku.com, request-timeout (from memory)",
        signs=("vegur", "heroku"),
    ),
    Default(
        seconds=25,
        kinds=(TimerKind.FIRST_BYTE,),
        product="Vercel edge functions",
        setting="25 s to the first byte",
        cure="send the head and a comment line at once",
        source="vercel.com/docs",
        signs=("vercel",),
    ),
    Default(
        seconds=100,
        kinds=_IDLE,
        product="Cloudflare (as older reports have it)",
        setting="proxy read timeout",
        cure="send a first event at once and a comment line every 30 s",
        source="users' reports of error 524",
        signs=("cloudflare",),
    ),
    Default(
        seconds=120,
        kinds=_IDLE,
        product="Cloudflare",
        setting="proxy read timeout",
        cure="send a comment line every 30 s (Enterprise: proxy_read_timeout)",
        source="developers.cloudflare.com, connection limits",
        signs=("cloudflare",),
    ),
    Default(
        seconds=230,
        kinds=_IDLE,
        product="Azure App Service",
        setting="front end idle timeout",
        cure="send a comment line every 60 s; it cannot be raised",
        source="users' reports (secondary)",
    ),
    Default(
        seconds=240,
        kinds=_IDLE,
        product="Azure Load Balancer, API Management",
        setting="TCP idle timeout",
        cure="idleTimeoutInMinutes: 30, and a comment line every 60 s",
        source="learn.microsoft.com, how-to-server-sent-events",
    ),
    Default(
        seconds=300,
        kinds=_IDLE,
        product="Envoy, Istio",
        setting="stream_idle_timeout",
        cure="stream_idle_timeout: 0s",
        source="Envoy docs, faq/configuration/timeouts",
        verified=True,
        signs=("envoy", "istio"),
    ),
    Default(
        seconds=300,
        kinds=_IDLE,
        product="privoxy",
        setting="socket-timeout",
        cure="socket-timeout 3600",
        source="/etc/privoxy/config, 3.0.34",
        verified=True,
        signs=("privoxy",),
    ),
    Default(
        seconds=300,
        kinds=(TimerKind.TOTAL,),
        product="Cloud Run, Vercel functions",
        setting="request timeout / maxDuration",
        cure="Cloud Run: --timeout=3600; Vercel: maxDuration = 800",
        source="users' reports (secondary), vercel.com/docs",
    ),
    Default(
        seconds=350,
        kinds=_IDLE,
        product="AWS Network Load Balancer, NAT gateway",
        setting="tcp.idle_timeout.seconds",
        cure="raise tcp.idle_timeout.seconds (60 to 6000), or use TCP keepalives: they count here",
        source="docs.aws.amazon.com, update-idle-timeout",
    ),
    Default(
        seconds=600,
        kinds=(TimerKind.TOTAL,),
        product="Varnish",
        setting="send_timeout",
        cure="varnishd -p send_timeout=0",
        source="varnishd -x parameter, 7.1",
        verified=True,
        signs=("varnish",),
    ),
    Default(
        seconds=900,
        kinds=_IDLE,
        product="Squid",
        setting="read_timeout",
        cure="read_timeout 1 hour",
        source="squid.conf.documented, 5.7",
        verified=True,
        signs=("squid",),
    ),
    Default(
        seconds=75,
        kinds=(TimerKind.KEPT,),
        product="nginx, and the reference server itself",
        setting="keepalive_timeout",
        cure="keepalive_timeout 650s;",
        source="ngx_http_core_module.c",
        verified=True,
        signs=("nginx",),
    ),
    Default(
        seconds=60,
        kinds=(TimerKind.KEPT,),
        product="AWS Application Load Balancer",
        setting="idle_timeout.timeout_seconds",
        cure="raise idle_timeout.timeout_seconds, or let clients drop idle connections earlier",
        source="docs.aws.amazon.com, edit-load-balancer-attributes",
    ),
    Default(
        seconds=5,
        kinds=(TimerKind.KEPT,),
        product="Varnish",
        setting="timeout_idle",
        cure="varnishd -p timeout_idle=650",
        source="varnishd -x parameter, 7.1; measured 5.00 s",
        verified=True,
        signs=("varnish",),
    ),
    Default(
        seconds=5,
        kinds=(TimerKind.KEPT,),
        product="Apache httpd, uvicorn, Node.js",
        setting="KeepAliveTimeout / --timeout-keep-alive / server.keepAliveTimeout",
        cure="raise it above the idle timeout of the box in front",
        source="httpd, uvicorn and Node.js documentation",
        signs=("apache", "uvicorn"),
    ),
)
"""By product; docs/concepts/idle.md prints them."""


def matching(timer_ns: Ns, kind: TimerKind) -> tuple[Default, ...]:
    """The defaults of that kind that a timer measured at `timer_ns` may be, the nearest first."""
    found = [
        default
        for default in DEFAULTS
        if kind in default.kinds and _early_ns(default) <= timer_ns <= _late_ns(default)
    ]
    return tuple(sorted(found, key=lambda default: abs(default.seconds * NS_PER_S - timer_ns)))


def _early_ns(default: Default) -> Ns:
    return round(default.seconds * NS_PER_S) - EARLY_NS


def _late_ns(default: Default) -> Ns:
    return round(default.seconds * NS_PER_S) + LATE_NS
