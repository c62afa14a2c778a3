"""The headline times."""

from __future__ import annotations

from promptpath.analysis.milestones import milestones_ms
from promptpath.analysis.stats import error_ms
from promptpath.analysis.view import Measured
from promptpath.model.enums import EndState, EventKind
from promptpath.model.names import STREAM_USAGE
from promptpath.model.report import Latency
from promptpath.model.units import opt_ms, to_ms


def latency_of(measured: Measured) -> Latency:
    """The report's `latency`."""
    breakdown = measured.breakdown
    instants = milestones_ms(measured.instants, breakdown.t0_ns)
    error_ns = measured.ttft_error_ns
    visible, sent_ns = measured.instants.first_visible, breakdown.request_end_ns
    return Latency(
        headers_ms=instants.headers_ms,
        ttfb_ms=instants.first_byte_ms,
        first_frame_ms=instants.first_frame_ms,
        first_reasoning_ms=instants.first_reasoning_ms,
        ttft_ms=opt_ms(measured.ttft_ns),
        ttft_request_ms=None
        if visible is None or sent_ns is None
        else to_ms(visible.at_ns - sent_ns),
        e2e_ms=to_ms(breakdown.e2e_ns),
        unexplained_ms=to_ms(breakdown.unexplained_ns),
        ttft_error_ms=None if error_ns is None else error_ms(error_ns),
        ttft_never=None if visible is not None else why_never(measured),
    )


def why_never(measured: Measured) -> str:
    """Why there was no visible text, in words."""
    scan = measured.scan
    by_state = {
        EndState.NO_RESPONSE: "no response came",
        EndState.NOT_A_STREAM: "the response is no AI stream",
        EndState.ERROR_IN_STREAM: "the stream brought an error",
    }
    if measured.end_state in by_state:
        return by_state[measured.end_state]
    if scan.count(EventKind.REFUSAL):
        return "the model refused"
    if scan.count(EventKind.TOOL):
        return "a tool call only"
    if scan.count(EventKind.REASONING):
        return "reasoning only"
    if measured.facts.record(STREAM_USAGE).get("reasoning_tokens"):
        return "hidden reasoning only"
    if measured.end_state is EndState.STOPPED_BY_US:
        return "stopped before the first visible text"
    if measured.end_state is EndState.TRUNCATED:
        return "cut before the first visible text"
    return "the answer is empty"
