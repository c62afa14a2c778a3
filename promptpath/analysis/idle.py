"""What an idle pass found: each stream's fate first, then what the streams say together.

One stream alone cannot tell an idle timer from a total one; several with different keepalives
that lived at the same time can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from promptpath.analysis.facts import Facts, whole
from promptpath.analysis.scan import scan_events
from promptpath.model.enums import KEEPALIVE_KINDS, EventKind, Layer
from promptpath.model.names import (
    FAILURE,
    HTTP_END,
    HTTP_HEADERS,
    HTTP_STATUS,
    LIMIT,
    MARK_GOAWAY,
    MARK_HEAD,
    MARK_MESSAGE_END,
    MARK_REQUEST_WIRE,
    MARK_REQUEST_WRITTEN,
    MARK_RESET,
    MARK_TRANSPORT_END,
    TCP_INFO,
    TEST,
    TEST_KEPT,
)
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S, Ns

ALIVE_NS = 7 * NS_PER_S
"""Our TCP keepalives go out after 5 s of silence and then each second, three of them
(probe.sockets): a peer whose last ACK is younger than 7 s answered one."""

TIMED_OUT_STATUSES = frozenset({408, 500, 502, 503, 504, 520, 522, 524})
"""What gateways answer when the server takes too long. Measured: nginx, HAProxy, Squid, Caddy, ATS,
nghttpx, Envoy 504; Apache, node http-proxy 502; Varnish 503; privoxy 500. Cloudflare: 520, 522, 524
(its documentation); 408: RFC 9110, 15.5.9."""
AT_ONCE_NS = NS_PER_S
"""A refusal sooner than a second is no timer's: the shortest one sought is 3 s."""

PLACES = ("head", "body", "stream", "kept")
KEEPALIVES = ("none", "comment", "event", "busy")
"""The words of names.TEST; a saved trace may hold others."""

_HINTS = ("server", "via", "x-served-by")
_HINT_CHARS = 200


class Fate(StrEnum):
    """What became of one stream."""

    SURVIVED = "survived"
    """It ended with its own end event."""
    CUT = "cut"
    """Somebody ended it before."""
    CUT_CLEAN = "cut-looks-complete"
    """Somebody ended it before, with a clean HTTP end."""
    REFUSED = "refused"
    """A status of its own instead of the stream: a gateway time-out, or a limit."""
    HANG = "hang"
    """Its bytes stopped for good, and nobody closed; the peer is alive."""
    SILENT_DROP = "silent-drop"
    """The path is dead: TCP keepalives got no answer."""
    UNFINISHED = "unfinished"
    """We stopped first."""
    UNMEASURED = "unmeasured"
    """There was no connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamFate:
    """One stream of the pass."""

    run: int
    """Index of its trace."""
    at: str
    """Where the silence lay: head | body | stream | kept."""
    keepalive: str
    """none | comment | event | busy."""
    longest_ns: Ns
    """The longest timer sought."""
    silence_ns: Ns
    fate: Fate
    how: str
    """In words: what ended it."""
    silent_ns: Ns | None
    """How long the server had been silent when it ended. Where nothing broke the silence, from the
    instant at which it began by the server's plan: bytes that a box held back on their way would
    make it look shorter. Else from the last byte that came."""
    after_request_ns: Ns | None
    keepalives: int
    """Comments and keepalive events that arrived."""
    expected: int | None
    """How many should have arrived by its end; None where none were sent."""
    status: int | None
    boxes: str
    """What the response headers say of who handled it, lower case: hints."""

    @property
    def ended(self) -> bool:
        """Somebody's timer, or a crash, ended it; a status ends it when it is a gateway's word for
        waiting too long, and took its time."""
        if self.fate is Fate.REFUSED and self.at != "kept":
            late = (self.after_request_ns or 0) >= AT_ONCE_NS
            return late and self.status in TIMED_OUT_STATUSES
        return self.fate in (Fate.CUT, Fate.CUT_CLEAN)

    @property
    def decided(self) -> bool:
        """Whether it says something about timers."""
        if self.fate is Fate.REFUSED:
            return self.at == "kept" or self.ended
        return self.fate not in (Fate.UNFINISHED, Fate.UNMEASURED)

    @property
    def swallowed(self) -> bool | None:
        """Whether a box kept the keepalives: fewer than half of them arrived. None where too few
        were due to say so."""
        if self.expected is None or self.expected < 2:
            return None
        return self.keepalives < self.expected / 2


def fates_of(traces: Sequence[Trace]) -> list[StreamFate]:
    """The fates of those traces that are streams of an idle pass."""
    found = []
    for run, trace in enumerate(traces):
        about = Facts(trace).record(TEST)
        known = about.get("at") in PLACES and about.get("keepalive") in KEEPALIVES
        if about.get("command") == "idle" and known:
            found.append(_Reading(trace, run, about).fate())
    return found


def fate_of(trace: Trace) -> StreamFate | None:
    """The fate of one stream; None for a trace that is no stream of an idle pass."""
    found = fates_of([trace])
    return found[0] if found else None


class _Reading:
    """One trace, read for its fate."""

    def __init__(self, trace: Trace, run: int, about: dict[str, object]) -> None:
        self._trace = trace
        self._run = run
        self._facts = Facts(trace)
        self._scan = scan_events(trace)
        self._at = str(about.get("at"))
        self._keepalive = str(about.get("keepalive"))
        self._silence_ns = whole(about.get("silence_ns")) or 0
        self._longest_ns = whole(about.get("longest_ns")) or 0
        self._last_sent_ns = whole(about.get("last_sent_ns")) or 0
        self._interval_ns = whole(about.get("interval_ns"))
        self._asked_ns = self._first_mark(MARK_REQUEST_WIRE, MARK_REQUEST_WRITTEN)
        self._status = self._facts.whole(HTTP_STATUS)

    def fate(self) -> StreamFate:
        if self._at == "kept":
            return self._kept()
        fate, how = self._what_became()
        end_ns = self._end_ns()
        asked_ns = self._asked_ns
        since_ns = None if end_ns is None or asked_ns is None else end_ns - asked_ns
        if self._keepalive == "none" and since_ns is not None:
            silent_ns: Ns | None = max(0, since_ns - self._last_sent_ns)
        else:
            last_ns = self._last_ns(end_ns)
            silent_ns = None if end_ns is None or last_ns is None else end_ns - last_ns
        return self._row(fate, how, silent_ns=silent_ns, after_request_ns=since_ns)

    def _row(
        self, fate: Fate, how: str, *, silent_ns: Ns | None, after_request_ns: Ns | None
    ) -> StreamFate:
        return StreamFate(
            run=self._run,
            at=self._at,
            keepalive=self._keepalive,
            longest_ns=self._longest_ns,
            silence_ns=self._silence_ns,
            fate=fate,
            how=how,
            silent_ns=silent_ns,
            after_request_ns=after_request_ns,
            keepalives=sum(self._scan.count(kind) for kind in KEEPALIVE_KINDS),
            expected=self._expected(after_request_ns),
            status=self._status,
            boxes=self._boxes(),
        )

    def _boxes(self) -> str:
        headers = self._facts.headers(HTTP_HEADERS)
        return " ".join(headers.get(name, "")[:_HINT_CHARS].lower() for name in _HINTS)

    def _what_became(self) -> tuple[Fate, str]:
        failure, limit = self._facts.record(FAILURE), self._facts.record(LIMIT)
        end = self._facts.record(HTTP_END)
        how = str(end.get("how"))
        if self._scan.count(EventKind.END):
            return Fate.SURVIVED, "ended by itself"
        if limit.get("name") == "interrupt":
            return Fate.UNFINISHED, "stopped by us"
        if self._status is not None and self._status >= 400:
            return Fate.REFUSED, f"status {self._status}"
        if failure:
            return self._failed(str(failure.get("code")), str(failure.get("what")))
        if limit or how == "cut-by-us":
            return self._silent()
        if how == "timed-out":
            return Fate.SILENT_DROP, "TCP keepalives got no answer"
        if end.get("complete") is True:
            return Fate.CUT_CLEAN, f"a clean end ({self._clean_end()}) without the end event"
        return Fate.CUT, self._how_cut(how, end.get("code"))

    def _failed(self, code: str, what: str) -> tuple[Fate, str]:
        if code == "dead-path":
            return Fate.SILENT_DROP, "TCP keepalives got no answer"
        if self._asked_ns is None:
            return Fate.UNMEASURED, what
        how = {"reset": "a reset", "closed": "FIN"}.get(code, what)
        return Fate.CUT, f"{how} instead of a response"

    def _silent(self) -> tuple[Fate, str]:
        """Nothing came until our own limit."""
        infos = self._facts.records(TCP_INFO)
        ack_ms = whole(infos[-1].get("last_ack_recv_ms")) if infos else None
        data_ms = whole(infos[-1].get("last_data_recv_ms")) if infos else None
        if ack_ms is None or data_ms is None or data_ms * NS_PER_MS < ALIVE_NS:
            return Fate.HANG, "no byte and no end; whether the peer lives is not known"
        if ack_ms * NS_PER_MS <= ALIVE_NS:
            return Fate.HANG, "no byte and no end, though the peer answers TCP keepalives"
        return Fate.SILENT_DROP, "no byte, no end, and no answer to TCP keepalives"

    def _clean_end(self) -> str:
        return "END_STREAM" if self._facts.text("http.version") == "2" else "last chunk"

    def _how_cut(self, how: str, code: object) -> str:
        away = next(self._trace.marks_of(MARK_GOAWAY), None)
        goaway = f"GOAWAY code {away.detail.get('code')}, then " if away is not None else ""
        words = {
            "fin": "FIN without the last chunk",
            "close-notify": "close_notify without the last chunk",
            "rst": "TCP reset",
            "reset": f"RST_STREAM code {code}",
        }
        return goaway + words.get(how, how)

    # -- instants --------------------------------------------------------------------------------

    def _first_mark(self, *names: str) -> Ns | None:
        for name in names:
            mark = next(self._trace.marks_of(name), None)
            if mark is not None:
                return mark.at_ns
        return None

    def _end_ns(self) -> Ns | None:
        """When it was over for us."""
        if self._status is not None and self._status >= 400:
            return self._first_mark(MARK_HEAD)
        return self._first_mark(MARK_RESET, MARK_MESSAGE_END, MARK_TRANSPORT_END)

    def _last_ns(self, end_ns: Ns | None) -> Ns | None:
        """The last byte before the end; the request, where no byte came."""
        seen = [
            arrival.at_ns
            for arrival in self._trace.arrivals
            if arrival.layer is Layer.BODY and (end_ns is None or arrival.at_ns < end_ns)
        ]
        head = self._first_mark(MARK_HEAD)
        if head is not None and (end_ns is None or head < end_ns):
            seen.append(head)
        return max(seen) if seen else self._asked_ns

    def _expected(self, since_request_ns: Ns | None) -> int | None:
        if self._interval_ns is None or since_request_ns is None:
            return None
        quiet_ns = min(since_request_ns, self._silence_ns)
        return max(0, quiet_ns // self._interval_ns - 1)

    # -- an idle connection ----------------------------------------------------------------------

    def _kept(self) -> StreamFate:
        kept = self._facts.record(TEST_KEPT)
        idle_ns, closed = whole(kept.get("idle_ns")), kept.get("closed")
        if not kept:
            fate, how = Fate.UNFINISHED, "stopped by us"
            if self._facts.record(FAILURE):
                fate, how = Fate.UNMEASURED, str(self._facts.record(FAILURE).get("what"))
        elif idle_ns is None:
            fate, how = Fate.REFUSED, "the connection is not kept open"
        elif closed == "timed-out":
            fate, how = Fate.SILENT_DROP, "TCP keepalives got no answer"
        elif closed:
            fate, how = Fate.CUT, f"closed by {closed}"
        elif kept.get("reused") is True:
            fate, how = Fate.SURVIVED, "took a second request"
        else:
            fate, how = Fate.CUT, "did not take a second request"
        return self._row(fate, how, silent_ns=idle_ns, after_request_ns=None)
