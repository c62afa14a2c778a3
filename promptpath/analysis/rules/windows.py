"""PP2xx, what windows do: the congestion window's start, the upload, HTTP/2 flow control."""

from __future__ import annotations

from promptpath.analysis.cadence import PERCEIVED_NS
from promptpath.analysis.facts import tcp_counter, whole
from promptpath.analysis.rules.base import NO, Because, because
from promptpath.analysis.view import Measured
from promptpath.model.enums import Stage
from promptpath.model.names import HTTP_REQUEST, MARK_WINDOW_STALL, TCP_INFO
from promptpath.model.units import Ns, format_bytes, format_duration

NOTABLE_SHARE = 0.1
"""The smallest share worth a line to a person; what it is of is always shown beside it."""
INITIAL_WINDOW_SEGMENTS = 10
"""RFC 6928: ten segments may leave before the first ACK."""
SLOW_START_TRIPS = 5
"""Slow start doubles the window every round trip (RFC 5681, 3.1): after 5 it is 320 segments."""
CLEARLY_LONGER = 2
"""A wait that is told from the usual gap by its length."""
TOLERANCE = 0.8
"""A predicted wait counts from four fifths on: head and first frames took some of the window."""
DEFAULT_MSS_BYTES = 1460
"""Ethernet's 1,500 less 40 (RFC 9293, 3.7.1), where the kernel does not say."""


def upload_bound(measured: Measured) -> Because:
    """The upload is a notable part of the time to the first token, and more than one round trip."""
    legs = measured.breakdown.of(Stage.REQUEST)
    upload = sum(leg.duration_ns for leg in legs)
    sure = upload - sum(leg.error_ns for leg in legs)
    size, whole_ns = request_bytes(measured), measured.trip_ns
    matters = size > first_window_bytes(measured) or upload >= PERCEIVED_NS
    if (
        whole_ns <= 0
        or not matters
        or sure <= (measured.rtt_ns or 0)
        or upload < NOTABLE_SHARE * whole_ns
    ):
        return NO
    return because(
        f"the upload of {format_bytes(size)} took {format_duration(upload)},"
        f" {100 * upload / whole_ns:.0f} % of the time to the first token",
        facts=(HTTP_REQUEST,),
    )


def first_window_bytes(measured: Measured) -> int:
    """What may leave on a fresh connection before the first ACK."""
    mss = tcp_counter(measured.facts, "snd_mss_bytes", measured.conn) or DEFAULT_MSS_BYTES
    return INITIAL_WINDOW_SEGMENTS * mss


def request_bytes(measured: Measured) -> int:
    """Bytes of the last request, head and body."""
    record = measured.facts.record(HTTP_REQUEST)
    return (whole(record.get("head_bytes")) or 0) + (whole(record.get("body_bytes")) or 0)


def initial_window(measured: Measured) -> Because:
    """A cold upload larger than the first flight waits for ACKs: 1 round trip a doubling."""
    window, size = first_window_bytes(measured), request_bytes(measured)
    if measured.warm or size <= window or not measured.rtt_ns:
        return NO
    flights = 1
    while window * (2**flights - 1) < size:
        flights += 1
    cost: Ns = (flights - 1) * measured.rtt_ns
    if measured.breakdown.total_ns(Stage.REQUEST) < cost / 2:
        return NO
    return because(
        f"{format_bytes(size)} on a fresh connection need {flights} flights from a first window of"
        f" {format_bytes(window)}: about {format_duration(cost)} of waiting for ACKs",
        facts=(HTTP_REQUEST, TCP_INFO),
    )


def slow_start(measured: Measured) -> Because:
    """Small events, more than ten a round trip: after the first ten the sender waits for an ACK."""
    rhythm, rtt = measured.rhythm, measured.rtt_ns
    usual = rhythm.median_gap_ns if rhythm else None
    if rhythm is None or measured.warm or not rtt or not usual:
        return NO
    predicted = rtt - INITIAL_WINDOW_SEGMENTS * usual
    if predicted <= CLEARLY_LONGER * usual:
        return NO
    at = measured.scan.content.at_ns
    waits = [i for i, gap in enumerate(rhythm.gaps) if gap >= TOLERANCE * predicted]
    early = [i for i in waits if at[i] - at[0] <= SLOW_START_TRIPS * rtt]
    if not early or len(early) < len(waits):
        return NO
    first = format_duration(rhythm.gaps[early[0]])
    return because(
        f"{len(early)} gaps of up to a round trip ({format_duration(rtt)}) in the stream's first"
        f" {SLOW_START_TRIPS} round trips and none later, the first of {first}: an event every"
        f" {format_duration(usual)} is more than ten a round trip",
        facts=(TCP_INFO,),
    )


def window_stall(measured: Measured) -> Because:
    """Request bytes were left and HTTP/2 flow control had no window for them."""
    begun: list[Ns] = []
    total, count = 0, 0
    for mark in measured.trace.marks_of(MARK_WINDOW_STALL):
        if mark.detail.get("state") == "begin":
            begun.append(mark.at_ns)
            count += 1
        elif begun:
            # The end carries the kernel's stamp, the beginning ours: on a short path the window was
            # there before we had noted that it was missing.
            total += max(0, mark.at_ns - begun.pop())
    if not count:
        return NO
    lasted = f" for {format_duration(total)}" if total else ""
    return because(f"the upload waited {count} times for the peer's window{lasted}")
