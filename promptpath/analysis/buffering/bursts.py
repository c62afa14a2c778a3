"""What came together: reads and events grouped into bursts, and the shape these have.

A buffering box turns a steady stream into bursts; how many events, bytes, segments and frames a
burst has says who made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from promptpath.analysis.buffering.evidence import Evidence
from promptpath.model.units import NS_PER_MS, Ns

SILENCE_NS = 5 * NS_PER_MS
"""A burst ends with 5 ms of silence: half the interval of the fastest recorded streams (10 ms), and
above the jitter of their proxies (measured: p99 4.0 ms of 60,600 events on loopback)."""


@dataclass(slots=True, kw_only=True)
class Burst:
    """Reads without a silence between them."""

    start_ns: Ns
    end_ns: Ns
    first_event: int
    """Index of its first event; meaningless without events."""
    events: int = 0
    size: int = 0
    segments: int = 0
    ooo: int = 0
    pending: int = 0
    """Bytes of an unfinished event at its end."""
    late_ns: Ns = 0
    """The longest any of its reads came late."""
    reads: int = 0


def find_bursts(evidence: Evidence) -> list[Burst]:
    """The bursts in order of time; a last read without events (a bare last chunk) is none."""
    reads, events = evidence.reads, evidence.events
    by_read = Counter(events.read)
    bursts: list[Burst] = []
    seen = 0
    last = len(reads) - 1
    for index in range(len(reads)):
        at_ns = reads.at_ns[index]
        if index == last and not by_read[index]:
            break
        if not bursts or at_ns - bursts[-1].end_ns >= SILENCE_NS:
            bursts.append(Burst(start_ns=at_ns, end_ns=at_ns, first_event=seen))
        burst = bursts[-1]
        burst.end_ns = at_ns
        burst.events += by_read[index]
        burst.size += reads.size[index]
        burst.segments += max(reads.segments[index], 0)
        burst.ooo += max(reads.ooo[index], 0)
        burst.pending = max(reads.pending[index], 0)
        burst.late_ns = max(burst.late_ns, reads.late_ns[index])
        burst.reads += 1
        seen += by_read[index]
    return bursts


def variation(values: Sequence[float]) -> float:
    """Coefficient of variation: standard deviation by mean; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    if mean <= 0:
        return 0.0
    return sqrt(sum((value - mean) ** 2 for value in values) / len(values)) / mean


def mode(values: Sequence[int]) -> tuple[int, float]:
    """The most frequent value and its share; (0, 0.0) for fewer than three values."""
    if len(values) < 3:
        return 0, 0.0
    value, count = Counter(values).most_common(1)[0]
    return value, count / len(values)
