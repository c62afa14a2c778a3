"""When our handshake flights left the machine and when the peer acknowledged them."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.probe.clock import RunClock
from promptpath.probe.link import Link
from promptpath.probe.tls_observer import HandshakeObserver


@dataclass(slots=True)
class _Flight:
    """A flight whose send stamps are not all known yet."""

    mark: str
    message: str
    wired: bool = False


class Flights:
    """Writes flights of handshake messages, each under a mark of its own, and records the send
    stamps as the kernel gives them: the ACK comes a round trip later."""

    def __init__(self, link: Link, observer: HandshakeObserver, prefix: str) -> None:
        self._link = link
        self._observer = observer
        self._prefix = prefix
        self._count = 0
        self._open: list[_Flight] = []

    def write(self, data: bytes, mark: str | None, clock: RunClock) -> None:
        """Write the observer's unsent messages. Where the caller's mark is on the same bytes (a key
        update ahead of a request) the send stamps stay the caller's."""
        name = mark
        if name is None:
            self._count += 1
            name = f"{self._prefix}flight-{self._count}"
        self._link.write(data, name)
        stamp = self._link.sent(name).written or clock.user_stamp()
        message = self._observer.written(stamp)
        if mark is None:
            self._open.append(_Flight(name, message))

    def note(self) -> None:
        """Record the send stamps that have become known since."""
        for flight in tuple(self._open):
            sent = self._link.sent(flight.mark)
            if sent.wire is not None and not flight.wired:
                flight.wired = True
                self._observer.flight(False, sent.wire, flight.message)
            if sent.acked is not None:
                self._observer.flight(True, sent.acked, flight.message)
                self._open.remove(flight)

    def forget(self) -> None:
        """The run is over: what is not known of its flights will not be asked for."""
        self._open.clear()
