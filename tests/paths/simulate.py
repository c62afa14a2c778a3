"""Virtual time: what the server sends, carried over every hop, as it reaches the client.

Pure arithmetic on ms; the dice of a lossy link are seeded. All instants are counted from the
arrival of the request at the server, until `deliver` has carried them to the client.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace

from promptpath.model.enums import EventKind
from tests.paths.describe import Client, Description, Hop, Server

MSS_BYTES = 1460
FIRST_WINDOW_BYTES = 10 * MSS_BYTES


@dataclass(frozen=True, slots=True)
class Piece:
    """Something on its way to the client."""

    at_ms: float
    what: EventKind | str
    """An event, or "head", "close"."""
    size: int
    tokens: int = 0
    sent_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """What reached the client, and how the connection ended there."""

    pieces: list[Piece]
    close: str
    """clean | fin | rst, as the client sees it."""
    packets: int
    out_of_order: int


def round_trip_ms(hops: list[Hop]) -> float:
    """To the TCP peer: the first proxy, or the server."""
    trip = 0.0
    for hop in hops:
        if hop.kind == "proxy":
            break
        trip += 2 * hop.delay_ms
    return trip


def upload_ms(client: Client, hops: list[Hop]) -> float:
    """First to last request byte on the wire: slow start's flights, and the slowest link."""
    flights = 1
    while FIRST_WINDOW_BYTES * (2**flights - 1) < client.request_bytes:
        flights += 1
    rates = [hop.rate_bytes_per_s for hop in hops if hop.rate_bytes_per_s]
    by_rate = 1000 * client.request_bytes / min(rates) if rates else 0.0
    return max((flights - 1) * round_trip_ms(hops), by_rate, 0.05)


def way_up_ms(hops: list[Hop]) -> float:
    """The last request byte's way to the server."""
    return sum(hop.delay_ms for hop in hops)


def serve(server: Server) -> tuple[list[Piece], str]:
    """What the server sends, and how it closes."""
    pieces = [Piece(server.headers_ms, "head", 300)]
    pieces += _keepalives(server)
    content = _content(server)
    stop = next((n for n in (server.fail_after, server.cut_after) if n is not None), None)
    pieces += content if stop is None else content[:stop]
    last_ms = pieces[-1].at_ms
    if server.fail_after is not None:
        pieces.append(Piece(last_ms, EventKind.ERROR, 120))
    elif server.cut_after is None:
        if server.finish:
            pieces.append(Piece(last_ms, EventKind.FINISH, 120))
        if server.marker:
            pieces.append(Piece(last_ms, EventKind.END, 14))
    pieces.append(Piece(last_ms, "close", 5))
    return pieces, server.close


def _keepalives(server: Server) -> list[Piece]:
    if not server.keepalive_ms:
        return []
    count = math.ceil((server.ttft_ms - server.headers_ms) / server.keepalive_ms) - 1
    return [
        Piece(server.headers_ms + (n + 1) * server.keepalive_ms, EventKind.COMMENT, 14)
        for n in range(count)
    ]


def _content(server: Server) -> list[Piece]:
    pieces: list[Piece] = []
    first = server.tokens_per_event
    for done in range(first, server.tokens + 1, first):
        paused = server.pause_after is not None and len(pieces) >= server.pause_after
        late_ms = server.pause_ms if paused else 0.0
        at_ms = server.ttft_ms + (done - first) * server.itl_ms + late_ms
        kind = EventKind.REASONING if done <= server.reasoning_tokens else EventKind.TEXT
        sent_ms = at_ms if server.stamps else None
        pieces.append(Piece(at_ms, kind, server.event_bytes, first, sent_ms))
    return pieces


def deliver(description: Description) -> Delivery:
    """The server's pieces after the last hop before the client."""
    pieces, close = serve(description.server)
    out_of_order = 0
    for hop in reversed(description.hops):
        if hop.kind == "proxy":
            pieces, close = _through_proxy(hop, pieces, close)
        else:
            pieces, overtaken = _over_link(hop, pieces)
            out_of_order += overtaken
    return Delivery(pieces, close, len(pieces), out_of_order)


def _over_link(hop: Hop, pieces: list[Piece]) -> tuple[list[Piece], int]:
    """A lost packet comes a round trip later; TCP delivers nothing behind it before."""
    dice = random.Random(hop.seed)
    arrived: list[Piece] = []
    free_ms, overtaken = 0.0, 0
    for piece in pieces:
        at_ms = piece.at_ms + hop.delay_ms
        if dice.random() < hop.loss:
            at_ms += 2 * hop.delay_ms
        elif at_ms < free_ms:
            overtaken += 1
        free_ms = max(free_ms, at_ms)
        arrived.append(replace(piece, at_ms=free_ms))
    return arrived, overtaken


def _through_proxy(hop: Hop, pieces: list[Piece], close: str) -> tuple[list[Piece], str]:
    pieces, close = _idle_cut(hop, pieces, close)
    if hop.buffer_bytes is not None or hop.timer_ms is not None:
        pieces = _buffered(hop, pieces)
    if hop.hold_one:
        pieces = _held_one(pieces)
    return pieces, close


def _idle_cut(hop: Hop, pieces: list[Piece], close: str) -> tuple[list[Piece], str]:
    if hop.idle_cut_ms is None:
        return pieces, close
    for index in range(1, len(pieces)):
        before = pieces[index - 1].at_ms
        if pieces[index].at_ms - before > hop.idle_cut_ms:
            return [*pieces[:index], Piece(before + hop.idle_cut_ms, "close", 0)], "fin"
    return pieces, close


def _buffered(hop: Hop, pieces: list[Piece]) -> list[Piece]:
    """Held until the buffer is full, the timer fires or the stream ends; the head goes on at
    once."""
    sent: list[Piece] = []
    held: list[Piece] = []

    def flush(at_ms: float) -> None:
        sent.extend(replace(piece, at_ms=at_ms) for piece in held)
        held.clear()

    for piece in pieces:
        if hop.timer_ms is not None and held and piece.at_ms > held[0].at_ms + hop.timer_ms:
            flush(held[0].at_ms + hop.timer_ms)
        if piece.what == "head":
            sent.append(piece)
            continue
        held.append(piece)
        full = hop.buffer_bytes is not None and sum(p.size for p in held) >= hop.buffer_bytes
        if full or piece.what == "close":
            flush(piece.at_ms)
    return sent


def _held_one(pieces: list[Piece]) -> list[Piece]:
    """Each event leaves when the next one comes; head and end do not wait."""
    sent: list[Piece] = []
    for index, piece in enumerate(pieces):
        following = pieces[index + 1].at_ms if index + 1 < len(pieces) else piece.at_ms
        waits = isinstance(piece.what, EventKind)
        sent.append(replace(piece, at_ms=following if waits else piece.at_ms))
    return sent
