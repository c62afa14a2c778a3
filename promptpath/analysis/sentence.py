"""The report in one sentence, with its evidence: for the terminal and the ticket."""

from __future__ import annotations

from promptpath.analysis.where import INCONCLUSIVE, QUESTION
from promptpath.model.enums import EndState, Severity
from promptpath.model.report import Report, Verdict
from promptpath.model.rows import Json
from promptpath.model.units import format_ms

_OPENINGS = {
    "path": "The network path took",
    "box": "Proxies and gateways took",
    "queue": "The server's queue took",
    "prefill": "The server's prefill took",
    "decode": "Decoding took",
    "server": "The server side (nothing reported splits it) took",
    "client": "The measuring machine itself took",
}
_ENDS = {
    EndState.NO_END_MARKER: "the stream ended without its end marker",
    EndState.TRUNCATED: "the stream was cut",
    EndState.ERROR_IN_STREAM: "the stream brought an error",
    EndState.OPEN_AFTER_MARKER: "the response stayed open after its end marker",
    EndState.STOPPED_BY_US: "a limit of ours ended it",
}

_INTERRUPTED = "PP909"
"""The finding of Ctrl-C: the end was ours, but no limit's."""


def where_verdict(report: Report) -> Verdict | None:
    """The report's answer to "where did the time go"."""
    return next((v for v in report.verdicts if v.question == QUESTION), None)


def sentence(report: Report) -> str:
    """One sentence: the verdict, the numbers behind it, and what went wrong, if anything did."""
    verdict = where_verdict(report)
    if report.end_state is EndState.NO_RESPONSE:
        return _no_response(report)
    if verdict is None or verdict.answer == INCONCLUSIVE:
        said = _inconclusive(report, verdict)
    else:
        said = _shares(report, verdict)
    end = _ENDS.get(report.end_state)
    if any(finding.code == _INTERRUPTED for finding in report.findings):
        end = "it was interrupted"
    return f"{said}; {end}." if end else f"{said}."


def _no_response(report: Report) -> str:
    errors = [f for f in report.findings if f.severity is Severity.ERROR]
    lasted = format_ms(report.latency.e2e_ms)
    if errors and errors[0].because:
        return f"No response after {lasted}: {errors[0].because[0].text}."
    return f"No response after {lasted}."


def _shares(report: Report, verdict: Verdict) -> str:
    """ "The server's prefill took 61 % of the 1.84 s to the first token; the path added 44 ms (2
    %)"."""
    answer = verdict.answer
    time_ms = _number(verdict.estimate.get(f"{answer}_ms"))
    whole_ms, whole = _whole(report, verdict)
    said = f"{_OPENINGS[answer]} {_share(time_ms, whole_ms)} of the {format_ms(whole_ms)} {whole}"
    if answer == "decode" and report.cadence is not None and report.cadence.tokens_per_s:
        said += f" ({report.cadence.tokens_per_s:g} tokens/s)"
    if answer != "path" and (path_ms := _number(verdict.estimate.get("path_ms"))):
        said += f"; the path added {format_ms(path_ms)} ({_share(path_ms, whole_ms)})"
    return said


def _whole(report: Report, verdict: Verdict) -> tuple[float, str]:
    """What shares are taken of: time to the first token where the answer lies before it, else to
    the last."""
    ttft_ms = report.latency.ttft_ms
    before = verdict.answer in ("queue", "prefill", "path", "box", "client")
    if before and ttft_ms is not None:
        return ttft_ms, "to the first token"
    total_ms = _number(verdict.estimate.get("total_ms"))
    # The shares end at the last token; where the finish shows, this is not the table's total.
    shorter = format_ms(total_ms) != format_ms(report.latency.e2e_ms)
    to_last = shorter and report.milestones.last_token_ms is not None
    return total_ms, "to the last token" if to_last else "trip"


def _inconclusive(report: Report, verdict: Verdict | None) -> str:
    ttft_ms = report.latency.ttft_ms
    first = (
        f"{format_ms(ttft_ms)} to the first token"
        if ttft_ms is not None
        else f"No visible text in {format_ms(report.latency.e2e_ms)}"
    )
    unknown_ms = _number(verdict.estimate.get("unknown_ms")) if verdict else 0.0
    if unknown_ms:
        return f"{first}; {format_ms(unknown_ms)} of the trip cannot be given to anybody"
    return f"{first}; no single stage stands out"


def _share(part_ms: float, whole_ms: float) -> str:
    if whole_ms <= 0:
        return "all"
    percent = 100 * part_ms / whole_ms
    return f"{percent:.0f} %" if percent >= 1 else "under 1 %"


def _number(value: Json) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
