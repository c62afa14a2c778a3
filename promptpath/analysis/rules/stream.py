"""PP5xx, second half: the form of the stream."""

from __future__ import annotations

from promptpath.analysis.end_state import speaks_another_dialect
from promptpath.analysis.facts import number
from promptpath.analysis.latency import why_never
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.intermediaries import is_event_stream
from promptpath.analysis.view import Measured
from promptpath.model.enums import EndState, EventKind, Severity
from promptpath.model.names import (
    HTTP_END,
    QUIC_CLOSE,
    STREAM_DIALECT,
    STREAM_END,
    STREAM_ERROR,
    STREAM_FINISH,
    STREAM_FRAMING,
)
from promptpath.model.units import NS_PER_S, format_duration

MANY_TOKENS = 2.0
"""From two tokens an event on, time per event is at least twice time per token."""
FLOW_NS = NS_PER_S
"""Beyond 1 s a person's flow of thought is broken (Miller 1968; Nielsen 1993, chapter 5)."""


def _error_under_200(measured: Measured) -> Because:
    if measured.end_state is not EndState.ERROR_IN_STREAM:
        return NO
    record = measured.facts.record(STREAM_ERROR)
    parts = [record.get(name) for name in ("type", "code", "message")]
    said = ": ".join(str(part) for part in parts if part) or "an error event"
    return because(f"under status {measured.status}: {said}", facts=(STREAM_ERROR,))


def _truncated(measured: Measured) -> Because:
    if measured.end_state is not EndState.TRUNCATED:
        return NO
    end, http = measured.facts.record(STREAM_END), measured.facts.record(HTTP_END)
    marker = "no end marker" if end.get("marker_expected") else "no end"
    left = end.get("pending_bytes")
    pending = f", {left} bytes of an unfinished event" if left else ""
    how = http.get("how")
    if measured.facts.records(QUIC_CLOSE):
        how = "the end of the QUIC connection"
    whole = "calls the response whole" if http.get("complete") else f"ended by {how}"
    return because(
        f"{marker} and no finish reason came{pending}; HTTP {whole}",
        facts=(STREAM_END, HTTP_END),
    )


def _no_marker(measured: Measured) -> Because:
    if measured.end_state is not EndState.NO_END_MARKER:
        return NO
    return because(
        "a finish reason came, the dialect's terminal event did not", facts=(STREAM_END,)
    )


def _left_open(measured: Measured) -> Because:
    how = measured.facts.record(HTTP_END).get("how")
    if measured.end_state is not EndState.OPEN_AFTER_MARKER or how not in (
        None,
        "cut-by-us",
        "open",
    ):
        return NO
    after = number(measured.facts.record(STREAM_END).get("after_marker_ns"))
    waited = f" for {format_duration(round(after))}" if after else ""
    return because(f"nothing ended the response{waited} after the end marker", facts=(STREAM_END,))


def _nothing_visible(measured: Measured) -> Because:
    states = (EndState.COMPLETE, EndState.NO_END_MARKER, EndState.OPEN_AFTER_MARKER)
    known_dialect = bool(measured.facts.text(STREAM_FINISH) or measured.scan.first_content)
    if measured.ttft_ns is not None or measured.end_state not in states or not known_dialect:
        return NO
    return because(why_never(measured))


def _many_tokens(measured: Measured) -> Because:
    rhythm = measured.rhythm
    per_event = rhythm.cadence.tokens_per_event if rhythm else None
    if rhythm is None or per_event is None or per_event < MANY_TOKENS or len(rhythm.gaps) < 1:
        return NO
    return because(
        f"{per_event:g} tokens an event ({rhythm.tokens.streamed} tokens by {rhythm.tokens.source}"
        f" in {rhythm.cadence.events} events)"
    )


def _foreign(measured: Measured) -> Because:
    count = measured.scan.count(EventKind.FOREIGN_BYTES)
    if not count or not is_event_stream(measured):
        return NO
    return because(f"{count} pieces of the event stream are no event", facts=(STREAM_FRAMING,))


def _cut_at_limit(measured: Measured) -> Because:
    finish = measured.facts.text(STREAM_FINISH)
    if finish not in ("length", "max_tokens", "MAX_TOKENS", "max_output_tokens"):
        return NO
    return because(f"finish reason {finish}", facts=(STREAM_FINISH,))


def _keepalives_only(measured: Measured) -> Because:
    """Bytes came long before content: a first-byte time would look fine."""
    frame, content = measured.instants.first_frame, measured.instants.first_content
    kept = measured.scan.keepalives_before_content
    if frame is None or content is None or not kept or content.at_ns - frame.at_ns < FLOW_NS:
        return NO
    ahead = format_duration(content.at_ns - frame.at_ns)
    return because(f"{kept} keepalives came, the first {ahead} before any content")


def _another_dialect(measured: Measured) -> Because:
    if not speaks_another_dialect(measured.facts, measured.scan):
        return NO
    name = measured.facts.record(STREAM_DIALECT).get("name")
    count = measured.scan.count(EventKind.OTHER)
    return because(f"none of {count} events means anything as {name}", facts=(STREAM_DIALECT,))


RULES = (
    Rule(
        code="PP520",
        title="An error came under a successful status",
        severity=Severity.ERROR,
        asks="Did the answer fail after its status was sent?",
        decided="The dialect's error shape in the stream, or an error document, under a 2xx"
        " status.",
        advice="Monitoring that looks at statuses misses this. Ask the provider with the request"
        " id.",
        is_not="Not a network failure.",
        condition=_error_under_200,
    ),
    Rule(
        code="PP521",
        title="The stream was cut",
        severity=Severity.ERROR,
        asks="Is the answer whole?",
        decided="Neither a finish reason nor the dialect's terminal event came, or bytes of an"
        " unfinished event were pending. HTTP's own completeness is not trusted: measured,"
        " several proxies end a cut stream cleanly.",
        advice="Look for time limits of proxies (60 s is nginx' and ALB's default) and for"
        " crashes of the server.",
        is_not="Not a short answer: that has a finish reason.",
        condition=_truncated,
    ),
    Rule(
        code="PP522",
        title="The end marker is missing",
        severity=Severity.WARNING,
        asks="Can a client know that all came?",
        decided="A finish reason and a clean end, without the terminal event the dialect has"
        " ([DONE], message_stop).",
        advice="Some servers never send it; else something cut the last event. Clients that wait"
        " for it hang.",
        is_not="Not a cut answer: the finish reason came.",
        condition=_no_marker,
    ),
    Rule(
        code="PP523",
        title="The response stays open after its end marker",
        severity=Severity.WARNING,
        asks="Does a client that reads to the end wait for nothing?",
        decided="The terminal event came and the response did not end before we left it: 1.5 s,"
        " above the 1 s initial retransmission timer of RFC 6298, 2.1, so that no lost last"
        " packet is blamed.",
        advice="End the response with the marker: the server or a proxy keeps it open.",
        is_not="Not a slow model: it had ended.",
        condition=_left_open,
    ),
    Rule(
        code="PP524",
        title="No visible text came",
        severity=Severity.WARNING,
        asks="Why is there no time to the first token?",
        decided="The stream ended in order without one visible character: reasoning, a refusal"
        " or a tool call only, or nothing.",
        advice="Raise --max-tokens for reasoning models; for tools, look at the call.",
        is_not="Not a cut stream.",
        condition=_nothing_visible,
    ),
    Rule(
        code="PP525",
        title="One event carries many tokens",
        severity=Severity.INFO,
        asks="May gaps between events be read as time per token?",
        decided="At least 2 tokens an event on average: from there on the two differ by a factor"
        " of two.",
        advice="Read itl_ms and tpot_ms, not inter_event_ms. The server batches, or decodes"
        " speculatively.",
        is_not="Not proof of a buffering proxy.",
        condition=_many_tokens,
    ),
    Rule(
        code="PP526",
        title="There are foreign bytes in the event stream",
        severity=Severity.WARNING,
        asks="Did somebody write into the stream who does not speak SSE?",
        decided="Bytes that are no field and no comment by the WHATWG HTML standard, 9.2.5.",
        advice="A proxy's error page, an injected script, or a server that prints JSON without"
        " data: fields.",
        is_not="Not an unknown field name, which the standard allows.",
        condition=_foreign,
    ),
    Rule(
        code="PP527",
        title="The answer was cut at the token limit",
        severity=Severity.INFO,
        asks="Is the answer short because we asked for that?",
        decided="The finish reason says length or max_tokens.",
        advice="Raise --max-tokens if the end matters; the times are good as they are.",
        is_not="Not a cut stream.",
        condition=_cut_at_limit,
    ),
    Rule(
        code="PP528",
        title="Keepalives came long before the first token",
        severity=Severity.INFO,
        asks="Would a first-byte measurement have missed the wait?",
        decided="Keepalive events came and content followed 1 s or more after the first frame:"
        " the time after which a person's flow of thought is broken (Miller 1968; Nielsen 1993).",
        advice="Compare first_frame_ms with ttft_ms: the server was alive, and queueing or in"
        " prefill.",
        is_not="Not a fault: keepalives protect against idle time-outs.",
        condition=_keepalives_only,
    ),
    Rule(
        code="PP529",
        title="The stream does not speak the dialect that was named",
        severity=Severity.ERROR,
        asks="Is --dialect right for this endpoint?",
        decided="--dialect was given, events came, and not one of them means anything in it.",
        advice="Leave --dialect out: the stream tells its dialect itself.",
        is_not="Not a cut stream: whether it is whole cannot be told this way.",
        condition=_another_dialect,
    ),
)
