"""What the live view knows: the hops so far, made from rows in constant time and memory each.

An approximation for the eye. The final table comes from analysis, which has the whole trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from promptpath.model.enums import CONTENT_KINDS, VISIBLE_KINDS, EventKind, Stage
from promptpath.model.log import Row
from promptpath.model.names import (
    HTTP_REDIRECT,
    SPAN_DIAL,
    SPAN_HANDSHAKE,
    SPAN_PROXY_DIAL,
    SPAN_PROXY_TLS,
    SPAN_PROXY_TUNNEL,
    SPAN_RESOLVE,
    SPAN_RESPONSE,
    SPAN_UPLOAD,
    STREAM_QUIET,
)
from promptpath.model.units import Ns

_KINDS = tuple(EventKind)
_SPANS: dict[tuple[str, str], Stage] = {
    (Stage.DNS, SPAN_RESOLVE): Stage.DNS,
    (Stage.PROXY, SPAN_PROXY_DIAL): Stage.PROXY,
    (Stage.PROXY, SPAN_PROXY_TLS): Stage.PROXY,
    (Stage.PROXY, SPAN_PROXY_TUNNEL): Stage.PROXY,
    (Stage.TCP, SPAN_DIAL): Stage.TCP,
    (Stage.TLS, SPAN_HANDSHAKE): Stage.TLS,
    (Stage.REQUEST, SPAN_UPLOAD): Stage.REQUEST,
    (Stage.WAIT, SPAN_RESPONSE): Stage.WAIT,
}
_RECENT_STAMPS = 256
"""An event names a stamp of the same read: a handful of rows back."""


@dataclass(slots=True)
class LiveHop:
    """A hop so far; `end_ns` None while it lasts."""

    stage: Stage
    start_ns: Ns
    end_ns: Ns | None = None


@dataclass(slots=True)
class LiveRun:
    """One run as it goes on."""

    index: int = 0
    kind: str = "cold"
    hops: list[LiveHop] = field(default_factory=list)
    events: int = 0
    tokens: int = 0
    first_token_ns: Ns | None = None
    last_content_ns: Ns | None = None
    latest_ns: Ns = 0
    """The latest instant any row named."""
    quiet_peer: str | None = None
    """What is known of the peer while nothing comes (names.STREAM_QUIET); None while bytes come."""
    quiet_http: str | None = None
    """What its HTTP/2 made of our PING: answered | unanswered; None where it was not asked."""
    over: bool = False
    """The response has ended; what follows (a second connection, DNS details) is off the path."""
    _open: dict[int, LiveHop] = field(default_factory=dict)
    _stamps: dict[int, Ns] = field(default_factory=dict)
    _next_stamp: int = 0

    def apply(self, row: Row) -> None:
        """Take one row; rows of no interest, and rows that miss what they name, are passed over."""
        match row:
            case ["stamp", at_ns, _, _, _]:
                self._stamps[self._next_stamp] = at_ns
                self._stamps.pop(self._next_stamp - _RECENT_STAMPS, None)
                self._next_stamp += 1
                self._seen(at_ns)
            case ["resync", number]:
                self._stamps.clear()
                self._next_stamp = number
            case ["span", span, _, _, stage, name, start_ns]:
                self._span(span, stage, name, start_ns)
            case ["span-end", span, end_ns, _, _]:
                self._span_end(span, end_ns)
            case ["fact", key, *_] if key == HTTP_REDIRECT:
                self.over = False
            case ["fact", key, {"peer": str(peer), **more}, *_] if key == STREAM_QUIET:
                http = more.get("peer_http")
                self.quiet_peer, self.quiet_http = peer, http if isinstance(http, str) else None
            case ["arrival", *_]:
                self.quiet_peer = self.quiet_http = None
            case ["event", kind, stamp, _, tokens, *_]:
                self._event(_KINDS[kind], stamp, tokens)
            case _:
                pass

    def _seen(self, at_ns: Ns) -> None:
        self.latest_ns = max(self.latest_ns, at_ns)

    def _span(self, span: int, stage: str, name: str, start_ns: Ns) -> None:
        self._seen(start_ns)
        top = _SPANS.get((stage, name))
        if top is not None and not self.over:
            hop = LiveHop(top, start_ns)
            self.hops.append(hop)
            self._open[span] = hop

    def _span_end(self, span: int, end_ns: Ns) -> None:
        self._seen(end_ns)
        hop = self._open.pop(span, None)
        if hop is None:
            return
        self.over = hop.stage is Stage.WAIT
        if hop.stage is Stage.WAIT and self.last_content_ns is not None:
            self.hops[-1].end_ns = self.last_content_ns
            self.hops.append(LiveHop(Stage.FINISH, self.last_content_ns, end_ns))
        else:
            hop.end_ns = end_ns

    def _event(self, kind: EventKind, stamp: int, tokens: int) -> None:
        at_ns = self._stamps.get(stamp)
        if kind not in CONTENT_KINDS or at_ns is None:
            return
        self.events += 1
        self.tokens += max(tokens, 0)  # a missing number is negative in a row
        self.last_content_ns = at_ns
        if self.first_token_ns is None and kind in VISIBLE_KINDS:
            self.first_token_ns = at_ns
            self._begin_generation(at_ns)

    def _begin_generation(self, at_ns: Ns) -> None:
        for hop in self.hops:
            if hop.stage is Stage.WAIT and hop.end_ns is None:
                hop.end_ns = at_ns
        self.hops.append(LiveHop(Stage.GENERATION, at_ns))
