"""One pass over the events of a trace: everything the rest of analysis asks of them, in columns.

600,000 events must neither take long nor much memory, so rows are read once and only numbers are
kept.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

from promptpath.analysis.sender_clock import tells_holds
from promptpath.model.enums import CONTENT_KINDS, KEEPALIVE_KINDS, Clock, EventKind
from promptpath.model.rows import StreamEvent
from promptpath.model.trace import Trace
from promptpath.model.units import Ns

MISSING = -1
"""Marks "not known" inside the token and server columns; it never leaves analysis."""


@dataclass(slots=True)
class Content:
    """The events that carry something the model made, one column a property."""

    index: array[int] = field(default_factory=lambda: array("I"))
    """Index into `trace.events`."""
    at_ns: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("i"))
    server_ns: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.at_ns)


@dataclass(slots=True)
class Scan:
    """What one pass over the events found."""

    content: Content = field(default_factory=Content)
    counts: dict[EventKind, int] = field(default_factory=dict)
    chars: dict[EventKind, int] = field(default_factory=dict)
    first: dict[EventKind, StreamEvent] = field(default_factory=dict)
    """The first event of each kind; of text and reasoning the first that carried a character."""
    last: dict[EventKind, StreamEvent] = field(default_factory=dict)
    first_event: StreamEvent | None = None
    last_event: StreamEvent | None = None
    first_content: StreamEvent | None = None
    last_content: StreamEvent | None = None
    keepalives_before_content: int = 0
    exact: int = 0
    exact_content: int = 0
    """Events with content whose stamp is certified."""
    kernel: int = 0
    error_ns: array[int] = field(default_factory=lambda: array("q"))
    """Half-width of each event's interval."""

    @property
    def events(self) -> int:
        """How many events of any kind."""
        return len(self.error_ns)

    def count(self, kind: EventKind) -> int:
        """How many events of that kind."""
        return self.counts.get(kind, 0)

    @property
    def server_span_ns(self) -> Ns | None:
        """First to last content event by the sender's own clock; None where it gives no stamps."""
        column = self.content.server_ns
        if len(column) < 2 or MISSING in (column[0], column[-1]) or column[-1] < column[0]:
            return None
        return column[-1] - column[0]


def scan_events(trace: Trace) -> Scan:
    """The one pass."""
    scan = Scan()
    for index, event in enumerate(trace.events):
        _count(scan, event)
        if event.kind in CONTENT_KINDS and _carries(event):
            _add_content(scan, index, event)
        elif event.kind in KEEPALIVE_KINDS and scan.first_content is None:
            scan.keepalives_before_content += 1
    _drop_coarse_stamps(scan.content)
    return scan


def _drop_coarse_stamps(content: Content) -> None:
    """Stamps that tell nothing of a rhythm (whole seconds, one value in most events) are none."""
    if not tells_holds(content.server_ns):
        content.server_ns = array("q", [MISSING]) * len(content)


def _carries(event: StreamEvent) -> bool:
    """A text event with no character is no token; a tool call may begin with its name only."""
    return event.chars > 0 or event.kind is EventKind.TOOL or bool(event.tokens)


def _count(scan: Scan, event: StreamEvent) -> None:
    kind = event.kind
    scan.counts[kind] = scan.counts.get(kind, 0) + 1
    scan.chars[kind] = scan.chars.get(kind, 0) + event.chars
    if kind not in scan.first and (kind not in CONTENT_KINDS or _carries(event)):
        scan.first[kind] = event
    scan.last[kind] = event
    scan.first_event = scan.first_event or event
    scan.last_event = event
    scan.exact += event.exact
    scan.kernel += event.clock is Clock.KERNEL
    scan.error_ns.append(max(event.at_ns - event.lo_ns, event.hi_ns - event.at_ns, 0))


def _add_content(scan: Scan, index: int, event: StreamEvent) -> None:
    content = scan.content
    content.index.append(index)
    content.at_ns.append(event.at_ns)
    content.tokens.append(MISSING if event.tokens is None else event.tokens)
    content.server_ns.append(MISSING if event.server_ns is None else event.server_ns)
    scan.exact_content += event.exact
    scan.first_content = scan.first_content or event
    scan.last_content = event
