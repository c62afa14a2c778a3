"""What the far side says of its own time. Reported, never measured: it stands beside the
observation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from promptpath.analysis.facts import Facts, text, whole
from promptpath.model.names import SERVER_COUNT, SERVER_TIMING, STREAM_USAGE
from promptpath.model.redact import printable
from promptpath.model.report import Server
from promptpath.model.units import Ns, opt_ms

_PLACES = ("header", "chunk", "final")
"""Later ones know more: a header is written before the first token exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Reported durations by scope, in ns, and what they were read from."""

    by_scope: dict[str, Ns] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """Scope to the far side's own word for it."""
    sources: tuple[str, ...] = ()

    def __getitem__(self, scope: str) -> Ns | None:
        return self.by_scope.get(scope)

    def sum_of(self, scopes: Iterable[str]) -> Ns | None:
        """The sum over those scopes that are reported; None when none is."""
        known = [self.by_scope[scope] for scope in scopes if scope in self.by_scope]
        return sum(known) if known else None

    @property
    def gateway_ns(self) -> Ns | None:
        """The gateway's own total where it gives one, else its checks together."""
        whole_gateway = self["gateway"]
        return self.sum_of(("auth", "limits")) if whole_gateway is None else whole_gateway


def read_reported(facts: Facts) -> Reported:
    """One duration a scope: the one from the best place, the last of these."""
    best: dict[str, tuple[int, Ns, str]] = {}
    sources: dict[str, None] = {}
    for record in facts.records(SERVER_TIMING):
        scope, duration = text(record.get("scope")), whole(record.get("duration_ns"))
        place = record.get("place")
        if scope is None or duration is None or duration < 0 or place not in _PLACES:
            continue
        sources[printable(f"{place}: {record.get('name') or scope}")] = None
        rank = _PLACES.index(place)
        if scope not in best or rank >= best[scope][0]:
            best[scope] = (rank, duration, str(record.get("name") or scope))
    return Reported(
        by_scope={scope: found[1] for scope, found in best.items()},
        names={scope: found[2] for scope, found in best.items()},
        sources=tuple(sources),
    )


def server_report(facts: Facts, reported: Reported) -> Server:
    """The report's `server`."""
    counts = {str(r.get("name")): whole(r.get("value")) for r in facts.records(SERVER_COUNT)}
    usage = facts.record(STREAM_USAGE)
    cached, prompt = counts.get("cached_n"), counts.get("prompt_n")
    return Server(
        sources=reported.sources,
        queue_ms=opt_ms(reported["queue"]),
        tokenize_ms=opt_ms(reported["tokenize"]),
        prefill_ms=opt_ms(reported["prefill"]),
        decode_ms=opt_ms(reported["decode"]),
        gateway_ms=opt_ms(reported.gateway_ns),
        session_ms=opt_ms(reported["session"]),
        total_ms=opt_ms(reported["total"]),
        cached_tokens=whole(usage.get("cached_tokens")) if cached is None else cached,
        prompt_tokens=whole(usage.get("input_tokens")) if prompt is None else prompt,
    )
