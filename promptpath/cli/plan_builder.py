"""What was typed -> Plan: all of it is checked here, before t0: no run fails for a typo."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from promptpath.cli.curl import CurlRequest, parse_curl
from promptpath.cli.keys import Key, choose_key, withheld_key
from promptpath.cli.model_list import choose_model
from promptpath.cli.options import TraceOptions
from promptpath.cli.proxies import choose_proxy
from promptpath.cli.request import ask, choose_request
from promptpath.errors import UsageError
from promptpath.model.plan import (
    Budgets,
    Family,
    HttpChoice,
    Limits,
    Override,
    Plan,
    ProxyPlan,
    Target,
)
from promptpath.model.units import parse_duration_ns, parse_size_bytes
from promptpath.model.urls import ip_literal, is_loopback, normal_host, parse_host_port, parse_url

Headers = tuple[tuple[str, str], ...]
_DNS_PORT = 53
"""RFC 1035, 4.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan, the key it may send, and what a person should know before it runs."""

    plan: Plan
    key: Key | None = field(default=None, repr=False)
    notices: tuple[str, ...] = ()


def prepare(options: TraceOptions, environ: Mapping[str, str] = os.environ) -> Prepared:
    """The plan for these options. Raises UsageError for anything wrong; opens no socket."""
    options, curl = _with_curl(options, environ)
    if options.url is None:
        raise UsageError("no URL", hint="promptpath trace https://...")
    target = parse_url(options.url)
    plan = _dial_plan(options, target, environ)
    headers = _checked((*curl.headers, *_headers(options.header or [])))
    if encodings := [value for name, value in headers if name == "accept-encoding"]:
        plan = replace(plan, accept_encoding=", ".join(encodings))
        headers = tuple(pair for pair in headers if pair[0] != "accept-encoding")
    request = choose_request(plan, options, curl, headers)
    key = choose_key(target, request.dialect, options.key_env, headers, environ)
    plan = replace(request.plan, headers=_merge(request.plan.headers, key.headers if key else ()))
    plan, model_notices = choose_model(plan, request.dialect)
    plan = ask(plan, request.dialect)
    notices = [*request.notices, *model_notices]
    withheld = withheld_key(target, request.dialect, environ) if key is None else None
    if withheld and not is_loopback(target.host):
        notices.append(
            f"{withheld} is not sent to {target.host}: name it with --key-env {withheld}"
        )
    if key and target.scheme == "http" and not is_loopback(target.host):
        notices.append("the key goes over the network in clear text (http)")
    return Prepared(plan=plan, key=key, notices=tuple(notices))


def _with_curl(
    options: TraceOptions, environ: Mapping[str, str]
) -> tuple[TraceOptions, CurlRequest]:
    """Options with what a pasted curl command says; this program's own options win over it."""
    if options.curl is None:
        return options, CurlRequest()
    if options.url is not None or options.data is not None:
        raise UsageError("--curl brings its own URL and body", expected="no URL and no --data")
    curl = parse_curl(options.curl, environ)
    merged = replace(
        options,
        url=curl.url,
        http=curl.http or options.http if options.http == "auto" else options.http,
        ipv4=options.ipv4 or curl.ipv4,
        ipv6=options.ipv6 or curl.ipv6,
        insecure=options.insecure or curl.insecure,
        proxy=curl.proxy or "env" if options.proxy == "env" else options.proxy,
        cacert=options.cacert or curl.cacert,
        interface=options.interface or curl.interface,
        resolve=[*(options.resolve or []), *curl.resolve] or None,
        timeout=options.timeout or curl.timeout,
        connect_timeout=options.connect_timeout or curl.connect_timeout,
        accept_encoding=curl.accept_encoding or options.accept_encoding,
    )
    return merged, curl


def _dial_plan(options: TraceOptions, target: Target, environ: Mapping[str, str]) -> Plan:
    """The plan without its request."""
    proxy, bypassed = choose_proxy(options.proxy, target, environ)
    http = _http(options.http)
    if http in (HttpChoice.H3, HttpChoice.RACE):
        _check_quic(target, proxy)
    if options.early_data and http is not HttpChoice.H3:
        raise UsageError(
            "early data is tried over QUIC only",
            expected="--http 3",
            where="--early-data",
            hint="over TCP the finding PP308 says whether the server offers it",
        )
    return Plan(
        target=target,
        model=options.model,
        max_tokens=options.max_tokens,
        accept_encoding=options.accept_encoding,
        http=http,
        family=_family(options, target),
        overrides=tuple(parse_override(text) for text in options.resolve or []),
        resolver=parse_host_port(options.resolver, _DNS_PORT) if options.resolver else None,
        proxy=proxy,
        proxy_bypassed=bypassed,
        source_address=ip_literal(options.source) if options.source else None,
        interface=options.interface,
        ca_file=_readable(options.cacert, "--cacert") if options.cacert else None,
        insecure=options.insecure,
        sni=normal_host(options.sni) if options.sni else options.sni,
        keylog_file=_appendable(options.keylog) if options.keylog else None,
        limits=_limits(options),
        budgets=Budgets(
            ttft_ns=_duration(options.budget_ttft, "--budget-ttft"),
            total_ns=_duration(options.budget_total, "--budget-total"),
            itl_p99_ns=_duration(options.budget_itl_p99, "--budget-itl-p99"),
        ),
        repeat=options.repeat,
        warm=options.warm,
        early_data=options.early_data,
        keep_content=options.keep_content,
    )


def _http(text: str) -> HttpChoice:
    try:
        choice = HttpChoice(text.removesuffix(".0"))
    except ValueError as error:
        raise UsageError(f"unknown --http {text!r}", expected="auto, 1.1, 2, 3 or race") from error
    return choice


def _check_quic(target: Target, proxy: ProxyPlan | None) -> None:
    """HTTP/3 is https over UDP, and the proxies we speak to carry TCP."""
    if target.scheme != "https":
        raise UsageError(
            "HTTP/3 needs an https URL",
            expected="https://",
            where="--http",
            hint="QUIC has no clear text (RFC 9001); use --http 1.1 or 2 for http://",
        )
    if proxy is not None:
        raise UsageError(
            f"HTTP/3 cannot go through the {proxy.kind.value} proxy {proxy.host}:{proxy.port}",
            expected="a direct path over UDP",
            where="--http",
            hint="use --proxy none for a direct try, or --http auto through the proxy",
        )


def _family(options: TraceOptions, target: Target) -> Family:
    if options.ipv4 and options.ipv6:
        raise UsageError("-4 and -6 exclude one another", expected="one of them")
    literal_v6 = ":" in target.host
    if (options.ipv4 and literal_v6) or (options.ipv6 and target.host.replace(".", "").isdigit()):
        raise UsageError(f"{target.host} is of the other address family", hint="leave out -4 / -6")
    if options.ipv4:
        return Family.IPV4
    return Family.IPV6 if options.ipv6 else Family.ANY


def parse_override(text: str) -> Override:
    """HOST:PORT:ADDR as curl has it; ADDR may be in brackets. Raises UsageError."""
    host, _, rest = text.partition(":")
    port, _, address = rest.partition(":")
    if not host or not port.isdigit() or not 1 <= int(port) <= 65535 or not address:
        raise UsageError(
            f"bad --resolve {text!r}",
            expected="HOST:PORT:ADDR",
            hint="for example --resolve api.example.com:443:192.0.2.7",
        )
    literal = address.removeprefix("[").removesuffix("]")
    return Override(host=normal_host(host), port=int(port), address=ip_literal(literal))


def _limits(options: TraceOptions) -> Limits:
    defaults = Limits()
    return Limits(
        connect_ns=_duration(options.connect_timeout, "--connect-timeout") or defaults.connect_ns,
        first_token_ns=_duration(options.first_token_timeout, "--first-token-timeout"),
        idle_ns=_duration(options.idle_timeout, "--idle-timeout"),
        total_ns=_duration(options.timeout, "--timeout") or defaults.total_ns,
        max_bytes=parse_size_bytes(options.max_bytes) if options.max_bytes else defaults.max_bytes,
    )


def _duration(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return parse_duration_ns(text)
    except UsageError as error:
        raise UsageError(
            f"{option}: {error.what}", expected=error.expected, hint=error.hint
        ) from error


_OWN_HEADERS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "proxy-connection",
        "keep-alive",
        "upgrade",
        "te",
        "expect",
    }
)
"""Headers that are the HTTP connection's own business (RFC 9110, 7.6.1; RFC 9112, 6)."""


def _checked(headers: Headers) -> Headers:
    """The headers, none of which is the connection's own. Raises UsageError."""
    for name, _ in headers:
        if name == "host":
            raise UsageError(
                "a host header of your own",
                expected="the name in the URL",
                hint="reach another address under that name with --resolve HOST:PORT:ADDR",
            )
        if name in _OWN_HEADERS:
            raise UsageError(f"the header {name!r} is set by the connection", hint="leave it out")
    return headers


def _headers(texts: list[str]) -> Headers:
    pairs = []
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip().lower(), value.strip()
        # The value may be a key: it is never shown.
        if not colon or not is_token(name):
            raise UsageError("bad header in -H", expected="-H 'Name: value'")
        if any(ord(char) < 0x20 and char != "\t" for char in value) or not value.isascii():
            raise UsageError(f"bad value of header {name!r}", expected="printable ASCII")
        pairs.append((name, value))
    return tuple(pairs)


def is_token(text: str) -> bool:
    """Whether the text is a header name (RFC 9110, 5.6.2)."""
    return bool(text) and all(c.isascii() and (c.isalnum() or c in "!#$%&'*+-.^_`|~") for c in text)


def _merge(headers: Headers, key_headers: Headers) -> Headers:
    present = {name for name, _ in headers}
    return (*headers, *(pair for pair in key_headers if pair[0] not in present))


def _readable(name: str, option: str) -> str:
    try:
        with Path(name).open("rb"):
            return name
    except OSError as error:
        raise UsageError(
            f"cannot read {option} {name!r}: {error.strerror}", hint="check the path"
        ) from error


def _appendable(name: str) -> str:
    """The file of --keylog, made if need be: for its owner only, it opens the connection to a
    reader."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        return name
    except OSError as error:
        raise UsageError(
            f"cannot write --keylog {name!r}: {error.strerror}",
            hint="choose another place with --keylog FILE",
        ) from error
