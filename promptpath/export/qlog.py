"""Traces as qlog, for the tools that draw QUIC: `.qlog` is one JSON document with a trace a run,
`.sqlog` a JSON text sequence (RFC 7464) with each run as a group.

Structure: draft-ietf-quic-qlog-main-schema-12; packets: draft-ietf-quic-qlog-quic-events-12. What
QUIC has no event for (DNS, TCP, TLS, the model's events) is in an event schema of our own. Only
what was measured is in it: no keys, no payload, no header values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from promptpath.model.codec import encode
from promptpath.model.document import Document
from promptpath.model.names import MARK_QUIC, MARK_QUIC_PACKET
from promptpath.model.redact import printable
from promptpath.model.rows import Json, Mark, Span, StreamEvent
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S, NS_PER_US, Ns

QUIC_EVENTS: Final = "urn:ietf:params:qlog:events:quic-12"
OWN_EVENTS: Final = "urn:promptpath:qlog:events:trip-1"
"""promptpath:span (an interval of the trip, at its start), promptpath:mark (an instant),
promptpath:stream_event (a frame of the model's stream). Times in ms."""

_PACKET_EVENTS = {
    "sent": "quic:packet_sent",
    "received": "quic:packet_received",
    "lost": "quic:packet_lost",
    "dropped": "quic:packet_dropped",
}
_RECORD = b"\x1e"
"""RFC 7464, 2.2: before each text, a line feed after it."""

Event = tuple[Ns, str, dict[str, Json]]


def write(document: Document) -> Iterator[bytes]:
    """A `.qlog` file."""
    head: dict[str, Json] = {
        "file_schema": "urn:ietf:params:qlog:file:contained",
        "serialization_format": "application/qlog+json",
        "title": f"{document.tool.name} {document.tool.version}",
    }
    yield encode(head)[:-1] + b',"traces":['
    for index, run in enumerate(document.runs):
        yield (b"," if index else b"") + encode(_trace_head(run.trace, index))[:-1]
        yield b',"events":['
        for at, event in enumerate(events_of(run.trace)):
            yield (b"," if at else b"") + encode(_row(event, 0))
        yield b"]}"
    yield b"]}\n"


def write_sequence(document: Document) -> Iterator[bytes]:
    """A `.sqlog` file: runs follow one another on the first one's clock."""
    traces = [run.trace for run in document.runs]
    head: dict[str, Json] = {
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": f"{document.tool.name} {document.tool.version}",
        "trace": _trace_head(traces[0], None) if traces else _bare_head(),
    }
    yield _RECORD + encode(head) + b"\n"
    for index, trace in enumerate(traces):
        later = trace.clock.epoch_monotonic_ns - traces[0].clock.epoch_monotonic_ns
        for event in events_of(trace):
            row = {**_row(event, later), "group_id": f"run {index}"}
            yield _RECORD + encode(row) + b"\n"


def _bare_head() -> dict[str, Json]:
    return {
        "vantage_point": {"name": "promptpath", "type": "client"},
        "event_schemas": [QUIC_EVENTS, OWN_EVENTS],
    }


def _trace_head(trace: Trace, index: int | None) -> dict[str, Json]:
    """`index` None: the trace of a sequence, whose events name their run."""
    reference: dict[str, Json] = {"clock_type": "monotonic", "epoch": "unknown"}
    if (wall := _wall_clock(trace.clock.epoch_unix_ns)) is not None:
        reference["wall_clock_time"] = wall
    common: dict[str, Json] = {"time_format": "relative_to_epoch", "reference_time": reference}
    if index is not None:
        common["group_id"] = f"run {index}"
    return {**_bare_head(), "common_fields": common}


def _wall_clock(unix_ns: int) -> str | None:
    """RFC 3339; None for an instant that no calendar has (a saved trace may hold any number)."""
    try:
        second = datetime.fromtimestamp(unix_ns // NS_PER_S, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    exact = second.replace(microsecond=unix_ns % NS_PER_S // NS_PER_US)
    return exact.isoformat().replace("+00:00", "Z")


def _row(event: Event, later_ns: Ns) -> dict[str, Json]:
    at_ns, name, data = event
    return {"time": (at_ns + later_ns) / NS_PER_MS, "name": name, "data": data}


def events_of(trace: Trace) -> Sequence[Event]:
    """All of a run, in the order of time."""
    found = [_span(span) for span in trace.spans]
    found += [_packet(m) if m.name == MARK_QUIC_PACKET else _mark(m) for m in trace.marks]
    found += [_stream_event(event) for event in trace.events]
    return sorted(found, key=lambda event: event[0])


def _packet(mark: Mark) -> Event:
    detail = mark.detail
    name = _PACKET_EVENTS.get(str(detail.get("what")))
    if name is None:
        return _mark(mark)
    header: dict[str, Json] = {"packet_type": printable(str(detail.get("type") or "unknown"))}
    if isinstance(detail.get("number"), int):
        header["packet_number"] = detail["number"]
    data: dict[str, Json] = {"header": header}
    frames = detail.get("frames")
    if name != "quic:packet_dropped" and isinstance(frames, list):
        data["frames"] = [{"frame_type": printable(str(frame))} for frame in frames]
    if name != "quic:packet_lost" and isinstance(detail.get("size"), int):
        data["raw"] = {"length": detail["size"]}
    if name == "quic:packet_dropped" and detail.get("why"):
        data["details"] = {"why": printable(str(detail["why"]))}
    return mark.at_ns, name, data


def _mark(mark: Mark) -> Event:
    data: dict[str, Json] = {"stage": mark.stage.value, "name": printable(mark.name)}
    if mark.name == MARK_QUIC:
        data["step"] = printable(str(mark.detail.get("step")))
    return mark.at_ns, "promptpath:mark", {**data, **_window(mark.lo_ns, mark.hi_ns)}


def _span(span: Span) -> Event:
    took = span.duration_ns
    data: dict[str, Json] = {
        "stage": span.stage.value,
        "name": printable(span.name),
        "outcome": span.outcome.value,
        "duration": None if took is None else took / NS_PER_MS,
    }
    return span.start_ns, "promptpath:span", data


def _stream_event(event: StreamEvent) -> Event:
    data: dict[str, Json] = {
        "kind": event.kind.value,
        "tokens": event.tokens,
        "chars": event.chars,
        "length": event.bytes,
    }
    return event.at_ns, "promptpath:stream_event", {**data, **_window(event.lo_ns, event.hi_ns)}


def _window(lo_ns: Ns, hi_ns: Ns) -> dict[str, Json]:
    """Between which instants the event was."""
    return {"earliest": lo_ns / NS_PER_MS, "latest": hi_ns / NS_PER_MS}
