"""The hops: where the time of the trip went.

The top-level hops are disjoint by construction: the spans of the critical path are walked in
order of their start with a cursor, and each hop begins where the cursor stands. What no hop
covers is `unexplained`: time in this process between two stages. After a redirect the stages
appear again, in trip order, with the number of the exchange in their title; nothing is summed
over exchanges, so each keeps its place in time.

`wait` ends with the first visible token; with the first token of any kind when none was visible;
with the end of the response when it had none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from promptpath.analysis.milestones import USER_LAG_NS, Instants, early_error
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    SPAN_DIAL,
    SPAN_HANDSHAKE,
    SPAN_PROXY_DIAL,
    SPAN_PROXY_TLS,
    SPAN_PROXY_TUNNEL,
    SPAN_QUERY,
    SPAN_RESOLVE,
    SPAN_RESPONSE,
    SPAN_REUSE,
    SPAN_SECOND,
    SPAN_UPLOAD,
)
from promptpath.model.rows import Span
from promptpath.model.stamp import Stamp
from promptpath.model.trace import Trace
from promptpath.model.units import Ns

_CRITICAL = {
    (Stage.DNS, SPAN_RESOLVE),
    (Stage.PROXY, SPAN_PROXY_DIAL),
    (Stage.PROXY, SPAN_DIAL),
    (Stage.PROXY, SPAN_PROXY_TLS),
    (Stage.PROXY, SPAN_PROXY_TUNNEL),
    (Stage.TCP, SPAN_DIAL),
    (Stage.TLS, SPAN_HANDSHAKE),
    (Stage.QUIC, SPAN_HANDSHAKE),
    (Stage.REQUEST, SPAN_UPLOAD),
    (Stage.WAIT, SPAN_RESPONSE),
}
"""Everything else is part of one of these or lies off the critical path."""
_ASIDE = frozenset({SPAN_QUERY, SPAN_REUSE, SPAN_SECOND})
"""Our own DNS queries and the second connection of the resumption check: nobody waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """A top-level hop in ns."""

    stage: Stage
    start_ns: Ns
    end_ns: Ns
    error_ns: Ns
    exchange: int
    """0 for the first request, counted up by every redirect."""
    spans: tuple[Span, ...]
    failed: bool = False

    @property
    def duration_ns(self) -> Ns:
        """End minus start, never negative."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The trip in ns."""

    t0_ns: Ns
    """The first action of the trip: the DNS question, or the request on a warm connection."""
    end_ns: Ns
    legs: tuple[Leg, ...]
    exchanges: int
    request_end_ns: Ns | None
    """The last request byte of the final exchange on the wire."""

    @property
    def e2e_ns(self) -> Ns:
        """t0 to the end."""
        return self.end_ns - self.t0_ns

    @property
    def unexplained_ns(self) -> Ns:
        """What no leg covers; never negative, because legs are disjoint and lie inside."""
        return self.e2e_ns - sum(leg.duration_ns for leg in self.legs)

    def of(self, stage: Stage) -> tuple[Leg, ...]:
        """The legs of one stage, one an exchange at most (several for proxies)."""
        return tuple(leg for leg in self.legs if leg.stage is stage)

    def total_ns(self, *stages: Stage) -> Ns:
        """Time in these stages together."""
        return sum(leg.duration_ns for leg in self.legs if leg.stage in stages)

    @property
    def final_wait(self) -> Leg | None:
        """The wait of the last exchange, once its request was sent."""
        waits = self.of(Stage.WAIT)
        return waits[-1] if waits and waits[-1].exchange == self.exchanges - 1 else None

    @property
    def generation(self) -> Leg | None:
        """First to last token; None where there was none."""
        found = self.of(Stage.GENERATION)
        return found[-1] if found else None


def critical_spans(trace: Trace) -> list[Span]:
    """The spans of the critical path in order of their start: those no other one of them holds."""
    by_id = {span.id: span for span in trace.spans}
    spans = [
        span
        for span in trace.spans
        if _is_critical(span)
        and not any(_is_critical(up) or up.name in _ASIDE for up in _ancestors(span, by_id))
    ]
    return sorted(spans, key=lambda span: (span.start_ns, span.id))


def _is_critical(span: Span) -> bool:
    return (span.stage, span.name) in _CRITICAL


def _ancestors(span: Span, by_id: dict[int, Span]) -> Iterator[Span]:
    """The spans that hold this one; a parent is always older, which also ends a forged circle."""
    while span.parent is not None and span.parent < span.id and span.parent in by_id:
        span = by_id[span.parent]
        yield span


class EdgeErrors:
    """The errors of intervals, from the stamps that carry their two instants."""

    def __init__(self, trace: Trace, instants: Instants) -> None:
        self._known: dict[Ns, tuple[Ns, Ns]] = {}
        for mark in trace.marks:
            self._note(mark.stamp)
        for stamp in (instants.first_visible, instants.first_content, instants.last_token):
            if stamp is not None:
                self._note(stamp)

    def _note(self, stamp: Stamp) -> None:
        """Keep the tighter one of two stamps of one instant."""
        sides = (early_error(stamp), max(stamp.hi_ns - stamp.at_ns, 0))
        if stamp.at_ns not in self._known or sum(sides) < sum(self._known[stamp.at_ns]):
            self._known[stamp.at_ns] = sides

    def of(self, start_ns: Ns, end_ns: Ns) -> Ns:
        """The error of an interval.

        Where no stamp carries its start, it began with an act of ours, which is not late; where
        none carries its end, we may have noticed that late. The end cannot have been before the
        start, whatever the stamp allows. An interval between an instant and itself has no error.
        """
        if start_ns == end_ns:
            return 0
        length = end_ns - start_ns
        begin = self._known.get(start_ns, (0, 0))
        early, late = self._known.get(end_ns, (USER_LAG_NS, 0))
        return max(begin) + max(min(early, length), late)


def break_down(trace: Trace, instants: Instants) -> Breakdown:
    """The legs of the trip. Without a single span: an empty trip of length 0."""
    spans = critical_spans(trace)
    if not spans:
        return Breakdown(t0_ns=0, end_ns=0, legs=(), exchanges=0, request_end_ns=None)
    t0_ns = spans[0].start_ns
    walker = _Walker(EdgeErrors(trace, instants), t0_ns, _last_instant(trace, instants))
    responses = [span for span in spans if span.name == SPAN_RESPONSE]
    for span in spans:
        if responses and span is responses[-1]:
            walker.final_response(span, instants)
        else:
            walker.take(span)
    uploads = [span for span in spans if span.name == SPAN_UPLOAD]
    return Breakdown(
        t0_ns=t0_ns,
        end_ns=max(walker.cursor_ns, t0_ns),
        legs=tuple(walker.legs),
        exchanges=max(leg.exchange for leg in walker.legs) + 1,
        request_end_ns=uploads[-1].end_ns if uploads else None,
    )


def _last_instant(trace: Trace, instants: Instants) -> Ns:
    """The end of spans that were cut open: the latest thing the trace knows of."""
    stamps = [instants.headers, instants.last_token, instants.end_marker, instants.eof]
    known = [stamp.at_ns for stamp in stamps if stamp is not None]
    known += [span.end_ns if span.end_ns is not None else span.start_ns for span in trace.spans]
    return max(known, default=0)


class _Walker:
    """Lays legs end to end along the cursor."""

    def __init__(self, errors: EdgeErrors, t0_ns: Ns, open_end_ns: Ns) -> None:
        self.legs: list[Leg] = []
        self.cursor_ns = t0_ns
        self.exchange = 0
        self._errors = errors
        self._open_end_ns = open_end_ns

    def take(self, span: Span) -> None:
        """A span that is one leg; proxy spans in a row are one leg together."""
        end_ns = self._end(span)
        previous = self.legs[-1] if self.legs else None
        if previous is not None and previous.stage is span.stage is Stage.PROXY:
            self.legs.pop()
            self._lay(Stage.PROXY, previous.start_ns, end_ns, (*previous.spans, span))
        else:
            self._lay(span.stage, span.start_ns, end_ns, (span,))
        if span.name == SPAN_RESPONSE:
            self.exchange += 1

    def final_response(self, span: Span, instants: Instants) -> None:
        """The last response: wait, generation, finish."""
        end_ns = self._end(span)
        begin = instants.first_visible or instants.first_content
        last = instants.last_token
        if begin is None or last is None:
            self._lay(Stage.WAIT, span.start_ns, end_ns, (span,))
        else:
            self._lay(Stage.WAIT, span.start_ns, min(begin.at_ns, end_ns), (span,))
            self._lay(Stage.GENERATION, begin.at_ns, min(last.at_ns, end_ns), ())
            self._lay(Stage.FINISH, last.at_ns, end_ns, (span,))
        self.exchange += 1

    def _end(self, span: Span) -> Ns:
        return self._open_end_ns if span.end_ns is None else span.end_ns

    def _lay(self, stage: Stage, start_ns: Ns, end_ns: Ns, spans: Sequence[Span]) -> None:
        proxy_again = stage is Stage.PROXY and len(spans) > 1
        start_ns = start_ns if proxy_again else max(start_ns, self.cursor_ns)
        end_ns = max(end_ns, start_ns)
        self.legs.append(
            Leg(
                stage=stage,
                start_ns=start_ns,
                end_ns=end_ns,
                error_ns=self._errors.of(start_ns, end_ns),
                exchange=self.exchange,
                spans=tuple(spans),
                failed=any(span.outcome is not Outcome.OK for span in spans),
            )
        )
        self.cursor_ns = max(self.cursor_ns, end_ns)
