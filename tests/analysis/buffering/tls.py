"""A trip over TLS whose records a box fills before it sends them."""

from __future__ import annotations

from collections.abc import Sequence

from promptpath.model.enums import EventKind, Layer, Stage
from promptpath.model.names import SPAN_HANDSHAKE
from tests.analysis.buffering.flow import Sent, held_until, one_by_one
from tests.analysis.build import CLEAN_HEADERS, TraceBuilder, ns

RECORD_OVERHEAD = 22


def tls_trip(record_bytes: int | None, sent: Sequence[Sent]) -> TraceBuilder:
    """Chunks of one event each, in records of `record_bytes`; None: a record an event."""
    flow = one_by_one(sent) if record_bytes is None else held_until(record_bytes, sent)
    trip = TraceBuilder()
    trip.tcp(1, rtt_ms=1)
    handshake = trip.span(Stage.TLS, SPAN_HANDSHAKE, 2)
    response = trip.request().log.spans[-1].id
    trip.head(1, headers=CLEAN_HEADERS)
    for delivery in flow.deliveries:
        trip.now_ns = max(trip.now_ns, ns(delivery.at_ms))
        stamp = trip.stamp()
        size = delivery.size + RECORD_OVERHEAD
        log = trip.log
        log.add_arrival(
            Layer.SEGMENT_READ, stamp, span=handshake, offset=0, size=size, segments=1, ooo=0
        )
        log.add_arrival(Layer.TLS_RECORD, stamp, span=handshake, offset=0, size=size)
        for index in delivery.events:
            size = sent[index].size
            log.add_arrival(Layer.HTTP_FRAME, stamp, span=response, offset=0, size=size)
        body = sum(sent[index].size for index in delivery.events)
        log.add_arrival(
            Layer.BODY, stamp, span=response, offset=0, size=body, pending=delivery.pending
        )
        for index in delivery.events:
            log.add_event(
                EventKind.TEXT, stamp, stamp, tokens=1, chars=4, size_bytes=sent[index].size
            )
    return trip.after(1).marker().end()
