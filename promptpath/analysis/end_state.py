"""How the stream ended.

Transport and dialect must agree for `complete`: proxies are known that end a cut stream cleanly,
so the dialect's terminal event decides, and the transport can only take away from it.
"""

from __future__ import annotations

from promptpath.analysis.facts import Facts
from promptpath.analysis.scan import Scan
from promptpath.model.enums import EndState, EventKind
from promptpath.model.names import (
    HTTP_END,
    HTTP_STATUS,
    LIMIT,
    STREAM_DIALECT,
    STREAM_END,
    STREAM_ERROR,
    STREAM_FINISH,
    STREAM_FRAMING,
)
from promptpath.model.trace import Trace

STREAM_FRAMINGS = frozenset({"sse", "ndjson"})


_MEANINGLESS = (
    EventKind.OTHER,
    EventKind.COMMENT,
    EventKind.UNKNOWN_FIELD,
    EventKind.FOREIGN_BYTES,
)
"""Kinds of events that any bytes may come to, whatever the dialect."""


def speaks_another_dialect(facts: Facts, scan: Scan) -> bool:
    """Whether events came and none of them means anything in the dialect that --dialect names: what
    its end would look like is then not known."""
    forced = facts.record(STREAM_DIALECT).get("because") == "option"
    meaningful = scan.events - sum(scan.count(kind) for kind in _MEANINGLESS)
    return forced and not meaningful and scan.count(EventKind.OTHER) > 0


def judge_end(trace: Trace, facts: Facts, scan: Scan) -> EndState:
    """The one end state of the run."""
    status = facts.whole(HTTP_STATUS)
    if status is None:
        return EndState.NO_RESPONSE
    if status < 400 and (facts.record(STREAM_ERROR) or scan.count(EventKind.ERROR)):
        return EndState.ERROR_IN_STREAM
    if status >= 400 or facts.text(STREAM_FRAMING) not in STREAM_FRAMINGS:
        return EndState.NOT_A_STREAM
    if speaks_another_dialect(facts, scan):
        return EndState.NOT_A_STREAM
    end = facts.record(STREAM_END)
    clean = facts.record(HTTP_END).get("complete") is True
    if end.get("marker_seen") is True or scan.count(EventKind.END):
        return EndState.COMPLETE if clean else EndState.OPEN_AFTER_MARKER
    if facts.record(LIMIT) or (trace.truncated is not None and not facts.record(HTTP_END)):
        return EndState.STOPPED_BY_US
    if not clean or end.get("pending_bytes"):
        return EndState.TRUNCATED
    if end.get("marker_expected") is not True:
        return EndState.COMPLETE
    finished = facts.text(STREAM_FINISH) or scan.count(EventKind.FINISH)
    return EndState.NO_END_MARKER if finished else EndState.TRUNCATED
