"""What this machine can measure and how well, for `promptpath doctor`: tried out on loopback, not
looked up.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.model.enums import Clock
from promptpath.model.units import NS_PER_MS, Ns, format_duration
from promptpath.probe import tcp_info
from promptpath.probe.clock import RunClock
from promptpath.probe.dial import dial
from promptpath.probe.link import Chunk
from promptpath.probe.recorder import Recorder
from promptpath.probe.sockets import bind
from promptpath.probe.tcp import TcpLink

SEGMENTS = 100
"""Enough for a p99 that is the second worst."""
SPACING_MS = 2
"""Between two of them: 200 ms in all."""
_PATIENCE_NS = 5_000 * NS_PER_MS
_NO_ROUTE_NEEDED = {
    "IPv4": (socket.AF_INET, "192.0.2.1"),
    "IPv6": (socket.AF_INET6, "2001:db8::1"),
}
"""Documentation addresses (RFC 5737, RFC 3849): a connected UDP socket asks for a route and sends
nothing."""


@dataclass(frozen=True, slots=True)
class Ability:
    """One thing a measurement stands on."""

    name: str
    works: bool
    detail: str
    """How well it works here, or what is worse without it."""


@dataclass(frozen=True, slots=True)
class ReadDelay:
    """How late this process learns of bytes: what the user clock adds to each arrival."""

    median_ns: Ns
    p99_ns: Ns
    certified: int
    """Segments whose stamp was certified exact."""
    segments: int


@dataclass(frozen=True, slots=True)
class Examination:
    """What `examine` found."""

    abilities: tuple[Ability, ...]
    clock: Clock
    """The clock arrivals are stamped with."""
    error_ns: Ns | None
    """Error of a certified stamp (the clock mapping); None on the user clock."""
    read_delay: ReadDelay | None
    """None where loopback gives no kernel stamp to compare with."""


async def examine(clock: RunClock | None = None) -> Examination:
    """Try out everything; takes about a quarter of a second, sends nothing to the network."""
    clock = clock or RunClock.start()
    delay = await _read_delay(Recorder(clock))
    info = clock.info()
    return Examination(
        abilities=(*_kernel_abilities(clock, delay), *_network_abilities()),
        clock=info.source,
        error_ns=info.mapping_error_ns,
        read_delay=delay,
    )


def _kernel_abilities(clock: RunClock, delay: ReadDelay | None) -> list[Ability]:
    support, error_ns = clock.support, clock.info().mapping_error_ns
    certified = "no stamp to certify" if delay is None else f"{delay.certified}/{delay.segments}"
    fields = _info_fields()
    return [
        Ability(
            "kernel receive stamps",
            support.rx_stamps,
            f"arrivals known to {format_duration(error_ns or 0)}"
            if support.rx_stamps
            else "arrivals are known only when this process reads them: 0.1 ms late when idle,"
            " tens of ms when busy",
        ),
        Ability(
            "certified exactness",
            support.rx_stamps and support.segment_counter,
            f"{certified} segments on loopback certified"
            if support.segment_counter
            else "no stamp can be certified: every arrival is an interval",
        ),
        Ability(
            "certificates after loss",
            support.queue_memory,
            "come back when the out-of-order queue is empty"
            if support.queue_memory
            else "after the first out-of-order segment no stamp is certified",
        ),
        Ability(
            "kernel send stamps",
            support.tx_stamps,
            "upload is told apart from server time"
            if support.tx_stamps
            else "upload and server time are one: only the hand-over to the kernel is known",
        ),
        Ability(
            "TCP_INFO",
            fields > 0,
            f"{fields} of {len(tcp_info.FIELDS)} fields"
            if fields
            else "no round-trip time, loss or window of the kernel's own",
        ),
    ]


def _info_fields() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        return len(tcp_info.read_info(sock) or {})


def _network_abilities() -> list[Ability]:
    abilities = []
    for name, (family, address) in _NO_ROUTE_NEEDED.items():
        works = _has_route(family, address)
        abilities.append(
            Ability(f"{name} route", works, "there is one" if works else "no default route")
        )
    works = _may_choose_interface()
    detail = "may be used" if works else "this user may not bind to an interface"
    return [*abilities, Ability("--interface", works, detail)]


def _has_route(family: int, address: str) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))
    except OSError:
        return False
    return True


def _may_choose_interface() -> bool:
    names = [name for _, name in socket.if_nameindex()]
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            bind(sock, None, names[0] if names else "lo")
    except OSError:
        return False
    return True


async def _read_delay(recorder: Recorder) -> ReadDelay | None:
    """Segments one by one from a thread, as a peer would send them."""
    if not recorder.clock.support.rx_stamps:
        return None
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        deadline_ns = recorder.clock.deadline(_PATIENCE_NS)
        link = await dial(recorder, [listener.getsockname()], deadline_ns=deadline_ns)
        peer = stack.enter_context(listener.accept()[0])
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sender = threading.Thread(target=_send_spaced, args=(peer,), daemon=True)
        sender.start()
        try:
            delays, certified = await _receive_spaced(link, recorder.clock, deadline_ns)
        except TimeoutError:
            return None
        finally:
            await link.close()
            await asyncio.to_thread(sender.join)
    if not delays:
        return None
    return ReadDelay(
        median_ns=_quantile(delays, 0.5),
        p99_ns=_quantile(delays, 0.99),
        certified=certified,
        segments=SEGMENTS,
    )


def _send_spaced(peer: socket.socket) -> None:
    with contextlib.suppress(OSError):
        for _ in range(SEGMENTS):
            select.select([], [], [], SPACING_MS / 1000)
            peer.send(b"x")


async def _receive_spaced(link: TcpLink, clock: RunClock, deadline_ns: Ns) -> tuple[list[Ns], int]:
    delays: list[Ns] = []
    certified = received = 0
    while received < SEGMENTS:
        items = await link.receive(deadline_ns)
        now_ns = clock.now_ns()
        for item in items:
            if not isinstance(item, Chunk):
                return delays, certified
            received += len(item.data)
            certified += item.stamp.exact
            delays.append(now_ns - item.stamp.at_ns)
    return delays, certified


def _quantile(values: Sequence[Ns], share: float) -> Ns:
    """Nearest rank of at least one value."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
