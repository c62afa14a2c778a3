"""0-RTT: which requests may come in early data, and tickets that can be used once (RFC 8470)."""

from __future__ import annotations

from collections import OrderedDict

from aioquic.tls import SessionTicket

_SAFE_METHODS = frozenset({b"GET", b"HEAD"})
_SAFE_PATHS = frozenset(
    {b"/", b"/healthz", b"/metrics", b"/v1/models", b"/promptpath/clock", b"/promptpath/calibrate"}
)
"""What may be answered although somebody could have replayed it: it changes nothing and costs
little. `/promptpath/silence` holds a stream for long, so it is not among them."""
_MAX_TICKETS = 10_000
"""Kept in memory, some 1 KiB each; the oldest go first. A choice."""


def may_be_early(method: bytes, target: bytes) -> bool:
    """Whether a request may be answered before the handshake is complete; else it is a 425."""
    return method in _SAFE_METHODS and target.partition(b"?")[0] in _SAFE_PATHS


class Tickets:
    """Session tickets that this process gave out. Each is good for one connection, so that early
    data cannot be replayed to this server at all (RFC 8446 section 8.1)."""

    def __init__(self) -> None:
        self._tickets: OrderedDict[bytes, SessionTicket] = OrderedDict()

    def add(self, ticket: SessionTicket) -> None:
        """Keep one that goes out."""
        self._tickets[ticket.ticket] = ticket
        if len(self._tickets) > _MAX_TICKETS:
            self._tickets.popitem(last=False)

    def take(self, identity: bytes) -> SessionTicket | None:
        """The ticket a client presents; None when unknown or used before."""
        return self._tickets.pop(identity, None)
