"""Collects one run into an event log; the only writer of a trace while it is measured.

Probes say what happened through it; they never compute a metric.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from promptpath.errors import MeasureError
from promptpath.model.enums import FactSource, Outcome, Stage
from promptpath.model.log import EventLog
from promptpath.model.names import FAILURE, LIMIT
from promptpath.model.redact import printable, redact_text, scrub
from promptpath.model.rows import Json
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns
from promptpath.probe.clock import RunClock


class Recorder:
    """One run's log with the run's clock; `secrets` are replaced wherever far-side text is kept."""

    def __init__(self, clock: RunClock, *, secrets: tuple[str, ...] = ()) -> None:
        self.clock = clock
        self.log = EventLog()
        self.secrets = secrets
        self._conns = 0

    def now_ns(self) -> Ns:
        """Run time."""
        return self.clock.now_ns()

    def new_conn(self) -> int:
        """The next connection number."""
        self._conns += 1
        return self._conns

    def observed(self, key: str, value: Json, span: int | None = None) -> None:
        """Record what we measured."""
        self.log.add_fact(key, value, FactSource.OBSERVED, span)

    def reported(self, key: str, value: Json, span: int | None = None) -> None:
        """Record what the far side says."""
        self.fact(key, value, FactSource.REPORTED, span)

    def fact(self, key: str, value: Json, source: FactSource, span: int | None = None) -> None:
        """Record a fact. What the far side says is searched for secrets once more, whatever made
        it; our own words are not, for a password may be one of them."""
        kept = scrub(value, self.secrets) if source is FactSource.REPORTED else value
        self.log.add_fact(key, kept, source, span)

    def mark(
        self,
        stage: Stage,
        name: str,
        stamp: Stamp,
        *,
        span: int | None = None,
        conn: int | None = None,
        detail: dict[str, Json] | None = None,
    ) -> None:
        """Record an instant."""
        self.log.add_mark(stage, name, stamp, span=span, conn=conn, detail=detail)

    def start(
        self, stage: Stage, name: str, *, parent: int | None = None, conn: int | None = None
    ) -> int:
        """Open a span now."""
        return self.log.start_span(stage, name, self.now_ns(), parent=parent, conn=conn)

    def end(self, span: int, at_ns: Ns | None = None) -> None:
        """Close a span as ok, now or at the instant its last bytes carry."""
        self.log.end_span(span, self.now_ns() if at_ns is None else at_ns)

    def fail(self, span: int, outcome: Outcome, error: str, at_ns: Ns | None = None) -> None:
        """Close a span that did not work out."""
        end_ns = self.now_ns() if at_ns is None else at_ns
        self.log.end_span(span, end_ns, outcome, self.clean(error))

    @contextmanager
    def span(
        self, stage: Stage, name: str, *, parent: int | None = None, conn: int | None = None
    ) -> Iterator[int]:
        """A span around a block: closed as failed, timed-out or cancelled by what leaves the
        block."""
        span = self.start(stage, name, parent=parent, conn=conn)
        try:
            yield span
        except TimeoutError:
            self.fail(span, Outcome.TIMED_OUT, "timed out")
            raise
        except MeasureError as error:
            timed_out = error.code.endswith("timeout")
            self.fail(span, Outcome.TIMED_OUT if timed_out else Outcome.FAILED, error.what)
            raise
        except BaseException as error:
            gone = isinstance(error, asyncio.CancelledError)
            self.fail(span, Outcome.CANCELLED, "given up" if gone else type(error).__name__)
            raise
        self.end(span)

    def clean(self, text: str) -> str:
        """Far-side text fit for keeping: no secret, no control character, not long."""
        return redact_text(text, secrets=self.secrets, limit=300)

    def failure(self, error: MeasureError) -> None:
        """Record why the run could not go on."""
        self.observed(
            FAILURE,
            {
                "stage": error.stage,
                "code": error.code,
                "what": self.clean(error.what),
                "expected": printable(error.expected) if error.expected else None,
                "where": printable(error.where) if error.where else None,
                "hint": printable(error.hint) if error.hint else None,
            },
        )

    def limit(self, name: str, value: int | None) -> None:
        """Record which limit of ours ended the run."""
        self.observed(LIMIT, {"name": name, "value": value})
