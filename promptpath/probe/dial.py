"""From addresses to a connection: happy eyeballs (RFC 8305), every attempt a span of its own.

Families alternate, the first address's family first; an attempt starts 250 ms after the one
before, or at once when that one failed; the first connection established wins and the rest are
cancelled. The kernel times the SYN exchange (`tcpi_rtt`): the connection stood that long after our
SYN left, and when we came to see it is our own affair (measured: 0.1 to 0.3 ms later over a 40 ms
path, up to 1 ms on a loopback whose server woke up on our core). Where the kernel does not say, it
is the instant at which we saw the socket become writable.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    SPAN_CONNECT,
    SPAN_DIAL,
    SPAN_PROXY_DIAL,
    TCP_INFO,
    TCP_LOCAL,
    TCP_PEER,
    TCP_RTT,
)
from promptpath.model.units import NS_PER_MS, NS_PER_US, Ns, format_duration
from promptpath.probe.recorder import Recorder
from promptpath.probe.sockets import bind, prepare, socket_address
from promptpath.probe.tcp import TcpLink
from promptpath.probe.tcp_info import read_info
from promptpath.probe.waiting import Signal

ATTEMPT_DELAY_NS = 250 * NS_PER_MS
"""RFC 8305, section 5: the recommended Connection Attempt Delay."""


async def dial(
    recorder: Recorder,
    addresses: Sequence[tuple[str, int]],
    *,
    deadline_ns: Ns,
    source: str | None = None,
    interface: str | None = None,
    parent: int | None = None,
    stage: Stage = Stage.TCP,
) -> TcpLink:
    """A connection to the first of the (address, port) pairs that answers.

    Addresses are IP literals in order of preference. Raises MeasureError with code no-address |
    refused | unreachable | connect-timeout | reset | denied | source-address | interface |
    connect-failed; with several addresses the first one's code, and all of them named.
    """
    name = SPAN_PROXY_DIAL if stage is Stage.PROXY else SPAN_DIAL
    with recorder.span(stage, name, parent=parent) as span:
        race = _Race(recorder, deadline_ns, source, interface, span, stage)
        try:
            winner = await race.run(interleave(addresses))
            recorder.log.set_conn(span, winner.conn)
            recorder.end(span, winner.end_ns)
            link = _link(recorder, winner, stage)
            race.taken = True
            return link
        finally:
            race.close()


def interleave(addresses: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """RFC 8305, section 4: alternate the families, keeping the order within each and the first one
    first."""
    by_family: dict[bool, deque[tuple[str, int]]] = {}
    for address in addresses:
        by_family.setdefault(":" in address[0], deque()).append(address)
    order = []
    while any(by_family.values()):
        order += [queue.popleft() for queue in by_family.values() if queue]
    return order


@dataclass(slots=True)
class _Attempt:
    """One SYN and what came of it."""

    address: str
    port: int
    conn: int
    sock: socket.socket | None = None
    span: int = 0
    start_ns: Ns = 0
    end_ns: Ns = 0
    error: OSError | None = None
    info: dict[str, int] | None = None
    """TCP_INFO at the instant of connecting."""

    @property
    def where(self) -> str:
        return f"[{self.address}]:{self.port}" if ":" in self.address else self._plain

    @property
    def _plain(self) -> str:
        return f"{self.address}:{self.port}"


class _Race:
    """The attempts of one dial."""

    def __init__(
        self,
        recorder: Recorder,
        deadline_ns: Ns,
        source: str | None,
        interface: str | None,
        span: int,
        stage: Stage,
    ) -> None:
        self._recorder = recorder
        self._deadline_ns = deadline_ns
        self._source = source
        self._interface = interface
        self._span = span
        self._stage = stage
        self._loop = asyncio.get_running_loop()
        self._settled = Signal()
        self._open: list[_Attempt] = []
        self._failed: list[_Attempt] = []
        self._winner: _Attempt | None = None
        self.taken = False
        """Whether somebody else now closes the winner's socket."""
        self._next_ns: Ns = 0

    async def run(self, order: list[tuple[str, int]]) -> _Attempt:
        """The first attempt established. Raises MeasureError."""
        started_ns = self._recorder.now_ns()
        left = deque(order)
        while self._winner is None:
            now_ns = self._recorder.now_ns()
            if now_ns >= self._deadline_ns:
                raise self._timed_out(now_ns - started_ns)
            if left and (not self._open or now_ns >= self._next_ns):
                self._begin(*left.popleft())
                self._next_ns = now_ns + ATTEMPT_DELAY_NS
            elif self._open:
                await self._wait(min(self._deadline_ns, self._next_ns) if left else None)
            else:
                raise self._failure()
        return self._winner

    async def _wait(self, until_ns: Ns | None) -> None:
        seconds = self._recorder.clock.seconds_until(until_ns or self._deadline_ns)
        try:
            async with asyncio.timeout(seconds):
                await self._settled.wait()
        except TimeoutError:
            return

    def _begin(self, address: str, port: int) -> None:
        recorder = self._recorder
        attempt = _Attempt(address, port, recorder.new_conn())
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        failed: OSError | None = None
        try:
            attempt.sock = socket.socket(family, socket.SOCK_STREAM)
            prepare(attempt.sock, stamps=recorder.clock.support.rx_stamps)
            bind(attempt.sock, self._source, self._interface)
            target = socket_address(address, port)
        except OSError as error:
            failed = error
        attempt.span = recorder.start(
            self._stage, SPAN_CONNECT, parent=self._span, conn=attempt.conn
        )
        attempt.start_ns = recorder.now_ns()
        if failed is not None or attempt.sock is None:
            self._lose(attempt, failed or OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
            return
        result = attempt.sock.connect_ex(target)
        if result == errno.EINPROGRESS:
            # A near peer answers within the call: asking again tells at once, the loop 0.1 ms late.
            result = attempt.sock.connect_ex(target)
        self._open.append(attempt)
        if result in (errno.EALREADY, errno.EINPROGRESS):
            self._loop.add_writer(attempt.sock.fileno(), partial(self._on_writable, attempt))
        else:
            self._settle(attempt, 0 if result == errno.EISCONN else result)

    def _on_writable(self, attempt: _Attempt) -> None:
        if attempt.sock is None:
            return
        self._loop.remove_writer(attempt.sock.fileno())
        self._settle(attempt, attempt.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _settle(self, attempt: _Attempt, result: int) -> None:
        attempt.end_ns = self._recorder.now_ns()
        self._open.remove(attempt)
        if result:
            self._lose(attempt, OSError(result, os.strerror(result)))
        elif self._winner is None:
            self._winner = attempt
            if attempt.sock is not None:
                attempt.info = read_info(attempt.sock)
            attempt.end_ns = _established_ns(attempt)
            self._recorder.end(attempt.span, attempt.end_ns)
        else:
            self._drop(attempt, Outcome.CANCELLED, "established second")
        self._settled.wake()

    def _lose(self, attempt: _Attempt, error: OSError) -> None:
        attempt.error = error
        self._failed.append(attempt)
        self._next_ns = 0
        code, what = explain_errno(error, self._source, self._interface)
        outcome = Outcome.TIMED_OUT if code == "connect-timeout" else Outcome.FAILED
        self._drop(attempt, outcome, f"{attempt.where}: {what}")

    def _drop(self, attempt: _Attempt, outcome: Outcome, error: str) -> None:
        self._recorder.fail(attempt.span, outcome, error)
        if attempt.sock is not None:
            attempt.sock.close()
            attempt.sock = None

    def close(self) -> None:
        """Cancel what is still open, and close the winner's socket if nobody took it."""
        if self._winner is not None and self._winner.sock is not None and not self.taken:
            self._winner.sock.close()
        late = self._recorder.now_ns() >= self._deadline_ns
        while self._open:
            attempt = self._open.pop()
            if attempt.sock is not None:
                self._loop.remove_writer(attempt.sock.fileno())
            if self._winner is None and late:
                self._drop(attempt, Outcome.TIMED_OUT, f"{attempt.where}: no answer")
            else:
                self._drop(attempt, Outcome.CANCELLED, f"{attempt.where}: another one won")

    def _timed_out(self, waited_ns: Ns) -> MeasureError:
        tried = [attempt.where for attempt in (*self._failed, *self._open)]
        return MeasureError(
            f"no connection within {format_duration(waited_ns)}",
            stage=self._stage.value,
            code="connect-timeout",
            expected="a SYN-ACK",
            where=", ".join([self._stage.value, *tried]),
            hint="a firewall may drop the packets silently; check the address and the port,"
            " or raise --connect-timeout",
        )

    def _failure(self) -> MeasureError:
        if not self._failed:
            return MeasureError(
                "there is no address to connect to",
                stage=self._stage.value,
                code="no-address",
                expected="at least one address",
                hint="check -4, -6 and --resolve",
            )
        reasons = [
            (attempt.where, *explain_errno(attempt.error, self._source, self._interface))
            for attempt in self._failed
            if attempt.error is not None
        ]
        _, code, what = reasons[0]
        return MeasureError(
            what if len(reasons) == 1 else f"none of {len(reasons)} addresses answered: {what}",
            stage=self._stage.value,
            code=code,
            expected="a SYN-ACK",
            where=f"{self._stage.value}, "
            + "; ".join(f"{where}: {why}" for where, _, why in reasons),
            hint=_HINTS.get(code),
        )


_HINTS = {
    "refused": "nothing listens on that port, or a firewall rejects it; check host and port",
    "unreachable": "no route from here; check the network, or try -4 or -6",
    "connect-timeout": "a firewall may drop the packets silently; check the address and the port",
    "reset": "a box in the path or the server answered the SYN with a reset",
    "denied": "a local firewall or policy forbids it",
    "source-address": "--source needs an address of this machine, of the target's family",
    "interface": "--interface needs the name of an interface of this machine (ip link)",
}


def explain_errno(error: OSError, source: str | None, interface: str | None) -> tuple[str, str]:
    """A connection error as (code, what happened)."""
    number = error.errno or 0
    match number:
        case errno.ECONNREFUSED:
            return "refused", "connection refused"
        case errno.ENETUNREACH | errno.EHOSTUNREACH | errno.EAFNOSUPPORT | errno.ENETDOWN:
            return "unreachable", os.strerror(number).lower()
        case errno.ETIMEDOUT:
            return "connect-timeout", "no answer"
        case errno.ECONNRESET:
            return "reset", "connection reset"
        case errno.ENODEV if interface:
            return "interface", f"no interface {interface}"
        case errno.EADDRNOTAVAIL | errno.EINVAL if source:
            return "source-address", f"cannot send from {source}"
        case errno.EADDRNOTAVAIL:
            return "unreachable", "no local address to send from"
        case errno.EACCES | errno.EPERM:
            return "denied", os.strerror(number).lower()
        case _:
            return "connect-failed", os.strerror(number).lower() if number else str(error)


def _established_ns(attempt: _Attempt) -> Ns:
    """When the SYN-ACK came. A SYN that was sent again gives no sample (Karn's algorithm, RFC 6298
    section 3), and none can be later than the instant at which we saw it."""
    info = attempt.info or {}
    rtt_ns = info.get("rtt_us", 0) * NS_PER_US
    if not rtt_ns or info.get("total_retrans"):
        return attempt.end_ns
    return min(attempt.start_ns + rtt_ns, attempt.end_ns)


def _link(recorder: Recorder, winner: _Attempt, stage: Stage) -> TcpLink:
    sock = winner.sock
    if sock is None:
        raise AssertionError("a winner without a socket")
    link = TcpLink(
        sock,
        recorder,
        conn=winner.conn,
        since_ns=winner.start_ns,
        span=winner.span,
        stage=stage,
    )
    if stage is Stage.DNS:
        # The resolver is nobody's peer: these facts are about the trip.
        return link
    family = "ipv6" if sock.family == socket.AF_INET6 else "ipv4"
    recorder.observed(
        TCP_PEER, {"address": winner.address, "port": winner.port, "family": family}, winner.span
    )
    local = sock.getsockname()
    recorder.observed(TCP_LOCAL, {"address": local[0], "port": local[1]}, winner.span)
    info = winner.info
    if info is not None:
        rtt = {"rtt_ns": info["rtt_us"] * NS_PER_US, "rttvar_ns": info["rttvar_us"] * NS_PER_US}
        recorder.observed(TCP_RTT, rtt, winner.span)
        recorder.observed(TCP_INFO, {"when": "connected", "conn": winner.conn, **info}, winner.span)
    return link
