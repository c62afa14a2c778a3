"""The ledger of connection attempts: who won, who lost, what the losers cost (RFC 8305)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from promptpath.analysis.breakdown import critical_spans
from promptpath.model.enums import Outcome
from promptpath.model.names import SPAN_CONNECT, SPAN_DIAL, SPAN_PROXY_DIAL
from promptpath.model.rows import Span
from promptpath.model.trace import Trace
from promptpath.model.units import Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """One dial: all attempts to reach one name."""

    span: Span
    winner: Span | None
    losers: tuple[Span, ...]

    @property
    def cost_ns(self) -> Ns:
        """From the first attempt to the start of the one that won; 0 when the first won or none
        did."""
        if self.winner is None or not self.losers:
            return 0
        return max(self.winner.start_ns - min(span.start_ns for span in self.losers), 0)


DIALS = frozenset({SPAN_DIAL, SPAN_PROXY_DIAL})


def dials(trace: Trace) -> list[Dial]:
    """The dials of the critical path in order, a proxy's included."""
    return [_dial(trace, span) for span in critical_spans(trace) if span.name in DIALS]


def dial_of(trace: Trace, spans: Iterable[Span]) -> Dial | None:
    """The dial among these spans."""
    for span in spans:
        if span.name in DIALS:
            return _dial(trace, span)
    return None


def _dial(trace: Trace, dial: Span) -> Dial:
    attempts = [s for s in trace.spans if s.name == SPAN_CONNECT and s.parent == dial.id]
    winner = next((span for span in attempts if span.outcome is Outcome.OK), None)
    return Dial(
        span=dial,
        winner=winner,
        losers=tuple(span for span in attempts if span is not winner),
    )
