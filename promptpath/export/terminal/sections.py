"""The parts around the waterfall: what was asked and who answered, rhythm, findings, verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from promptpath.analysis.sentence import sentence
from promptpath.export import digest
from promptpath.export.terminal.style import SEVERITY_STYLES, Glyphs, duration, hanging, safe
from promptpath.model.document import Run
from promptpath.model.plan import PlanRecord
from promptpath.model.report import Finding, Quantiles, Report
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_US, format_duration

_PLACES = {"header": "the response headers", "chunk": "the events", "final": "the last chunk"}
"""Where names.SERVER_TIMING says that a reported time was found, in a person's words."""


def header_lines(trace: Trace, plan: PlanRecord, width: int) -> Iterator[Text]:
    """The request, the connection, the conversation, what a vendor's support asks for."""
    yield Text(safe(f"{plan.method} {plan.url}"), style="bold")
    for line in (digest.connection(trace), digest.conversation(trace)):
        if line:
            yield hanging(line, width, first="  ")
    # The address stands in the connection's line already.
    known = [line for line in digest.identity(trace) if line.label != "address"]
    words = ", ".join(f"{line.label} {line.value}" for line in known)
    yield hanging(words, width, first="  ", style="dim")
    for line in digest.failure(trace):
        yield hanging(line, width, first="  ", style="red")


def cadence_lines(report: Report, width: int) -> Iterator[Text]:
    """The rhythm of the stream: how many tokens, in how many pieces, how evenly, and whether
    something held it."""
    cadence = report.cadence
    if cadence is None or not cadence.events:
        return
    words = [_tokens(cadence.output_tokens, cadence.token_source), f"{cadence.events} events"]
    if cadence.tokens_per_event is not None:
        per_event = cadence.tokens_per_event
        words.append("one token an event" if per_event == 1 else f"{per_event:.3g} tokens an event")
    if cadence.tokens_per_s is not None:
        words.append(f"{cadence.tokens_per_s:.4g} tokens/s")
    yield _labelled("stream", ", ".join(word for word in words if word), width)
    if cadence.itl_ms is not None:
        yield _labelled("a token", _quantiles(cadence.itl_ms), width)
    if cadence.inter_event_ms not in (None, cadence.itl_ms):
        yield _labelled("an event", _quantiles(cadence.inter_event_ms), width)
    if cadence.stalls:
        longest = max(stall.duration_ms for stall in cadence.stalls)
        count = len(cadence.stalls)
        word = "stall" if count == 1 else "stalls"
        yield _labelled(word, f"{count}, the longest {duration(longest)}", width)
    held = digest.buffering(report)
    if held is not None:
        yield _labelled("the way", safe(held), width)


def _tokens(count: int | None, source: str | None) -> str:
    if count is None:
        return ""
    return f"{count} tokens ({safe(source)})" if source else f"{count} tokens"


def _quantiles(values: Quantiles | None) -> str:
    if values is None:
        return "-"
    parts = (
        f"{name} {duration(value)}"
        for name, value in (
            ("p50", values.p50),
            ("p90", values.p90),
            ("p99", values.p99),
            ("max", values.max),
        )
    )
    return ", ".join(parts)


def server_line(report: Report, width: int) -> Iterator[Text]:
    """What the far side says of its own time."""
    server = report.server
    parts = [
        f"{name} {duration(value)}"
        for name, value in (
            ("gateway", server.gateway_ms),
            ("session", server.session_ms),
            ("tokenize", server.tokenize_ms),
            ("queue", server.queue_ms),
            ("prefill", server.prefill_ms),
            ("decode", server.decode_ms),
            ("total", server.total_ms),
        )
        if value is not None
    ]
    if server.cached_tokens is not None:
        parts.append(f"{server.cached_tokens} prompt tokens cached")
    if parts:
        # "header: tokenize", "final: queue_ms" ...: the places are enough here.
        found = (source.partition(":")[0] for source in server.sources)
        places = " and ".join(dict.fromkeys(_PLACES.get(place, safe(place)) for place in found))
        sources = f" (from {places})" if places else ""
        yield _labelled("server", f"says {', '.join(parts)}{sources}", width)


def instrument_line(report: Report, glyphs: Glyphs, width: int) -> Iterator[Text]:
    """How well this was measured."""
    words = digest.instrument(report)
    errors = report.instrument.error_us
    if errors is not None:
        p50, p99 = (format_duration(round(us * NS_PER_US)) for us in (errors.p50, errors.p99))
        words += f", {glyphs.plus_minus}{p50} p50, {p99} p99"
    yield _labelled("clock", words, width)


def findings(found: Sequence[Finding], glyphs: Glyphs, width: int) -> Iterator[RenderableType]:
    """Each finding: code, severity and title, its evidence, what to do."""
    for finding in found:
        yield Text()
        head = Text(f"{finding.code} {finding.severity.value}", SEVERITY_STYLES[finding.severity])
        yield head.append(f"  {safe(finding.title)}", style="default")
        for evidence in finding.because:
            yield Padding(Text(safe(evidence.text)), (0, 0, 0, 4))
        advice = Text(f"{glyphs.arrow} {safe(finding.advice)}", style="dim")
        yield Padding(advice, (0, 0, 0, 4))


def verdict(run: Run) -> Text:
    """One sentence with its evidence."""
    # A line must not break between a number and its percent sign.
    return Text(safe(sentence(run.report)).replace(" %", "%"), style="bold")


def _labelled(label: str, text: str, width: int) -> Text:
    return hanging(text, width, first=f"{label:<9}")
