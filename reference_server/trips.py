"""The finished and running requests that `/promptpath/requests/{id}` tells about: times and counts,
no text."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import asdict, dataclass
from typing import Any

from reference_server.engine.generation import Generation, PrefillChunk, Step
from reference_server.timing import Timeline

_MOST_TRIPS = 1_000
_MOST_ROWS = 100_000
"""Rows kept over all requests; some 20 MB. A choice, like the two others."""
_MOST_ROWS_EACH = 10_000


@dataclass(frozen=True, slots=True)
class Written:
    """One piece of the answer that was written."""

    kind: str
    seq: int | None
    sent_ns: int
    size: int
    step: int | None
    """The engine step whose text it carries."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """What one engine step gave to the request, also when its text was held back."""

    step: int
    batch: int
    tokens: int
    sampled_ns: int


class Trip:
    """One request's way through the server."""

    def __init__(self, request_id: str, timeline: Timeline) -> None:
        self.request_id = request_id
        self.timeline = timeline
        self.caller_id: str | None = None
        self.model: str | None = None
        self.conversation: dict[str, Any] | None = None
        self.generation: Generation | None = None
        self.outcome: str | None = None
        """How it ended: a finish reason or an error code; None while it runs."""
        self.ended_ns: int | None = None
        self.saved_ns: int | None = None
        """When the turn was in the conversation store, or could not be put there."""
        self.sampled: list[Sampled] = []
        self.written: list[Written] = []
        self.rows_dropped = 0

    def note(self, kind: str, seq: int | None, sent_ns: int, size: int, step: Step | None) -> None:
        """A piece of the answer is being written."""
        if len(self.written) >= _MOST_ROWS_EACH:
            self.rows_dropped += 1
            return
        number = None if step is None else step.step
        self.written.append(Written(kind, seq, sent_ns, size, number))

    def sample(self, step: Step) -> None:
        """The engine gave tokens."""
        if len(self.sampled) >= _MOST_ROWS_EACH:
            self.rows_dropped += 1
            return
        self.sampled.append(Sampled(step.step, step.batch, step.tokens, step.sampled_ns))

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return len(self.sampled) + len(self.written)

    def end(self, outcome: str, ended_ns: int) -> None:
        """The last byte of the answer was written, or the request was given up."""
        if self.outcome is None:
            self.outcome = outcome
            self.ended_ns = ended_ns

    def document(self, now_ns: int) -> dict[str, Any]:
        """All that is known, as JSON; a running stage ends at `now_ns`."""
        end_ns = now_ns if self.ended_ns is None else self.ended_ns
        stages = self._stages(end_ns)
        generation = self.generation
        counts = generation.stages if generation is not None else None
        return {
            **self.summary(end_ns),
            "received_ns": self.timeline.received_ns,
            "ended_ns": self.ended_ns,
            "stages": [
                {"stage": name, "start_ns": start, "end_ns": end, "ms": (end - start) / 1e6}
                for name, start, end in stages
            ],
            "prompt_tokens": counts.prompt_tokens if counts else None,
            "cached_tokens": counts.cached_tokens if counts else None,
            "output_tokens": counts.output_tokens if counts else None,
            "conversation": self.conversation,
            "prefill": [_chunk(each) for each in counts.prefill_chunks] if counts else [],
            "decode": [asdict(each) for each in self.sampled],
            "written": [_row(each) for each in self.written],
            "rows_dropped": self.rows_dropped,
        }

    def summary(self, now_ns: int) -> dict[str, Any]:
        """What a list of requests says about it."""
        end_ns = now_ns if self.ended_ns is None else self.ended_ns
        return {
            "id": self.request_id,
            "model": self.model,
            "outcome": self.outcome,
            "wall_ms": (end_ns - self.timeline.received_ns) / 1e6,
        }

    def _stages(self, end_ns: int) -> list[tuple[str, int, int]]:
        """(name, start, end): each begins where the one before ends, the last ends at `end_ns`."""
        found: list[tuple[str, int, int]] = []
        at_ns = self.timeline.received_ns
        for name, duration_ns in self.timeline.stages.items():
            found.append((name, at_ns, at_ns + duration_ns))
            at_ns += duration_ns
        if self.generation is None:
            # Refused: what is left is the time it took to say so.
            return [*found, ("refuse", at_ns, end_ns)]
        stages = self.generation.stages
        ends = [
            ("queue", stages.scheduled_ns),
            ("prefill", stages.first_token_ns),
            ("decode", stages.last_token_ns if self.generation.ended else None),
            ("write", end_ns),
        ]
        if self.saved_ns is not None:
            ends.insert(3, ("save", self.saved_ns))
        for name, stage_end_ns in ends:
            reached = stage_end_ns is not None and stage_end_ns <= end_ns
            until_ns = stage_end_ns if reached and stage_end_ns is not None else end_ns
            found.append((name, at_ns, until_ns))
            at_ns = until_ns
            if not reached:
                break
        return found


class TripStore:
    """The latest trips by request id, bounded in number and in rows."""

    def __init__(self, most_trips: int = _MOST_TRIPS, most_rows: int = _MOST_ROWS) -> None:
        self._most_trips = most_trips
        self._most_rows = most_rows
        self._trips: OrderedDict[str, Trip] = OrderedDict()

    def begin(self, request_id: str, timeline: Timeline) -> Trip:
        """A request came; the oldest ended ones are forgotten when there are too many."""
        trip = Trip(request_id, timeline)
        rows = sum(each.rows for each in self._trips.values())
        for old_id, old in list(self._trips.items()):
            if len(self._trips) < self._most_trips and rows <= self._most_rows:
                break
            if old.outcome is not None:
                rows -= old.rows
                del self._trips[old_id]
        self._trips[request_id] = trip
        return trip

    def find(self, request_id: str, caller_id: str) -> Trip | None:
        """The request, if it is the caller's."""
        trip = self._trips.get(request_id)
        return trip if trip is not None and trip.caller_id == caller_id else None

    def latest(self, caller_id: str, count: int) -> list[Trip]:
        """The caller's requests, the newest first."""
        own = [trip for trip in reversed(self._trips.values()) if trip.caller_id == caller_id]
        return own[:count]


def _chunk(chunk: PrefillChunk) -> dict[str, int]:
    return {
        "step": chunk.step,
        "batch": chunk.batch,
        "position": chunk.position,
        "tokens": chunk.tokens,
        "start_ns": chunk.started_ns,
        "end_ns": chunk.ended_ns,
    }


def _row(row: Written) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "seq": row.seq,
        "step": row.step,
        "written_ns": row.sent_ns,
        "bytes": row.size,
    }
