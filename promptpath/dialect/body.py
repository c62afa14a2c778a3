"""Reads a saved stream body: the same framing and meaning as in a live trace, without times."""

from __future__ import annotations

from dataclasses import dataclass, field

from promptpath.dialect.base import Dialect, Usage
from promptpath.dialect.detect import Framing, framer_for, framing_of
from promptpath.dialect.failures import json_error, page_title
from promptpath.dialect.meter import Known, StreamMeter, error_value
from promptpath.dialect.payload import as_dict, as_list, parse, word
from promptpath.dialect.reading import usage_of
from promptpath.dialect.tokens.count import Count
from promptpath.model.log import EventLog
from promptpath.model.redact import redact_text
from promptpath.model.rows import Json
from promptpath.model.stamp import user_stamp
from promptpath.wire.frame import Frame

_PIECE_BYTES = 64 * 1024
_NO_TIME = user_stamp(0)
"""A saved body has no times; every event stands at instant 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyReading:
    """What a body says."""

    framing: str
    """sse | ndjson | json | raw."""
    dialect: str | None
    """None when nothing in the body says."""
    because: str | None
    """content-type | payload | url | option."""
    body_bytes: int
    events: int
    kinds: dict[str, int]
    """Events by kind, in order of first appearance."""
    chars: dict[str, int]
    """Characters of content by kind."""
    tokens: Count | None
    """Counted over all content."""
    model: str | None
    response_id: str | None
    finish: str | None
    usage: Usage | None
    errors: tuple[dict[str, Json], ...]
    """As names.STREAM_ERROR."""
    facts: tuple[tuple[str, Json, str], ...]
    """All facts: key, value, source."""
    marker_expected: bool
    marker_seen: bool
    pending_bytes: int
    malformed: int
    """Payloads that are not what the dialect sends."""
    page_title: str | None
    """Title of an HTML page that came instead of a stream."""
    log: EventLog = field(repr=False)
    """The events, all at instant 0; with data and text when content is kept."""


def read_body(
    body: bytes,
    content_type: str,
    *,
    prior: Dialect | None = None,
    forced: Dialect | None = None,
    keep_content: bool = False,
) -> BodyReading:
    """Read a whole saved body. Never raises for any bytes."""
    framing = framing_of(content_type, body[:_PIECE_BYTES])
    meter = StreamMeter(
        framing, content_type, prior=prior, forced=forced, keep_content=keep_content
    )
    log = EventLog()
    framer = framer_for(framing)
    if framer is None:
        _read_document(body, meter)
    else:
        for start in range(0, len(body), _PIECE_BYTES):
            for frame in framer.feed(body[start : start + _PIECE_BYTES], _NO_TIME):
                _append(meter, log, frame)
        for frame in framer.end(_NO_TIME):
            _append(meter, log, frame)
    counted = meter.write_tokens(log)
    facts = meter.finish_facts(None, counted)
    return _reading(meter, log, counted, facts, body)


def _append(meter: StreamMeter, log: EventLog, frame: Frame) -> None:
    for row in meter.feed(frame):
        row.append_to(log)


def _read_document(body: bytes, meter: StreamMeter) -> None:
    """No stream: an error document, or an answer that was not streamed."""
    payload = parse(body)
    if isinstance(payload, dict) and not payload.get("error") and payload.get("choices"):
        meter.model = word(payload.get("model"))
        meter.response_id = word(payload.get("id"))
        meter.usage = usage_of(payload.get("usage"))
        meter.finish = word(as_dict(as_list(payload["choices"])[0]).get("finish_reason"))
    elif (error := json_error(body)) is not None:
        meter.errors.append(error)


def _reading(
    meter: StreamMeter, log: EventLog, counted: Count | None, facts: list[Known], body: bytes
) -> BodyReading:
    known = meter.dialect_known
    return BodyReading(
        framing=meter.framing.value,
        dialect=meter.dialect.name if known else None,
        because=meter.because if known else None,
        body_bytes=len(body),
        events=meter.rows,
        kinds={kind.value: number for kind, number in meter.kinds.items()},
        chars={kind.value: number for kind, number in meter.chars.items()},
        tokens=counted,
        model=_clean(meter.model),
        response_id=_clean(meter.response_id),
        finish=_clean(meter.finish),
        usage=meter.usage,
        errors=tuple(error_value(error) for error in meter.errors),
        facts=tuple((key, value, source.value) for key, value, source in facts),
        marker_expected=meter.marker_expected,
        marker_seen=meter.marker is not None,
        pending_bytes=meter.pending_bytes,
        malformed=meter.malformed,
        page_title=_clean(page_title(body)) if meter.framing is Framing.RAW else None,
        log=log,
    )


def _clean(text: str | None) -> str | None:
    return None if text is None else redact_text(text, limit=300)
