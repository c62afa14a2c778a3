"""A judgement as the report's verdict, and as what a person reads of it."""

from __future__ import annotations

from collections.abc import Mapping

from promptpath.analysis.buffering.judgement import BOX, Answer, Judgement
from promptpath.model.names import HTTP_HEADERS
from promptpath.model.redact import printable
from promptpath.model.report import Evidence as Reason
from promptpath.model.report import Verdict
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_MS, Ns, format_duration, to_ms

QUESTION = "buffering"
NOTICED_NS = 100 * NS_PER_MS
"""People notice a pause from 0.1 s on (Miller 1968; Nielsen 1993, chapter 5)."""
PROVEN = 0.8
"""Confidence from which on a box is blamed: four of five, on recordings."""
_NO_BOX = frozenset({Answer.TRANSPORT_CORK, Answer.THROTTLE})
"""They hold little, or for lack of a faster path; round trips alone may look like them."""


def buffering_verdict(judgement: Judgement) -> Verdict:
    """The answer to "buffering?" with estimate, layer, evidence, alternatives and next test."""
    return Verdict(
        question=QUESTION,
        answer=judgement.answer.value,
        confidence=judgement.confidence,
        estimate=_estimate(judgement),
        because=(*judgement.because, *_afterwards(judgement)),
    )


def _estimate(judgement: Judgement) -> dict[str, Json]:
    found: dict[str, Json] = {"tolerated_ms": to_ms(judgement.tolerated_ns)}
    hold = judgement.hold
    if hold is not None:
        found |= {
            "hold_p50_ms": to_ms(hold.p50_ns),
            "hold_p90_ms": to_ms(hold.p90_ns),
            "hold_max_ms": to_ms(hold.max_ns),
            "hold_error_ms": to_ms(hold.error_ns),
            "hold_source": "server-stamps" if hold.measured else "arrivals",
        }
    if judgement.layer is not None:
        found["layer"] = judgement.layer
    if judgement.size_bytes is not None:
        found["size_bytes"] = judgement.size_bytes
    if judgement.period_ns is not None:
        found["period_ms"] = to_ms(judgement.period_ns)
    if judgement.alternatives:
        found["alternatives"] = [answer.value for answer in judgement.alternatives]
    if judgement.next_test is not None:
        found["next_test"] = judgement.next_test
    return found


def _afterwards(judgement: Judgement) -> list[Reason]:
    said = []
    if judgement.alternatives:
        others = ", ".join(answer.value for answer in judgement.alternatives)
        said.append(Reason(text=f"could also be: {others}"))
    if judgement.next_test is not None:
        said.append(Reason(text=f"next test: {judgement.next_test}"))
    return said


_TELLING = ("via", "age", "x-cache", "server", "content-encoding", "content-length")
"""Headers that boxes add or change. Hints only: half of the proxies measured leave none."""
_SHOWN_CHARS = 60


def header_hint(headers: Mapping[str, str]) -> tuple[Reason, ...]:
    """The headers that may tell which box it is; empty when there are none."""
    found = [f"{name}: {headers[name][:_SHOWN_CHARS]}" for name in _TELLING if name in headers]
    if not found:
        return ()
    text = printable("headers that boxes add or change: " + "; ".join(found))
    return (Reason(text=text, facts=(HTTP_HEADERS,)),)


def hold_reason(judgement: Judgement) -> Reason:
    """What the hold is and how it is known."""
    hold = judgement.hold
    if hold is None:
        return Reason(text="the hold is not known", facts=(HTTP_HEADERS,))
    how = "by the sender's stamps" if hold.measured else "estimated from arrivals"
    return Reason(
        text=f"a tenth of the events were held {format_duration(hold.p90_ns)} or longer"
        f" (+-{format_duration(hold.error_ns)}, {how})"
    )


def harms(judgement: Judgement) -> bool:
    """The hold is noticed, and stays above what is tolerated with its error taken off."""
    hold = judgement.hold
    if hold is None or judgement.answer not in BOX:
        return False
    sure = hold.p90_ns - hold.error_ns
    return hold.p90_ns >= NOTICED_NS and sure > judgement.tolerated_ns


def proven(judgement: Judgement) -> bool:
    """A box between the model and us held bytes, beyond reasonable doubt."""
    sure = judgement.stamped or judgement.confidence >= PROVEN
    return sure and harms(judgement) and judgement.answer not in _NO_BOX


def first_hold_ns(judgement: Judgement) -> Ns:
    """What a proven hold adds to the time to the first token, its error taken off; 0 for none."""
    hold = judgement.hold
    if hold is None or not proven(judgement):
        return 0
    return max(0, hold.first_ns - (0 if hold.measured else hold.error_ns))
