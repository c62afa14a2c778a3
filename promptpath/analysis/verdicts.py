"""The verdicts of a report, one a question."""

from __future__ import annotations

from promptpath.analysis.buffering.verdict import buffering_verdict
from promptpath.analysis.view import Measured
from promptpath.analysis.where import judge_where
from promptpath.model.names import HTTP_END, HTTP_STATUS, STREAM_END
from promptpath.model.report import Evidence, Verdict


def verdicts_of(measured: Measured) -> tuple[Verdict, ...]:
    """Where the time went, how the stream ended, and what happened to it on its way."""
    found = [judge_where(measured), _end_verdict(measured)]
    if measured.buffering is not None:
        found.append(buffering_verdict(measured.buffering))
    return tuple(found)


def _end_verdict(measured: Measured) -> Verdict:
    """The end state is what transport and dialect say, so it is certain as far as these are
    recorded."""
    facts = measured.facts
    end, http = facts.record(STREAM_END), facts.record(HTTP_END)
    marker = {True: "seen", False: "not seen"}.get(bool(end.get("marker_seen")), "not seen")
    expected = "expected" if end.get("marker_expected") else "not part of this dialect"
    complete = "whole" if http.get("complete") is True else "not whole"
    because = [
        Evidence(text=f"end marker {expected}, {marker}", facts=(STREAM_END,)),
        Evidence(text=f"by HTTP framing the response is {complete}", facts=(HTTP_END,)),
    ]
    if measured.status is None:
        because = [Evidence(text="no response head arrived")]
    elif not end:
        because = [Evidence(text=f"status {measured.status}, no stream", facts=(HTTP_STATUS,))]
    return Verdict(
        question="end-state",
        answer=measured.end_state.value,
        confidence=1.0,
        because=tuple(because),
    )
