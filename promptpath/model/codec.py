"""Documents to JSON and back; the JSON Schema.

Writing streams row by row, so that a long stream is not held twice. Reading validates against the
same types and names the place of the first wrong value. Unknown keys are ignored: the schema grows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from promptpath.errors import UsageError
from promptpath.model.document import Document, Run, Tool
from promptpath.model.log import EventLog, Row, replay
from promptpath.model.plan import PlanRecord
from promptpath.model.report import REPORT_SCHEMA, Report, Summary
from promptpath.model.rows import Arrival, ClockInfo, Fact, Json, Mark, Span, StreamEvent
from promptpath.model.stamp import Stamp
from promptpath.model.trace import TRACE_SCHEMA, Trace

JOURNAL_SCHEMA = "promptpath.journal/1"
TORN = "the run ended before its document was written"
_NOT_A_JOURNAL = (
    msgspec.DecodeError,
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    UnicodeError,
    ValueError,
)
_encoder = msgspec.json.Encoder()


# -- the JSON shape, as types: what is validated on reading and what the schema is generated from
# ------


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJson:
    """`runs[].trace`."""

    schema: str
    clock: ClockInfo
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    arrivals: tuple[Arrival, ...]
    events: tuple[StreamEvent, ...]
    facts: tuple[Fact, ...]
    truncated: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJson:
    """`runs[]`."""

    trace: TraceJson
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentJson:
    """The whole document."""

    schema: str
    tool: Tool
    plan: PlanRecord
    vantage: dict[str, Json]
    summary: Summary
    runs: tuple[RunJson, ...]


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the document, generated from the types."""
    schema = msgspec.json.schema(DocumentJson)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{REPORT_SCHEMA.replace('/', ':')}",
        "title": REPORT_SCHEMA,
        **schema,
    }


# -- writing
# -----------------------------------------------------------------------------------------


_UNPRINTABLE = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]"  # DEL and C1
    rb"|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xef\xbb\xbf"
)
"""UTF-8 of what redact.printable escapes and JSON does not ask to be: 8-bit control characters, and
those that turn or hide text."""


def _printable_json(data: bytes) -> bytes:
    """The same JSON, fit for a terminal: it is printed there by --json --keep-content."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return _UNPRINTABLE.sub(lambda match: rb"\u%04x" % ord(match[0].decode()), data)


def encode(value: Any) -> bytes:
    """Any dataclass, enum or JSON value as compact JSON."""
    return _printable_json(_encoder.encode(value))


def encode_document(document: Document) -> Iterator[bytes]:
    """The document as JSON, in pieces."""
    yield b'{"schema":' + encode(REPORT_SCHEMA)
    yield b',"tool":' + encode(document.tool)
    yield b',"plan":' + encode(document.plan)
    yield b',"vantage":' + encode(document.vantage)
    yield b',"summary":' + encode(document.summary)
    yield b',"runs":['
    for index, run in enumerate(document.runs):
        yield b',{"trace":' if index else b'{"trace":'
        yield from encode_trace(run.trace)
        yield b',"report":' + encode(run.report) + b"}"
    yield b"]}\n"


def encode_trace(trace: Trace) -> Iterator[bytes]:
    """`runs[].trace` as JSON, in pieces."""
    yield b'{"schema":' + encode(TRACE_SCHEMA)
    yield b',"clock":' + encode(trace.clock)
    for name, rows in (
        ("spans", trace.spans),
        ("marks", trace.marks),
        ("arrivals", trace.arrivals),
    ):
        yield f',"{name}":'.encode()
        yield from _encode_rows(rows)
    yield b',"events":'
    yield from _encode_rows(trace.events, drop_missing=("data", "text"))
    yield b',"facts":'
    yield from _encode_rows(trace.facts)
    yield b',"truncated":' + encode(trace.truncated) + b"}"


def _encode_rows(rows: Sequence[Any], drop_missing: tuple[str, ...] = ()) -> Iterator[bytes]:
    yield b"["
    for index, row in enumerate(rows):
        value = msgspec.to_builtins(row) if drop_missing else row
        for name in drop_missing:
            if value[name] is None:
                del value[name]
        yield b"," + encode(value) if index else encode(value)
    yield b"]"


# -- reading
# -----------------------------------------------------------------------------------------


def decode_document(raw: bytes) -> Document:
    """A saved document. Raises UsageError naming the first wrong value."""
    try:
        parsed = msgspec.json.decode(raw, type=DocumentJson)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"not a saved trace: {error}",
            expected=f"a JSON document of schema {REPORT_SCHEMA}",
            hint="write one with: promptpath trace URL -o trace.json",
        ) from error
    if parsed.schema.rpartition("/")[0] != REPORT_SCHEMA.rpartition("/")[0]:
        raise UsageError(f"unknown schema {parsed.schema!r}", expected=REPORT_SCHEMA)
    try:
        runs = tuple(Run(trace=_trace(run.trace), report=run.report) for run in parsed.runs)
    except (OverflowError, KeyError) as error:
        raise UsageError(
            f"not a saved trace: a number is out of range ({error})",
            expected=f"a JSON document of schema {REPORT_SCHEMA}",
        ) from error
    return Document(
        tool=parsed.tool,
        plan=parsed.plan,
        vantage=parsed.vantage,
        summary=parsed.summary,
        runs=runs,
    )


def _trace(parsed: TraceJson) -> Trace:
    return Trace(clock=parsed.clock, log=log_from_rows(parsed), truncated=parsed.truncated)


def log_from_rows(parsed: TraceJson) -> EventLog:
    """The columnar log of a trace read from JSON."""
    log = EventLog()
    for span in parsed.spans:
        log.apply(
            ["span", span.id, span.parent, span.conn, span.stage.value, span.name, span.start_ns]
        )
        if span.end_ns is not None:
            log.end_span(span.id, span.end_ns, span.outcome, span.error)
    for mark in parsed.marks:
        log.add_mark(
            mark.stage, mark.name, mark.stamp, span=mark.span, conn=mark.conn, detail=mark.detail
        )
    stamps: dict[Stamp, Stamp] = {}
    for arrival in parsed.arrivals:
        log.add_arrival(
            arrival.layer,
            stamps.setdefault(arrival.stamp, arrival.stamp),
            span=arrival.span,
            offset=arrival.offset,
            size=arrival.size,
            segments=arrival.segments,
            ooo=arrival.ooo,
            pending=arrival.pending,
        )
    for event in parsed.events:
        first = Stamp(
            event.first_at_ns, event.first_lo_ns, event.first_hi_ns, event.clock, event.exact
        )
        log.add_event(
            event.kind,
            event.stamp,
            first,
            tokens=event.tokens,
            chars=event.chars,
            size_bytes=event.bytes,
            seq=event.seq,
            server_ns=event.server_ns,
            data=event.data,
            text=event.text,
        )
    for fact in parsed.facts:
        log.add_fact(fact.key, fact.value, fact.source, fact.span)
    return log


# -- the journal: a log as it grows, one row a line
# -----------------------------------------------------


def journal_head(clock: ClockInfo, plan: PlanRecord) -> bytes:
    """First line of a journal."""
    return encode({"schema": JOURNAL_SCHEMA, "clock": clock, "plan": plan}) + b"\n"


def encode_row(row: Row) -> bytes:
    """One row as a line."""
    return _encoder.encode(row) + b"\n"


def decode_journal(raw: bytes) -> tuple[PlanRecord, Trace]:
    """The trace in a journal; a torn last line is dropped. Raises UsageError for anything else."""
    lines = raw.split(b"\n")
    try:
        head = msgspec.json.decode(lines[0])
        clock = msgspec.convert(head["clock"], ClockInfo)
        plan = msgspec.convert(head["plan"], PlanRecord)
        rows = [msgspec.json.decode(line) for line in lines[1:-1] if line]
        journal = Trace(clock=clock, log=replay(rows), truncated=TORN)
        # A journal is rows without a type: written out and read again, every value is checked.
        trace = _trace(msgspec.json.decode(b"".join(encode_trace(journal)), type=TraceJson))
    except _NOT_A_JOURNAL as error:
        raise UsageError(
            f"not a trace journal: {error}", expected=f"lines of {JOURNAL_SCHEMA}"
        ) from error
    return plan, trace
