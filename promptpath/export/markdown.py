"""A report for a ticket: what the vendor asks for, the table, the findings, how to repeat it.

What came from the far side is escaped: a ticket system renders Markdown and often HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from promptpath.analysis.sentence import sentence
from promptpath.export import active_text, digest
from promptpath.export.figures import TITLES, cell, metric_names, share
from promptpath.export.reproduce import command, omissions
from promptpath.model.document import Document, Run
from promptpath.model.enums import FactSource
from promptpath.model.plan import PlanRecord
from promptpath.model.redact import printable
from promptpath.model.report import Finding, Report, Summary
from promptpath.model.units import format_ms

_SPECIAL = re.compile(
    r"[\\`*_{}\[\]#!|~<>&@]|:(?=//)|(?<=www)\.|^[-+]|^\d+[.)](?=\s|$)", re.IGNORECASE
)
"""What Markdown, GitHub's autolinks and mentions, or HTML would read as more than text."""
_REPLACED = {
    "<": "&lt;",
    ">": "&gt;",
    "&": "&amp;",
    "@": "`@`",
    ":": "&#58;",
    ".": "&#46;",
}
"""Where a backslash is not enough: autolinks are found in the raw text, and mentions in the
rendered one, where only code is left alone."""


def write(document: Document) -> Iterator[bytes]:
    """The report as Markdown (CommonMark with GitHub's tables), UTF-8."""
    for line in _lines(document):
        yield line.encode("utf-8", "backslashreplace") + b"\n"


def escape(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line: no link, tag, list or mention."""
    return _SPECIAL.sub(_escape_match, " ".join(printable(text).split()))


def _escape_match(match: re.Match[str]) -> str:
    found = match[0]
    return _REPLACED.get(found) or f"{found[:-1]}\\{found[-1]}"


def code(text: str) -> str:
    """Inline code: the fence is longer than any run of backquotes inside."""
    one_line = " ".join(printable(text).split()) or " "
    longest = max((len(run) for run in re.findall(r"`+", one_line)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if one_line[0] == "`" or one_line[-1] == "`" else ""
    return f"{fence}{pad}{one_line}{pad}{fence}"


def _active(document: Document, text: str) -> Iterator[str]:
    """An active test: its own view, as it stands in a terminal."""
    yield f"# {code(document.plan.url)}"
    yield ""
    # An indented block: no fence that the text could close.
    yield from (f"    {printable(line)}" if line else "" for line in text.splitlines())
    yield ""
    tool = f"{document.tool.name} {document.tool.version}"
    yield escape(f"Measured by {tool}, {len(document.runs)} streams at the same time.")


def _lines(document: Document) -> Iterator[str]:
    active = active_text.render(document)
    if active is not None:
        yield from _active(document, active)
        return
    plan = document.plan
    yield f"# {escape(plan.method)} {code(plan.url)}"
    for number, run in enumerate(document.runs, start=1):
        if len(document.runs) > 1:
            yield ""
            yield f"## Run {number} of {len(document.runs)}"
        yield from _run(run)
    if len(document.runs) > 1:
        yield from _spread(document.summary)
    yield from _again(plan)
    yield ""
    tool = f"{document.tool.name} {document.tool.version}"
    measured = "; ".join(dict.fromkeys(digest.instrument(run.report) for run in document.runs))
    yield escape(f"Measured by {tool} ({measured}).")


def _run(run: Run) -> Iterator[str]:
    yield ""
    for line in digest.identity(run.trace):
        yield f"- {line.label}: {code(line.value)}"
    for text in (digest.connection(run.trace), digest.conversation(run.trace)):
        if text:
            yield f"- {escape(text)}"
    for text in digest.failure(run.trace):
        yield f"- **{escape(text)}**"
    yield ""
    yield f"**{escape(sentence(run.report))}**"
    if run.report.hops:
        yield from _hops(run.report)
    yield from _cadence(run.report)
    if run.report.findings:
        yield from _findings(run.report.findings)


def _hops(report: Report) -> Iterator[str]:
    yield ""
    yield "| hop | time | ± | share | source | driven by |"
    yield "|---|---:|---:|---:|---|---|"
    whole = report.latency.e2e_ms
    for hop in report.hops:
        name = escape(hop.title) if hop.within is None else f"&nbsp;&nbsp;{escape(hop.title)}"
        part = escape(share(hop.duration_ms, whole))
        source = "" if hop.source is FactSource.OBSERVED else hop.source.value
        drivers = escape("; ".join(hop.drivers))
        times = f"{format_ms(hop.duration_ms)} | {format_ms(hop.error_ms)}"
        yield f"| {name} | {times} | {part} | {source} | {drivers} |"
    yield f"| **total** | **{format_ms(whole)}** | | | | |"
    yield ""
    yield _first_token(report)


def _first_token(report: Report) -> str:
    latency = report.latency
    if latency.ttft_ms is None:
        why = f": {escape(latency.ttft_never)}" if latency.ttft_never else ""
        return f"No visible token{why}."
    text = f"First token (TTFT) at {format_ms(latency.ttft_ms)}"
    if latency.ttft_error_ms is not None:
        text += f" ± {format_ms(latency.ttft_error_ms)}"
    if latency.ttft_request_ms is not None:
        text += f", {format_ms(latency.ttft_request_ms)} after the request"
    return f"{text}."


def _cadence(report: Report) -> Iterator[str]:
    cadence = report.cadence
    if cadence is None or cadence.inter_event_ms is None:
        return
    gaps = cadence.inter_event_ms
    tokens = f"{cadence.output_tokens} tokens, " if cadence.output_tokens is not None else ""
    rate = f", {cadence.tokens_per_s:.4g} tokens/s" if cadence.tokens_per_s is not None else ""
    yield ""
    yield (
        f"Stream: {tokens}{cadence.events} events{rate}; gaps p50 {format_ms(gaps.p50)}, "
        f"p99 {format_ms(gaps.p99)}, max {format_ms(gaps.max)}."
    )
    held = digest.buffering(report)
    if held is not None:
        yield ""
        yield f"On its way: {escape(held)}."


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    yield ""
    yield "### Findings"
    for finding in findings:
        yield ""
        yield f"- **{escape(finding.code)}** ({finding.severity.value}) {escape(finding.title)}"
        for evidence in finding.because:
            yield f"  - {escape(evidence.text)}"
        yield f"  - *{escape(finding.advice)}*"


def _spread(summary: Summary) -> Iterator[str]:
    kinds = list(summary.metrics)
    yield ""
    yield "## All runs: median ± median absolute deviation"
    yield ""
    yield "| | " + " | ".join(escape(kind) for kind in kinds) + " |"
    yield "|---|" + "---:|" * len(kinds)
    for name in metric_names(summary):
        cells = (cell(name, summary.metrics[kind].get(name), "±") for kind in kinds)
        yield f"| {escape(TITLES.get(name, name))} | " + " | ".join(cells) + " |"


def _again(plan: PlanRecord) -> Iterator[str]:
    yield ""
    yield "## How to reproduce"
    yield ""
    yield f"    {printable(command(plan))}"
    missing = omissions(plan)
    if missing:
        yield ""
        yield f"Not kept, to be added: {escape('; '.join(missing))}."
