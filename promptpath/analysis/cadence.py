"""The rhythm of the stream: gaps between events, time per token, stalls.

A gap lies between two events with content. One event is not one token, so ITL divides each gap by
the tokens of the event that ends it; an event without a token of its own (half a character)
passes its gap on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.analysis.facts import Facts, text, whole
from promptpath.analysis.scan import MISSING, Content, Scan
from promptpath.analysis.stats import ascending, quantile, quantiles_ms
from promptpath.model.enums import EventKind
from promptpath.model.names import OUTPUT_TOKENS, STREAM_USAGE
from promptpath.model.report import Cadence, Stall
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns, to_ms

MIN_GAPS = 8
"""Below 8 gaps a rhythm is not known; measured: the classifier tuned on 1,610 recorded streams
refuses shorter ones."""
PERCEIVED_NS = 100 * NS_PER_MS
"""A pause shorter than 0.1 s is not seen as one (Miller 1968, "Response time in man-computer
conversational transactions"; Nielsen 1993, chapter 5)."""
FAR_OUT = 3
"""Tukey's outer fence, Q3 + 3 IQR: values beyond are "far out" (Exploratory Data Analysis, 1977).
"""
RHYTHM_MULTIPLE = 4
"""A burst rhythm has its long gaps in the p90 already; exponential gaps (mean m, p90 = 2.3 m)
exceed 4 p90 with e^-9.2, once in 10,000, where Tukey's fence alone would call 1 in 110 of them a
stall."""
MAX_LISTED_STALLS = 100
"""A report lists the longest; a hostile stream must not make it large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How many tokens came, and who says so."""

    output: int | None
    """All the model made, hidden ones included."""
    streamed: int | None
    """Those that came through the stream: what per-token times divide by."""
    source: str | None
    """usage | o200k_base | estimate | events."""


def count_tokens(facts: Facts, scan: Scan) -> Tokens:
    """Usage beats our own count, which beats the sum over events. Reasoning tokens that usage
    counts but the stream never showed are not streamed ones."""
    usage = facts.record(STREAM_USAGE)
    output = whole(usage.get("output_tokens"))
    if output:
        hidden = whole(usage.get("reasoning_tokens")) or 0
        shown = scan.count(EventKind.REASONING) > 0
        streamed = output if shown or hidden >= output else output - hidden
        return Tokens(output=output, streamed=streamed, source="usage")
    counted = facts.record(OUTPUT_TOKENS)
    number = whole(counted.get("counted"))
    if number:
        return Tokens(output=number, streamed=number, source=text(counted.get("source")))
    summed = sum(tokens for tokens in scan.content.tokens if tokens != MISSING)
    if summed:
        return Tokens(output=summed, streamed=summed, source="events")
    return Tokens(output=None, streamed=None, source=None)


def gaps_ns(content: Content) -> array[int]:
    """The gaps between content events, in ns: one less than there are events."""
    at = content.at_ns
    return array("q", (at[i + 1] - at[i] for i in range(len(at) - 1)))


def itl_ns(content: Content) -> array[float]:
    """One value a token-bearing event after the first: its gap divided by its tokens."""
    found = array("d")
    carried = 0
    for index in range(1, len(content)):
        carried += content.at_ns[index] - content.at_ns[index - 1]
        tokens = content.tokens[index]
        if tokens == MISSING:
            carried = 0
        elif tokens > 0:
            found.append(carried / tokens)
            carried = 0
    return found


def stall_fence_ns(ordered: Sequence[float]) -> Ns | None:
    """The gap beyond which this stream stalls, from its own rhythm; None when there are too few
    gaps."""
    if len(ordered) < MIN_GAPS:
        return None
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    far_out = high + FAR_OUT * (high - low)
    return round(max(far_out, RHYTHM_MULTIPLE * quantile(ordered, 0.9), PERCEIVED_NS))


def stall_gaps(trace: Trace, content: Content, gaps: array[int], fence: Ns | None) -> list[int]:
    """Indexes into `gaps` of the stalls: gaps beyond the fence even at the short end of their
    error."""
    if fence is None:
        return []
    found: list[int] = []
    for index, gap in enumerate(gaps):
        if gap > fence:
            before = trace.events[content.index[index]]
            after = trace.events[content.index[index + 1]]
            if after.lo_ns - before.hi_ns > fence:
                found.append(index)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """What the cadence was made from, for the rules that look closer."""

    gaps: array[int]
    stalls: list[int]
    """Indexes into `gaps`."""
    median_gap_ns: Ns | None
    """The middle gap; None without gaps."""
    tokens: Tokens
    cadence: Cadence

    @property
    def stall_excess_ns(self) -> Ns:
        """What the stalls cost beyond the stream's usual gap."""
        usual = self.median_gap_ns or 0
        return sum(self.gaps[index] - usual for index in self.stalls)


def judge_cadence(trace: Trace, facts: Facts, scan: Scan, t0_ns: Ns) -> Rhythm | None:
    """The rhythm of the stream; None when no event carried content."""
    content = scan.content
    if not len(content):
        return None
    # First, so that a long stream's columns are not all in memory at once.
    itl_ms = quantiles_ms(ascending(itl_ns(content)))
    gaps = gaps_ns(content)
    ordered = ascending(gaps)
    stalls = stall_gaps(trace, content, gaps, stall_fence_ns(ordered))
    tokens = count_tokens(facts, scan)
    cadence = Cadence(
        output_tokens=tokens.output,
        token_source=tokens.source,
        events=len(content),
        tokens_per_event=_ratio(tokens.streamed, len(content)),
        inter_event_ms=quantiles_ms(ordered),
        itl_ms=itl_ms,
        tpot_ms=_tpot_ms(content, tokens.streamed),
        tokens_per_s=_tokens_per_s(content, tokens.streamed),
        stalls=tuple(_stall(content, gaps, index, t0_ns) for index in _longest(gaps, stalls)),
    )
    return Rhythm(
        gaps=gaps,
        stalls=stalls,
        median_gap_ns=round(quantile(ordered, 0.5)) if ordered else None,
        tokens=tokens,
        cadence=cadence,
    )


def _longest(gaps: array[int], stalls: list[int]) -> list[int]:
    longest = sorted(stalls, key=lambda index: (-gaps[index], index))[:MAX_LISTED_STALLS]
    return sorted(longest)


def _stall(content: Content, gaps: array[int], index: int, t0_ns: Ns) -> Stall:
    return Stall(
        after_event=content.index[index],
        start_ms=to_ms(content.at_ns[index] - t0_ns),
        duration_ms=to_ms(gaps[index]),
    )


def _ratio(tokens: int | None, events: int) -> float | None:
    return None if tokens is None else round(tokens / events, 2)


def _tpot_ms(content: Content, tokens: int | None) -> float | None:
    """(last token - first token) / (tokens - 1), the definition the benchmarks share."""
    span = content.at_ns[-1] - content.at_ns[0]
    if tokens is None or tokens < 2 or span <= 0:
        return None
    return to_ms(round(span / (tokens - 1)))


def _tokens_per_s(content: Content, tokens: int | None) -> float | None:
    """Tokens after the first event, over the time after the first event: a first event that bundles
    several tokens must not make the stream look faster than it is."""
    span = content.at_ns[-1] - content.at_ns[0]
    if tokens is None or span <= 0:
        return None
    bundled = content.tokens[0] if content.tokens[0] > 0 else 1
    later = tokens - bundled
    return round(later * NS_PER_S / span, 2) if later > 0 else None
