"""The append-only event log: the truth of a trace, columnar so that a long stream stays small.

Stamps are stored once and referred to by index, because one read from the kernel gives its stamp
to a segment-read, a TLS record, an HTTP frame, a body piece and an event. In this layout a stamp
takes 25 bytes, an arrival 18 to 26 (`model.arrivals`), an event 21, with the sender's numbers 37.

Every append is also handed, as one JSON-able row, to the observers (the live view's pipe, the
journal on disk); `replay` builds the same log from those rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from promptpath.model.arrivals import LAYER_INDEX, Arrivals
from promptpath.model.columns import NONE, OptionalColumn, optional
from promptpath.model.enums import Clock, EventKind, FactSource, Layer, Outcome, Stage
from promptpath.model.rows import Arrival, Fact, Json, Mark, Span, StreamEvent
from promptpath.model.stamp import Stamp
from promptpath.model.units import Ns

Row = list[Json]
"""One append as JSON: the first item names the table, the rest are its columns in order."""
Observer = Callable[[Row], None]

_KINDS: tuple[EventKind, ...] = tuple(EventKind)
_KIND_INDEX = {kind: index for index, kind in enumerate(_KINDS)}
_EXACT = 1
_KERNEL = 2
_MOST = 2**63 - 1
"""The largest number a 64-bit column holds."""

_View = TypeVar("_View")


class _Rows(Sequence[_View], Generic[_View]):
    """A read-only sequence that builds its items from columns when asked."""

    __slots__ = ("_length", "_make")

    def __init__(self, length: Callable[[], int], make: Callable[[int], _View]) -> None:
        self._length = length
        self._make = make

    def __len__(self) -> int:
        return self._length()

    @overload
    def __getitem__(self, index: int) -> _View: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_View]: ...
    def __getitem__(self, index: int | slice) -> _View | Sequence[_View]:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._length()))]
        length = self._length()
        if index < -length or index >= length:
            raise IndexError(index)
        return self._make(index % length)

    def __iter__(self) -> Iterator[_View]:
        make = self._make
        for index in range(self._length()):
            yield make(index)


@dataclass(slots=True)
class _OpenSpan:
    """A span as the log holds it until somebody asks for the frozen view."""

    id: int
    parent: int | None
    conn: int | None
    stage: Stage
    name: str
    start_ns: Ns
    end_ns: Ns | None = None
    outcome: Outcome = Outcome.CANCELLED
    error: str | None = None


class EventLog:
    """Append stamps, spans, arrivals, events, marks and facts; read them back as frozen rows."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._stamp_at = array("q")
        self._stamp_lo = array("q")
        self._stamp_hi = array("q")
        self._stamp_flags = array("B")
        self._last_stamp: tuple[Stamp, int] | None = None
        self._event_kind = array("B")
        self._event_stamp = array("I")
        self._event_first = array("I")
        self._event_tokens = array("i")
        self._event_chars = array("I")
        self._event_bytes = array("I")
        self._event_seq = OptionalColumn("q")
        self._event_server = OptionalColumn("q")
        self._event_data: dict[int, str] = {}
        self._event_text: dict[int, str] = {}
        self._spans: dict[int, _OpenSpan] = {}
        self._marks: list[Mark] = []
        self._facts: list[Fact] = []
        self._arrivals = Arrivals(self.stamp)
        self.arrivals: Sequence[Arrival] = self._arrivals
        self.events: Sequence[StreamEvent] = _Rows(lambda: len(self._event_stamp), self._event)

    # -- appending -------------------------------------------------------------------------------

    def observe(self, observer: Observer) -> None:
        """From now on hand every append, as one row, to `observer`."""
        self._observers.append(observer)

    def _tell(self, row: Row) -> None:
        for observer in self._observers:
            observer(row)

    def add_stamp(self, stamp: Stamp) -> int:
        """Store an instant once; the index stands for it in the other tables."""
        if self._last_stamp is not None and self._last_stamp[0] is stamp:
            return self._last_stamp[1]
        index = len(self._stamp_at)
        flags = (_EXACT if stamp.exact else 0) | (_KERNEL if stamp.clock is Clock.KERNEL else 0)
        self._stamp_at.append(stamp.at_ns)
        self._stamp_lo.append(stamp.lo_ns)
        self._stamp_hi.append(stamp.hi_ns)
        self._stamp_flags.append(flags)
        self._last_stamp = (stamp, index)
        if self._observers:
            self._tell(["stamp", stamp.at_ns, stamp.lo_ns, stamp.hi_ns, flags])
        return index

    def start_span(
        self,
        stage: Stage,
        name: str,
        start_ns: Ns,
        *,
        parent: int | None = None,
        conn: int | None = None,
    ) -> int:
        """Open a span and return its id. Until it is ended its outcome is `cancelled`."""
        span_id = len(self._spans) + 1
        self._spans[span_id] = _OpenSpan(span_id, parent, conn, stage, name, start_ns)
        if self._observers:
            self._tell(["span", span_id, parent, conn, stage.value, name, start_ns])
        return span_id

    def end_span(
        self, span_id: int, end_ns: Ns, outcome: Outcome = Outcome.OK, error: str | None = None
    ) -> None:
        """Close a span; the first closing counts."""
        span = self._spans[span_id]
        if span.end_ns is not None:
            return
        span.end_ns, span.outcome, span.error = end_ns, outcome, error
        if self._observers:
            self._tell(["span-end", span_id, end_ns, outcome.value, error])

    def set_conn(self, span_id: int, conn: int) -> None:
        """Give a span the number of the connection it turned out to belong to."""
        self._spans[span_id].conn = conn
        if self._observers:
            self._tell(["span-conn", span_id, conn])

    def add_arrival(
        self,
        layer: Layer,
        stamp: Stamp,
        *,
        span: int | None,
        offset: int,
        size: int,
        segments: int | None = None,
        ooo: int | None = None,
        pending: int | None = None,
    ) -> None:
        """Record bytes that arrived together at one layer."""
        row = (
            LAYER_INDEX[layer],
            NONE if span is None else span,
            self.add_stamp(stamp),
            offset,
            size,
            NONE if segments is None else segments,
            NONE if ooo is None else ooo,
            NONE if pending is None else pending,
        )
        self._arrivals.append(row)
        if self._observers:
            self._tell(["arrival", *row])

    def add_event(
        self,
        kind: EventKind,
        stamp: Stamp,
        first: Stamp,
        *,
        tokens: int | None,
        chars: int,
        size_bytes: int,
        seq: int | None = None,
        server_ns: int | None = None,
        data: str | None = None,
        text: str | None = None,
    ) -> None:
        """Record what one frame meant; `stamp` of its last byte, `first` of its first."""
        first_index = self.add_stamp(first) if first is not stamp else None
        stamp_index = self.add_stamp(stamp)
        row = (
            _KIND_INDEX[kind],
            stamp_index,
            stamp_index if first_index is None else first_index,
            NONE if tokens is None else tokens,
            chars,
            size_bytes,
            _far_side_number(seq),
            _far_side_number(server_ns),
        )
        self._append_event(row, data, text)
        if self._observers:
            self._tell(["event", *row, data, text])

    def _append_event(self, row: Sequence[int], data: str | None, text: str | None) -> None:
        index = len(self._event_stamp)
        kind, stamp, first, tokens, chars, size_bytes, seq, server_ns = row
        self._event_kind.append(kind)
        self._event_stamp.append(stamp)
        self._event_first.append(first)
        self._event_tokens.append(tokens)
        self._event_chars.append(chars)
        self._event_bytes.append(size_bytes)
        self._event_seq.append(seq)
        self._event_server.append(server_ns)
        if data is not None:
            self._event_data[index] = data
        if text is not None:
            self._event_text[index] = text

    def set_event_tokens(self, first: int, tokens: Sequence[int | None]) -> None:
        """Note the tokens of consecutive events from number `first` on, counted after the stream;
        None leaves an event as it is. Raises IndexError for an event that is not there."""
        if first < 0 or first + len(tokens) > len(self._event_tokens):
            raise IndexError(first)
        for index, number in enumerate(tokens, first):
            if number is not None:
                self._event_tokens[index] = number
        if self._observers:
            self._tell(["event-tokens", first, list(tokens)])

    def add_mark(
        self,
        stage: Stage,
        name: str,
        stamp: Stamp,
        *,
        span: int | None = None,
        conn: int | None = None,
        detail: dict[str, Json] | None = None,
    ) -> None:
        """Record an instant that is no payload."""
        mark = Mark(
            stage=stage,
            name=name,
            span=span,
            conn=conn,
            at_ns=stamp.at_ns,
            lo_ns=stamp.lo_ns,
            hi_ns=stamp.hi_ns,
            exact=stamp.exact,
            clock=stamp.clock,
            detail=detail or {},
        )
        self._marks.append(mark)
        if self._observers:
            index = self.add_stamp(stamp)
            self._tell(["mark", stage.value, name, index, span, conn, mark.detail])

    def add_fact(self, key: str, value: Json, source: FactSource, span: int | None = None) -> None:
        """Record something known."""
        self._facts.append(Fact(key=key, value=value, source=source, span=span))
        if self._observers:
            self._tell(["fact", key, value, source.value, span])

    # -- reading ---------------------------------------------------------------------------------

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans in order of their start; derived from the start and end rows."""
        return tuple(
            Span(
                id=span.id,
                parent=span.parent,
                conn=span.conn,
                stage=span.stage,
                name=span.name,
                start_ns=span.start_ns,
                end_ns=span.end_ns,
                outcome=span.outcome,
                error=span.error,
            )
            for span in self._spans.values()
        )

    @property
    def marks(self) -> tuple[Mark, ...]:
        """All marks in order of recording."""
        return tuple(self._marks)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts in order of recording."""
        return tuple(self._facts)

    def stamp(self, index: int) -> Stamp:
        """The instant stored under `index`."""
        flags = self._stamp_flags[index]
        return Stamp(
            self._stamp_at[index],
            self._stamp_lo[index],
            self._stamp_hi[index],
            Clock.KERNEL if flags & _KERNEL else Clock.USER,
            bool(flags & _EXACT),
        )

    def _event(self, index: int) -> StreamEvent:
        stamp = self.stamp(self._event_stamp[index])
        first = self.stamp(self._event_first[index])
        return StreamEvent(
            kind=_KINDS[self._event_kind[index]],
            at_ns=stamp.at_ns,
            lo_ns=stamp.lo_ns,
            hi_ns=stamp.hi_ns,
            exact=stamp.exact,
            clock=stamp.clock,
            first_at_ns=first.at_ns,
            first_lo_ns=first.lo_ns,
            first_hi_ns=first.hi_ns,
            tokens=optional(self._event_tokens[index]),
            chars=self._event_chars[index],
            bytes=self._event_bytes[index],
            seq=self._event_seq[index],
            server_ns=self._event_server[index],
            data=self._event_data.get(index),
            text=self._event_text.get(index),
        )

    # -- replay ----------------------------------------------------------------------------------

    def apply(self, row: Row) -> None:
        """Append one row as an observer received it. Raises KeyError, ValueError, TypeError,
        IndexError or OverflowError for a row no log ever wrote; not every such row is noticed here
        (`codec.decode_journal` checks what came of it)."""
        table, *cells = row
        match table:
            case "stamp":
                at_ns, lo_ns, hi_ns, flags = cells
                self._stamp_at.append(at_ns)
                self._stamp_lo.append(lo_ns)
                self._stamp_hi.append(hi_ns)
                self._stamp_flags.append(flags)
            case "arrival":
                self._arrivals.append(cells)
            case "event":
                self._append_event(cells[:8], cells[8], cells[9])
            case "event-tokens":
                self.set_event_tokens(cells[0], cells[1])
            case "span":
                span_id, parent, conn, stage, name, start_ns = cells
                self._spans[span_id] = _OpenSpan(
                    span_id, parent, conn, Stage(stage), name, start_ns
                )
            case "span-end":
                self.end_span(cells[0], cells[1], Outcome(cells[2]), cells[3])
            case "span-conn":
                self._spans[cells[0]].conn = cells[1]
            case "mark":
                stage, name, index, span, conn, detail = cells
                self.add_mark(
                    Stage(stage), name, self.stamp(index), span=span, conn=conn, detail=detail
                )
            case "fact":
                self.add_fact(cells[0], cells[1], FactSource(cells[2]), cells[3])
            case _:
                raise ValueError(f"unknown row {table!r}")


def replay(rows: Iterable[Row]) -> EventLog:
    """The log that wrote these rows."""
    log = EventLog()
    for row in rows:
        log.apply(row)
    return log


def _far_side_number(value: int | None) -> int:
    """A number of the sender's as its column holds it; what no clock or counter can say is none."""
    return NONE if value is None or not 0 <= value <= _MOST else value
