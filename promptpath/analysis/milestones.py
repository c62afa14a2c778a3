"""The instants of a response that must not be taken for one another, each with its error.

Headers, the first body byte, the first frame, the first keepalive, the first reasoning and the
first visible text may lie seconds apart: a server that flushes its head at once has a "time to
first byte" of one round trip whatever its queue does.
"""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.analysis.scan import Scan
from promptpath.model.enums import KEEPALIVE_KINDS, Clock, EventKind, Layer
from promptpath.model.names import MARK_HEAD, MARK_MESSAGE_END, MARK_TRANSPORT_END
from promptpath.model.report import Milestones
from promptpath.model.rows import StreamEvent
from promptpath.model.stamp import Stamp
from promptpath.model.trace import Trace
from promptpath.model.units import Ns, to_ms

USER_LAG_NS = 175_000
"""How late an instant read by us may be: measured, user time after recv lies 40-175 us behind the
kernel's stamp at the median of an idle machine. Joins the error of every instant without a kernel
stamp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instants:
    """The milestones as stamps; None is "never"."""

    headers: Stamp | None = None
    first_byte: Stamp | None = None
    first_frame: Stamp | None = None
    first_keepalive: Stamp | None = None
    first_reasoning: Stamp | None = None
    first_content: Stamp | None = None
    first_visible: Stamp | None = None
    last_token: Stamp | None = None
    finish: Stamp | None = None
    usage: Stamp | None = None
    end_marker: Stamp | None = None
    eof: Stamp | None = None


def error_of(stamp: Stamp) -> Ns:
    """A stamp's error; one read by us carries the user clock's lag."""
    return stamp.error_ns if stamp.clock is Clock.KERNEL else max(stamp.error_ns, USER_LAG_NS)


def early_error(stamp: Stamp) -> Ns:
    """How much earlier than its estimate a stamp's instant may have been."""
    early_ns = max(stamp.at_ns - stamp.lo_ns, 0)
    return early_ns if stamp.clock is Clock.KERNEL else max(early_ns, USER_LAG_NS)


def find_instants(trace: Trace, scan: Scan) -> Instants:
    """All milestones of the final response."""
    head = _last_mark(trace, MARK_HEAD)
    keepalives = [scan.first[kind] for kind in KEEPALIVE_KINDS if kind in scan.first]
    first_keepalive = min(keepalives, key=lambda event: event.at_ns, default=None)
    return Instants(
        headers=head,
        first_byte=_first_body_byte(trace, head),
        first_frame=_stamp(scan.first_event),
        first_keepalive=_stamp(first_keepalive),
        first_reasoning=_stamp(scan.first.get(EventKind.REASONING)),
        first_content=_stamp(scan.first_content),
        first_visible=_stamp(scan.first.get(EventKind.TEXT)),
        last_token=_stamp(scan.last_content),
        finish=_stamp(scan.last.get(EventKind.FINISH)),
        usage=_stamp(scan.last.get(EventKind.USAGE)),
        end_marker=_stamp(scan.first.get(EventKind.END)),
        eof=_last_mark(trace, MARK_MESSAGE_END) or _last_mark(trace, MARK_TRANSPORT_END),
    )


def milestones_ms(instants: Instants, t0_ns: Ns) -> Milestones:
    """The milestones as the report shows them, in ms since t0."""

    def since(stamp: Stamp | None) -> float | None:
        return None if stamp is None else to_ms(stamp.at_ns - t0_ns)

    return Milestones(
        headers_ms=since(instants.headers),
        first_byte_ms=since(instants.first_byte),
        first_frame_ms=since(instants.first_frame),
        first_keepalive_ms=since(instants.first_keepalive),
        first_reasoning_ms=since(instants.first_reasoning),
        first_visible_ms=since(instants.first_visible),
        last_token_ms=since(instants.last_token),
        finish_ms=since(instants.finish),
        usage_ms=since(instants.usage),
        end_marker_ms=since(instants.end_marker),
        eof_ms=since(instants.eof),
    )


def _stamp(event: StreamEvent | None) -> Stamp | None:
    return None if event is None else event.stamp


def _last_mark(trace: Trace, name: str) -> Stamp | None:
    """The last mark of that name: earlier ones belong to redirects."""
    for mark in reversed(trace.marks):
        if mark.name == name:
            return mark.stamp
    return None


def _first_body_byte(trace: Trace, head: Stamp | None) -> Stamp | None:
    """The first body bytes not before the final head (the same read may bring both)."""
    if head is None:
        return None
    for arrival in trace.arrivals:
        if arrival.layer is Layer.BODY and arrival.size > 0 and arrival.at_ns >= head.at_ns:
            return arrival.stamp
    return None
