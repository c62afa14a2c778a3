"""The hops as the report shows them: legs and parts in ms, with titles and what drove them."""

from __future__ import annotations

from promptpath.analysis.breakdown import Breakdown, Leg
from promptpath.analysis.drivers import drivers_of
from promptpath.analysis.facts import Facts
from promptpath.analysis.stats import error_ms
from promptpath.analysis.view import Measured
from promptpath.analysis.within import Inside, Part
from promptpath.model.enums import FactSource, Outcome, Stage
from promptpath.model.names import PROXY
from promptpath.model.redact import printable
from promptpath.model.report import Hop
from promptpath.model.units import Ns, to_ms

_TITLES = {
    Stage.DNS: "name resolution",
    Stage.PROXY: "proxy",
    Stage.TCP: "TCP connect",
    Stage.TLS: "TLS handshake",
    Stage.QUIC: "QUIC handshake",
    Stage.REQUEST: "request upload",
    Stage.WAIT: "wait for the first token",
    Stage.GENERATION: "generation",
    Stage.FINISH: "finish",
    Stage.EDGE: "edge",
    Stage.GATEWAY: "gateway",
    Stage.SESSION: "session",
    Stage.TOKENIZE: "tokenize",
    Stage.QUEUE: "queue",
    Stage.PREFILL: "prefill",
    Stage.RETURN: "way there and back",
    Stage.DECODE: "decode",
    Stage.HOLD: "held",
    Stage.STALL: "stalls",
}


def hops_of(measured: Measured) -> tuple[Hop, ...]:
    """All hops in trip order; those within another follow it."""
    breakdown, inside = measured.breakdown, measured.inside
    hops: list[Hop] = []
    for leg in breakdown.legs:
        hops.append(_leg_hop(leg, measured))
        if leg is breakdown.final_wait or leg is breakdown.generation:
            hops.extend(_parts_of(leg.stage, inside, breakdown.t0_ns))
    return tuple(hops)


def _leg_hop(leg: Leg, measured: Measured) -> Hop:
    breakdown = measured.breakdown
    return Hop(
        stage=leg.stage,
        within=None,
        title=_leg_title(leg, breakdown, measured.facts),
        start_ms=to_ms(leg.start_ns - breakdown.t0_ns),
        duration_ms=to_ms(leg.duration_ns),
        error_ms=error_ms(leg.error_ns),
        source=FactSource.OBSERVED,
        drivers=drivers_of(leg, measured),
    )


def _leg_title(leg: Leg, breakdown: Breakdown, facts: Facts) -> str:
    title = _TITLES[leg.stage]
    final = leg.exchange == breakdown.exchanges - 1
    if leg.stage is Stage.WAIT and not final:
        title = "wait for the redirect"
    elif leg.stage is Stage.WAIT and breakdown.generation is None:
        title = "wait for the response"
    elif leg.stage is Stage.PROXY and (kind := facts.record(PROXY).get("kind")):
        title = printable(f"{kind} proxy")
    if breakdown.exchanges > 1:
        title += f" (exchange {leg.exchange + 1} of {breakdown.exchanges})"
    if leg.failed and leg.stage is not Stage.WAIT:
        title += f" ({_outcome(leg)})"
    return title


def _outcome(leg: Leg) -> str:
    return next(span.outcome.value for span in leg.spans if span.outcome is not Outcome.OK)


def _parts_of(stage: Stage, inside: Inside, t0_ns: Ns) -> list[Hop]:
    return [_part_hop(part, t0_ns) for part in inside.parts if part.within is stage]


def _part_hop(part: Part, t0_ns: Ns) -> Hop:
    title = _TITLES[part.stage]
    if part.stage is Stage.DECODE and part.within is Stage.WAIT:
        title = "tokens before the visible text"
    return Hop(
        stage=part.stage,
        within=part.within,
        title=title,
        start_ms=None if part.start_ns is None else to_ms(part.start_ns - t0_ns),
        duration_ms=to_ms(part.duration_ns),
        error_ms=error_ms(part.error_ns),
        source=part.source,
        drivers=part.why,
    )
