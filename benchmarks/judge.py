"""The judge: joins a trace's events to a packet capture by byte offset in the TCP stream."""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from benchmarks.harness import percentile
from tests.peers.capture import SYN, Segment

FALSE_US = 5.0
"""A certified stamp that is further off than this is a false certificate (issue: worst <= 5 us)."""
_SEQUENCE_SPACE = 1 << 32


def realtime_offset_ns() -> tuple[int, int]:
    """(CLOCK_MONOTONIC now, CLOCK_REALTIME minus CLOCK_MONOTONIC): the tightest of 20 brackets."""
    best: tuple[int, int, int] | None = None
    for _ in range(20):
        before = time.monotonic_ns()
        real = time.time_ns()
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = (after - before, before, real - (before + after) // 2)
    assert best is not None
    return best[1], best[2]


@dataclass(frozen=True, slots=True)
class ClockLine:
    """REALTIME minus MONOTONIC on a straight line through two samples, for a capture's stamps."""

    first: tuple[int, int]
    last: tuple[int, int]

    @property
    def drift_ns(self) -> int:
        """How far the wall clock was slewed or stepped between the samples."""
        return self.last[1] - self.first[1]

    def monotonic(self, realtime_ns: int) -> int:
        """A capture's time on the monotonic clock."""
        at_ns = realtime_ns - self.first[1]
        length = max(1, self.last[0] - self.first[0])
        return at_ns - self.drift_ns * (at_ns - self.first[0]) // length


@dataclass(frozen=True, slots=True)
class Truth:
    """When the last byte of an event came, by the capture (CLOCK_REALTIME)."""

    arrived_ns: int | None
    """The first segment that held it."""
    deliverable_ns: int | None
    """When no hole before it was left. Later than arrival after a loss only."""


def truths(
    segments: Iterable[Segment], server_port: int, client_port: int, ends: Sequence[int]
) -> list[Truth]:
    """The truth for each event, whose end offsets (ascending) count all bytes the server sent."""
    arrived: list[int | None] = [None] * len(ends)
    deliverable: list[int | None] = [None] * len(ends)
    first_sequence: int | None = None
    contiguous, done = 0, 0
    early: list[tuple[int, int]] = []
    for segment in segments:
        if segment.source[1] != server_port or segment.target[1] != client_port:
            continue
        if segment.flags & SYN:
            first_sequence = segment.sequence + 1
        if first_sequence is None or not segment.size:
            continue
        start = (segment.sequence - first_sequence) % _SEQUENCE_SPACE
        stop = start + segment.size
        # Event e is in this segment when start < ends[e] <= stop.
        for index in range(bisect_right(ends, start), bisect_right(ends, stop)):
            if arrived[index] is None:
                arrived[index] = segment.at_ns
        heapq.heappush(early, (start, stop))
        while early and early[0][0] <= contiguous:
            contiguous = max(contiguous, heapq.heappop(early)[1])
        while done < len(ends) and ends[done] <= contiguous:
            deliverable[done] = segment.at_ns
            done += 1
    return [Truth(*pair) for pair in zip(arrived, deliverable, strict=True)]


def client_port(segments: Sequence[Segment], server_port: int) -> int:
    """The port of the connection that got the most bytes (a second one may test resumption)."""
    sizes: dict[int, int] = {}
    for segment in segments:
        if segment.source[1] == server_port:
            port = segment.target[1]
            sizes[port] = sizes.get(port, 0) + segment.size
    return max(sizes, key=lambda port: sizes[port])


@dataclass(frozen=True, slots=True)
class Judged:
    """One event: what the tool said against what the capture says, nanoseconds on the run clock."""

    exact: bool
    error_ns: int
    """Stamp minus arrival."""
    inside_arrival: bool
    """The arrival lies in the event's interval (widened by the judge's own error)."""
    inside_deliverable: bool
    """The instant from which it could be read lies there."""
    truth_ns: int
    at_ns: int


JUDGE_ERROR_NS = 1_000
"""What the judge itself may be off: two bracketed clock pairs (0.3 us each, measured) and the
sub-microsecond drift between them."""


def judge(
    trace: dict[str, Any], events: Sequence[dict[str, Any]], found: Sequence[Truth], line: ClockLine
) -> list[Judged]:
    """Every event that the capture has; the caller compares the counts."""
    epoch_ns = trace["clock"]["epoch_monotonic_ns"]
    judged = []
    for event, truth in zip(events, found, strict=False):
        if truth.arrived_ns is None or truth.deliverable_ns is None:
            continue
        arrived = line.monotonic(truth.arrived_ns) - epoch_ns
        deliverable = line.monotonic(truth.deliverable_ns) - epoch_ns
        low, high = event["lo_ns"] - JUDGE_ERROR_NS, event["hi_ns"] + JUDGE_ERROR_NS
        judged.append(
            Judged(
                exact=event["exact"],
                error_ns=event["at_ns"] - arrived,
                inside_arrival=low <= arrived <= high,
                inside_deliverable=low <= deliverable <= high,
                truth_ns=arrived,
                at_ns=event["at_ns"],
            )
        )
    return judged


def figures(judged: Sequence[Judged]) -> dict[str, float | None]:
    """What is reported of a run (or of several together)."""
    exact = [event for event in judged if event.exact]
    rest = [event for event in judged if not event.exact]
    exact_us = [abs(event.error_ns) / 1e3 for event in exact]
    gap_us = [
        abs((b.at_ns - a.at_ns) - (b.truth_ns - a.truth_ns)) / 1e3
        for a, b in pairwise(judged)
        if a.exact and b.exact
    ]
    return {
        "events": len(judged),
        "certified_share": len(exact) / len(judged) if judged else None,
        "certified_worst_us": max(exact_us, default=None),
        "certified_p99_us": percentile(exact_us, 99),
        "false_certificates": sum(us > FALSE_US for us in exact_us),
        "certified_gap_p99_us": percentile(gap_us, 99),
        "rest_inside_share": _share([event.inside_arrival for event in rest]),
        "rest_inside_deliverable_share": _share([event.inside_deliverable for event in rest]),
        "rest_error_p99_us": percentile([abs(event.error_ns) / 1e3 for event in rest], 99),
    }


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
