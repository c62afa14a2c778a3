"""A delivery as the trace that a perfect client would have recorded."""

from __future__ import annotations

from promptpath.model.enums import EventKind
from promptpath.model.names import STREAM_ERROR, STREAM_FINISH, TLS_HELLO_RETRY
from promptpath.model.trace import Trace
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, ns
from tests.paths.describe import Description
from tests.paths.simulate import Delivery, Piece, deliver, round_trip_ms, upload_ms, way_up_ms


def record(description: Description) -> Trace:
    """Walk the described path in virtual time."""
    trip = _connect(description)
    delivery = deliver(description)
    zero_ns = trip.now_ns + ns(way_up_ms(description.hops))
    for piece in delivery.pieces:
        trip.now_ns = max(trip.now_ns, zero_ns + ns(piece.at_ms))
        _arrive(trip, piece, description)
    _close(trip, delivery, description)
    return trip.build()


def _connect(description: Description) -> TraceBuilder:
    client, hops = description.client, description.hops
    rtt_ms = round_trip_ms(hops)
    trip = TraceBuilder()
    trip.error_ns = round(client.error_us * 1000)
    trip.dns(client.dns_ms).tcp(max(rtt_ms, 0.05), rtt_ms=rtt_ms or 0.05, snd_mss_bytes=1460)
    trip.tls(rtt_ms * (2 if client.hello_retry else 1) + client.tls_compute_ms)
    if client.hello_retry:
        trip.fact(TLS_HELLO_RETRY, {"group": "secp384r1"})
    head_bytes = 300
    body_bytes = max(client.request_bytes - head_bytes, 0)
    return trip.request(upload_ms(client, hops), body_bytes=body_bytes)


def _arrive(trip: TraceBuilder, piece: Piece, description: Description) -> None:
    if piece.what == "head":
        headers = {**CLEAN_HEADERS, **description.server.headers}
        trip.head(0, status=description.server.status, headers=headers)
    elif isinstance(piece.what, EventKind):
        trip.event(
            piece.what,
            tokens=piece.tokens or None,
            chars=4 * piece.tokens,
            server_ms=piece.sent_ms,
        )


def _close(trip: TraceBuilder, delivery: Delivery, description: Description) -> None:
    server = description.server
    seen = {piece.what for piece in delivery.pieces}
    if EventKind.FINISH in seen and server.finish:
        trip.fact(STREAM_FINISH, server.finish)
    if EventKind.ERROR in seen:
        error = {"code": "internal", "type": "server_error", "message": "", "shape": "data-error"}
        trip.fact(STREAM_ERROR, error)
    trip.tcp_info("end", rcv_ooopack=delivery.out_of_order, data_segs_in=max(delivery.packets, 1))
    told = {name: getattr(server.reported, f"{name}_ms") for name in _SCOPES}
    if EventKind.FINISH in seen or EventKind.END in seen:
        trip.reports("final", **{scope: ms for scope, ms in told.items() if ms is not None})
    clean = delivery.close == "clean"
    marked = EventKind.END in seen
    trip.end(complete=clean, how="clean" if clean else delivery.close, marker_seen=marked)


_SCOPES = ("gateway", "tokenize", "queue", "prefill", "decode")
