"""`promptpath explain BODY --content-type TYPE`: what a saved stream body says. It has no times."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from promptpath.cli.options import ExplainOptions
from promptpath.cli.show import write_bytes, write_text
from promptpath.dialect import registry
from promptpath.dialect.body import BodyReading, read_body
from promptpath.errors import ExitCode, UsageError
from promptpath.model.codec import encode
from promptpath.model.redact import printable
from promptpath.model.units import format_bytes

BODY_SCHEMA = "promptpath.body/1"


def explain_body(raw: bytes, options: ExplainOptions) -> int:
    """Print the reading; 1 when the stream has an error or lacks its end, else 0."""
    if options.output:
        raise UsageError("a body has no times to report", expected="--json instead of -o FILE")
    forced = registry.by_name(options.dialect) if options.dialect else None
    reading = read_body(raw, options.content_type or "", forced=forced)
    if options.json:
        write_bytes([encode(_as_json(reading)), b"\n"])
    else:
        write_text("".join(f"{label:<12}{printable(text)}\n" for label, text in lines(reading)))
    return ExitCode.OK if _ends_well(reading) else ExitCode.FINDING


def _ends_well(reading: BodyReading) -> bool:
    whole = reading.marker_seen or not reading.marker_expected
    return whole and not reading.errors and not reading.pending_bytes


def lines(reading: BodyReading) -> Iterator[tuple[str, str]]:
    """What there is to say, as (label, text)."""
    events = ", ".join(f"{count} {kind}" for kind, count in reading.kinds.items())
    yield "body", f"{format_bytes(reading.body_bytes)}, {reading.framing}"
    yield "dialect", f"{reading.dialect} (by {reading.because})" if reading.dialect else "unknown"
    yield "events", f"{reading.events}: {events}" if events else "none"
    for kind, count in reading.chars.items():
        yield "", f"{count} characters of {kind}"
    if reading.tokens is not None:
        yield "tokens", f"{reading.tokens.tokens} counted ({reading.tokens.source})"
    yield from _usage(reading)
    for label, value in (
        ("model", reading.model),
        ("response id", reading.response_id),
        ("finish", reading.finish),
        ("page", reading.page_title),
    ):
        if value:
            yield label, value
    for error in reading.errors:
        words = [str(error[name]) for name in ("type", "code", "message") if error.get(name)]
        yield "error", ": ".join(words) or "without a text"
    if reading.malformed:
        yield "malformed", f"{reading.malformed} payloads"
    yield "end", _end(reading)


def _usage(reading: BodyReading) -> Iterator[tuple[str, str]]:
    if reading.usage is None:
        return
    counts = msgspec.to_builtins(reading.usage)
    known = [f"{name.removesuffix('_tokens')} {n}" for name, n in counts.items() if n is not None]
    if known:
        yield "usage", f"{', '.join(known)} tokens (the endpoint says)"


def _end(reading: BodyReading) -> str:
    if reading.pending_bytes:
        return f"cut: {reading.pending_bytes} bytes of an unfinished event"
    if reading.marker_seen:
        return "with its end marker"
    return "without its end marker" if reading.marker_expected else "no marker to expect"


def _as_json(reading: BodyReading) -> dict[str, object]:
    """The reading without its log, which has neither times nor content here."""
    names = [name for name in reading.__dataclass_fields__ if name != "log"]
    values = {name: msgspec.to_builtins(getattr(reading, name)) for name in names}
    return {"schema": BODY_SCHEMA, **values}
