"""A trace: everything that was measured of one prompt's trip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from promptpath.model.enums import Stage
from promptpath.model.log import EventLog
from promptpath.model.rows import Arrival, ClockInfo, Fact, Json, Mark, Span, StreamEvent

TRACE_SCHEMA = "promptpath.trace/1"
"""Only grows within the major version."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One run: the log, the clock it was taken with, and why it was cut, if it was.

    A trace is always produced, also on failure, on a limit and on Ctrl-C.
    """

    clock: ClockInfo
    log: EventLog = field(repr=False)
    truncated: str | None = None
    """Why the run ended before the far side ended it; None when it did not."""

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """All spans in order of their start."""
        return self.log.spans

    @cached_property
    def marks(self) -> tuple[Mark, ...]:
        """All marks in order of recording."""
        return self.log.marks

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """All facts in order of recording."""
        return self.log.facts

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """All arrivals, built row by row when read."""
        return self.log.arrivals

    @property
    def events(self) -> Sequence[StreamEvent]:
        """All stream events, built row by row when read."""
        return self.log.events

    def fact(self, key: str) -> Json:
        """The value of the last fact of that key, or None."""
        for fact in reversed(self.facts):
            if fact.key == key:
                return fact.value
        return None

    def facts_of(self, key: str) -> tuple[Fact, ...]:
        """All facts of that key."""
        return tuple(fact for fact in self.facts if fact.key == key)

    def marks_of(self, name: str, stage: Stage | None = None) -> Iterator[Mark]:
        """The marks of that name, optionally of one stage only."""
        return (mark for mark in self.marks if mark.name == name and stage in (None, mark.stage))

    def span_of(self, stage: Stage, name: str) -> Span | None:
        """The last span of that stage and name, or None."""
        for span in reversed(self.spans):
            if span.stage is stage and span.name == name:
                return span
        return None
