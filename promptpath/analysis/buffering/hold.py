"""How long were events held? An estimate from arrivals alone, and the measured one with the
sender's stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.analysis.buffering.bursts import Burst
from promptpath.analysis.buffering.evidence import Evidence
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.stats import median, quantile
from promptpath.model.units import NS_PER_MS, Ns

TOLERATED_NS = 20 * NS_PER_MS
"""With half a round trip: what TCP, jitter and batching do on a healthy path at the 90th percentile
(measured: 12.6 ms at most on loopback, 38 ms at a round trip of 40 ms with loss and Nagle)."""
FIRST_BURST = 4
"""Events in a first burst from which on it is judged by the rhythm of the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """How long events were kept by somebody who already had them."""

    p50_ns: Ns
    p90_ns: Ns
    """A tenth of the events were held at least so long."""
    max_ns: Ns
    first_ns: Ns
    """Of the first event: what the hold adds to the time to the first token."""
    error_ns: Ns
    """Of `p90_ns`."""
    measured: bool
    """By the sender's stamps; else estimated from arrivals."""


def tolerated_ns(evidence: Evidence) -> Ns:
    """The hold at the 90th percentile up to which a stream counts as streaming."""
    return TOLERATED_NS + evidence.rtt_ns // 2


def estimate_hold(shape: Shape, *, with_first: bool = True) -> Hold:
    """From arrivals: of k events that came `gap` after the burst before, number j was held about
    gap * (k - j) / k, if its sender's rhythm is steady; one interval, gap / k, is the error.

    Nothing lies before the first burst. If it has several events and the rest came one by one,
    their rhythm says how long the first were held; without `with_first` it counts as not held.
    """
    held: list[float] = []
    steps: list[float] = []
    before: Ns | None = None
    for burst in shape.bursts:
        if burst.events:
            if before is not None:
                step = (burst.start_ns - before) / burst.events
            else:
                step = _first_step(shape, burst) if with_first else 0.0
            held += [step * (burst.events - j) for j in range(1, burst.events + 1)]
            steps.append(step)
        before = burst.start_ns
    typical = median(steps) if steps else 0.0
    return _hold(held, error_ns=round(typical), measured=False)


def estimate_whole_hold(shape: Shape) -> Hold:
    """Of a stream that came at once: its events were made somewhere between one round trip after
    the request and their arrival. Spread evenly over that time, as if the model had begun at once;
    half of it is the error."""
    made_ns = max(0, shape.waited_ns - shape.evidence.rtt_ns)
    count = shape.events
    held = [made_ns * (count - number) / count for number in range(1, count + 1)]
    return _hold(held, error_ns=made_ns // 2, measured=False)


def _first_step(shape: Shape, first: Burst) -> float:
    """The interval at which the events of the first burst were made, by the rhythm of the rest."""
    rest = shape.events - first.events
    if first.events < FIRST_BURST or rest < FIRST_BURST:
        return 0.0
    step = (shape.evidence.events.at_ns[-1] - first.end_ns) / rest
    # Nothing was made before it was asked for.
    return min(step, max(0, shape.waited_ns - shape.evidence.rtt_ns) / first.events)


def excess_ns(evidence: Evidence) -> list[Ns]:
    """Each event's way from sending to arrival beyond the fastest one's: the clocks' offset and
    the path's own delay fall out. The events must be stamped."""
    events = evidence.events
    ways = [at - sent for at, sent in zip(events.at_ns, events.server_ns, strict=True)]
    fastest = min(ways)
    return [way - fastest for way in ways]


def measure_hold(evidence: Evidence) -> Hold:
    """From the sender's stamps, by `excess_ns`; its error is half a round trip, which even the
    fastest event may have lost, and how late reads of one segment usually came. (How wide the
    stamp of several segments is says nothing of those of a burst, which came back to back.)"""
    reads = evidence.reads
    single = [late for late, n in zip(reads.late_ns, reads.segments, strict=True) if n == 1]
    late = round(median(single)) if single else 0
    return _hold(excess_ns(evidence), error_ns=evidence.rtt_ns // 2 + late, measured=True)


def reached_by_a_tenth(ordered: Sequence[float]) -> float:
    """The largest of the ascending values that at least a tenth of them reach. A quantile between
    two values would hide the held ones of a short stream. ValueError without values."""
    if not ordered:
        raise ValueError("no quantile of nothing")
    return ordered[len(ordered) * 9 // 10]


def _hold(held: Sequence[float], *, error_ns: Ns, measured: bool) -> Hold:
    ordered = sorted(held)
    return Hold(
        p50_ns=round(quantile(ordered, 0.5)),
        p90_ns=round(reached_by_a_tenth(ordered)),
        max_ns=round(ordered[-1]),
        first_ns=round(held[0]),
        error_ns=error_ns,
        measured=measured,
    )
