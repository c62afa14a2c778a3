"""Addresses to dial: from the URL itself, --resolve, --resolver, or the system (getaddrinfo,
timed).

The system's answer is what every other program on this machine gets, so it gives the DNS hop's
time; what a resolver says in detail is asked afterwards, off the critical path (`probe.dns`).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from pathlib import Path
from typing import Any

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import DNS_ADDRESSES, DNS_HOST, DNS_SOURCE, SPAN_RESOLVE
from promptpath.model.plan import Family, Plan
from promptpath.model.units import Ns, format_duration
from promptpath.probe.recorder import Recorder

HOSTS_FILE = Path("/etc/hosts")
_FAMILIES = {
    Family.ANY: socket.AF_UNSPEC,
    Family.IPV4: socket.AF_INET,
    Family.IPV6: socket.AF_INET6,
}
_GAI_CODES = {
    socket.EAI_NONAME: "no-such-name",
    getattr(socket, "EAI_NODATA", -5): "no-address",
    socket.EAI_AGAIN: "resolver-failed",
    socket.EAI_FAIL: "resolver-failed",
}


async def resolve(recorder: Recorder, plan: Plan, host: str, port: int) -> tuple[str, ...]:
    """The addresses of `host`, in the order to dial them, recorded as the dns span.

    Raises MeasureError (stage dns: no-such-name, no-address, resolver-failed, resolver-timeout,
    resolver-refused, bad-name).
    """
    span = recorder.start(Stage.DNS, SPAN_RESOLVE)
    recorder.observed(DNS_HOST, host, span)
    deadline_ns = recorder.now_ns() + plan.limits.connect_ns
    try:
        source, addresses = await _resolve(recorder, plan, host, port, span, deadline_ns)
    except MeasureError as error:
        timed_out = error.code == "resolver-timeout"
        recorder.fail(span, Outcome.TIMED_OUT if timed_out else Outcome.FAILED, error.what)
        raise
    except asyncio.CancelledError:
        recorder.fail(span, Outcome.CANCELLED, "interrupted")
        raise
    recorder.end(span)
    recorder.observed(DNS_SOURCE, source, span)
    recorder.observed(DNS_ADDRESSES, list(addresses), span)
    return addresses


async def _resolve(
    recorder: Recorder, plan: Plan, host: str, port: int, span: int, deadline_ns: Ns
) -> tuple[str, tuple[str, ...]]:
    for override in plan.overrides:
        if override.host.lower() == host.lower() and override.port == port:
            return "override", _of_family([override.address], plan.family, host)
    literal = _literal(host)
    if literal is not None:
        return "literal", _of_family([literal], plan.family, host)
    if plan.resolver is not None:
        # Only with --resolver are our own queries on the critical path; the codec is heavy to load.
        from promptpath.probe.dns import resolve_by_query

        addresses = await resolve_by_query(
            recorder, plan.resolver, host, plan.family, parent=span, deadline_ns=deadline_ns
        )
        return "resolver", addresses
    addresses = await _system(recorder, host, port, plan.family, deadline_ns)
    return ("hosts" if set(addresses) <= _hosts_file(host) else "system"), addresses


def _literal(host: str) -> str | None:
    try:
        return str(ipaddress.ip_address(host.partition("%")[0])) and host
    except ValueError:
        return None


def _of_family(addresses: list[str], family: Family, host: str) -> tuple[str, ...]:
    wanted = {Family.IPV4: 4, Family.IPV6: 6}.get(family)
    kept = tuple(
        address
        for address in addresses
        if wanted in (None, ipaddress.ip_address(address.partition("%")[0]).version)
    )
    if not kept:
        raise no_address(host, family)
    return kept


def no_address(host: str, family: Family) -> MeasureError:
    """The error for a name that exists without an address of the family asked for."""
    kind = "" if family is Family.ANY else f" {family.value}"
    return MeasureError(
        f"{host} has no{kind} address",
        stage=Stage.DNS.value,
        code="no-address",
        expected=f"at least one{kind} address",
        where=f"dns, name {host}",
        hint="leave out -4 and -6" if kind else "check the name's A and AAAA records",
    )


async def _system(
    recorder: Recorder, host: str, port: int, family: Family, deadline_ns: Ns
) -> tuple[str, ...]:
    future = _getaddrinfo(host, port, _FAMILIES[family])
    seconds = max(0.001, (deadline_ns - recorder.now_ns()) / 1e9)
    started_ns = recorder.now_ns()
    try:
        found = await asyncio.wait_for(future, seconds)
    except TimeoutError as error:
        waited = format_duration(recorder.now_ns() - started_ns)
        raise MeasureError(
            f"the system's resolver did not answer within {waited}",
            stage=Stage.DNS.value,
            code="resolver-timeout",
            expected=f"addresses of {host}",
            where=f"dns, name {host}",
            hint="check the nameserver in /etc/resolv.conf, or try --resolver ADDR",
        ) from error
    except UnicodeError as error:
        raise MeasureError(
            f"not a DNS name: {host}",
            stage=Stage.DNS.value,
            code="bad-name",
            expected="labels of 1 to 63 characters (RFC 1035, 2.3.4)",
            where="dns",
            hint="check the URL's host",
        ) from error
    except socket.gaierror as error:
        raise _gai_error(host, family, error) from error
    addresses = tuple(dict.fromkeys(str(item[4][0]) for item in found))
    if not addresses:
        raise no_address(host, family)
    return addresses


def _gai_error(host: str, family: Family, error: socket.gaierror) -> MeasureError:
    code = _GAI_CODES.get(error.errno, "resolver-failed")
    if code == "no-address":
        return no_address(host, family)
    what = {
        "no-such-name": f"the name {host} does not resolve",
        "resolver-failed": f"the system's resolver failed for {host}",
    }[code]
    # A name of the hosts file alone: without an address of the family it is unknown to getaddrinfo.
    other = "" if family is Family.ANY else "; leave out -4 / -6 if it has the other family only"
    return MeasureError(
        f"{what} ({error.strerror})",
        stage=Stage.DNS.value,
        code=code,
        expected=f"addresses of {host}",
        where=f"dns, name {host}",
        hint=f"check the spelling and the nameserver; --resolver ADDR asks another one{other}",
    )


def _getaddrinfo(
    host: str, port: int, family: socket.AddressFamily
) -> asyncio.Future[list[tuple[Any, ...]]]:
    """getaddrinfo in a daemon thread: it cannot be cancelled, and an executor's thread would keep
    the process alive until a dead resolver's time-out."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[tuple[Any, ...]]] = loop.create_future()

    def settle(result: list[tuple[Any, ...]] | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result or [])

    def work() -> None:
        result: list[tuple[Any, ...]] | None = None
        error: BaseException | None = None
        try:
            result = list(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM))
        except (OSError, UnicodeError) as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The loop was closed meanwhile: nobody waits for this answer any more.
            return

    threading.Thread(target=work, name="getaddrinfo", daemon=True).start()
    return future


def _hosts_file(host: str) -> set[str]:
    """Addresses that the hosts file gives this name (hosts(5)); empty when it is unreadable."""
    try:
        lines = HOSTS_FILE.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    found = set()
    for line in lines:
        address, *names = line.partition("#")[0].split() or [""]
        if host.lower() in (name.lower() for name in names):
            found.add(address)
    return found
