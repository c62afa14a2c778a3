"""Where did the time go? One verdict, never smaller than its error, never invented.

Every nanosecond from t0 to the last token belongs to one share. What nothing splits stays
`server` (undivided: everything behind the TCP peer), what may belong to several stays `unknown`
and counts against the answer: a share wins only when it is larger than the runner-up with all
unknown time and all errors given to the runner-up.
"""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.analysis.buffering.verdict import proven
from promptpath.analysis.view import Measured
from promptpath.model.enums import FactSource, Stage
from promptpath.model.names import MARK_REQUEST_ACKED, TCP_INFO
from promptpath.model.report import Evidence, Verdict
from promptpath.model.units import NS_PER_MS, Ns, format_duration, to_ms

QUESTION = "where"
INCONCLUSIVE = "inconclusive"
ANSWERS = ("path", "box", "queue", "prefill", "decode", "server", "client")
REPORTED_CONFIDENCE = 0.9
"""Upper bound of confidence for an answer that rests on the far side's word alone."""
CONTRACT_STAGES = (Stage.QUEUE, Stage.PREFILL)
"""Both reported: the server accounts for its whole time before the first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Time by owner, in ns."""

    by_owner: dict[str, Ns]
    unknown_ns: Ns
    error_ns: Ns
    reported: frozenset[str]
    """Owners that rest on what the far side says."""

    @property
    def total_ns(self) -> Ns:
        """t0 to the last token, or to the end of what failed."""
        return sum(self.by_owner.values()) + self.unknown_ns


def divide(measured: Measured) -> Shares:
    """Give every nanosecond of the trip up to the last token to an owner."""
    breakdown = measured.breakdown
    owners: dict[str, Ns] = dict.fromkeys(ANSWERS, 0)
    owners["path"] = breakdown.total_ns(Stage.DNS, Stage.TCP, Stage.TLS, Stage.QUIC, Stage.REQUEST)
    owners["box"] = breakdown.total_ns(Stage.PROXY)
    finish = breakdown.of(Stage.FINISH)
    owners["client"] = breakdown.unexplained_ns
    redirects = [w for w in breakdown.of(Stage.WAIT) if w is not breakdown.final_wait]
    owners["server"] += sum(leg.duration_ns for leg in redirects)
    reported: set[str] = set()
    unknown = _divide_wait(measured, owners, reported)
    unknown = _take_hold(measured, owners, unknown)
    unknown += _divide_generation(measured, owners, reported)
    error = sum(leg.error_ns for leg in breakdown.legs if leg not in finish)
    return Shares(by_owner=owners, unknown_ns=unknown, error_ns=error, reported=frozenset(reported))


def _divide_wait(measured: Measured, owners: dict[str, Ns], reported: set[str]) -> Ns:
    """The final wait: one round trip is the path's, reported stages their own, the rest undivided
    or, where the server accounts for all of its time, unknown. Returns the unknown part."""
    wait, inside = measured.breakdown.final_wait, measured.inside
    if wait is None:
        return 0
    left = wait.duration_ns
    # Hidden reasoning is decoding; it is observed, so it goes first.
    reasoning = min(inside.of(Stage.DECODE, Stage.WAIT) or 0, left)
    owners["decode"] += reasoning
    left -= reasoning
    for part in inside.parts:
        if part.within is not Stage.WAIT or part.source is not FactSource.REPORTED:
            continue
        taken = min(part.duration_ns, left)
        owner = _OWNER[part.stage]
        owners[owner] += taken
        reported.add(owner)
        left -= taken
    trip = min(measured.rtt_ns or 0, left)
    owners["path"] += trip
    left -= trip
    if all(inside.of(stage, Stage.WAIT) is not None for stage in CONTRACT_STAGES):
        return left
    owners["server"] += left
    return 0


def _take_hold(measured: Measured, owners: dict[str, Ns], unknown: Ns) -> Ns:
    """What a proven hold added to the time to the first token is a box's: out of what nobody can
    explain first, then out of the undivided server time. Returns what stays unknown."""
    left = measured.first_hold_ns
    from_unknown = min(left, unknown)
    from_server = min(left - from_unknown, owners["server"])
    owners["server"] -= from_server
    owners["box"] += from_unknown + from_server
    return unknown - from_unknown


_OWNER = {
    Stage.EDGE: "box",
    Stage.GATEWAY: "box",
    Stage.SESSION: "server",
    Stage.TOKENIZE: "server",
    Stage.QUEUE: "queue",
    Stage.PREFILL: "prefill",
}


def _divide_generation(measured: Measured, owners: dict[str, Ns], reported: set[str]) -> Ns:
    """Generation: decode as reported, or as far as the sender's own send stamps reach; else
    undivided."""
    generation = measured.breakdown.generation
    if generation is None:
        return 0
    decode = measured.inside.of(Stage.DECODE, Stage.GENERATION)
    if decode is None:
        sent = measured.scan.server_span_ns
        reasoning = measured.inside.of(Stage.DECODE, Stage.WAIT) or 0
        decode = None if sent is None else max(sent - reasoning, 0)
    if decode is None:
        owners["server"] += generation.duration_ns
        return 0
    taken = min(decode, generation.duration_ns)
    owners["decode"] += taken
    reported.add("decode")
    return generation.duration_ns - taken


def judge_where(measured: Measured) -> Verdict:
    """The verdict."""
    shares = divide(measured)
    total = shares.total_ns
    ranked = sorted(shares.by_owner.items(), key=lambda item: -item[1])
    (answer, top), (_, second) = ranked[0], ranked[1]
    margin = top - second - shares.unknown_ns - shares.error_ns
    because = [_evidence(measured, owner, ns, total) for owner, ns in ranked if ns > 0][:3]
    if shares.unknown_ns > 0:
        because.append(_unknown(shares, total))
    if not because:
        because.append(Evidence(text="nothing was measured"))
    if margin <= 0 or total <= 0:
        return _verdict(INCONCLUSIVE, 0.0, shares, because)
    confidence = 0.5 + 0.5 * margin / total
    if answer in shares.reported:
        confidence = min(confidence, REPORTED_CONFIDENCE)
    return _verdict(answer, confidence, shares, because)


def _verdict(answer: str, confidence: float, shares: Shares, because: list[Evidence]) -> Verdict:
    estimate: dict[str, float] = {
        f"{owner}_ms": to_ms(ns) for owner, ns in shares.by_owner.items() if ns
    }
    estimate["unknown_ms"] = to_ms(shares.unknown_ns)
    estimate["error_ms"] = to_ms(shares.error_ns)
    estimate["total_ms"] = to_ms(shares.total_ns)
    return Verdict(
        question=QUESTION,
        answer=answer,
        confidence=round(confidence, 2),
        estimate=dict(estimate),
        because=tuple(because),
    )


_SAYS = {
    "path": "name resolution, connection, upload and one round trip took",
    "box": "proxies, gateways and other boxes took",
    "queue": "the server says the prompt queued for",
    "prefill": "the server says prefill took",
    "decode": "decoding took",
    "server": "everything behind the TCP peer, undivided, took",
    "client": "this machine, between two stages, took",
}


def _evidence(measured: Measured, owner: str, ns: Ns, total: Ns) -> Evidence:
    share = f"{100 * ns / total:.0f} %" if total else "all"
    said = f"{_SAYS[owner]} {format_duration(ns)} of {format_duration(total)} ({share})"
    judgement = measured.buffering
    if owner == "box" and judgement is not None and proven(judgement):
        said += f", the stream being held on its way ({judgement.answer.value})"
    if owner == "server" and not _has_reply(measured):
        acked = next(iter(measured.trace.marks_of(MARK_REQUEST_ACKED)), None)
        said += ", the request was ACKed and no response came" if acked else ", no response came"
    facts = (TCP_INFO,) if owner == "path" and measured.rtt_ns else ()
    spans = [s.id for leg in measured.breakdown.legs for s in leg.spans if _owns(owner, leg.stage)]
    return Evidence(text=said, spans=tuple(spans), facts=facts)


def _has_reply(measured: Measured) -> bool:
    return measured.instants.headers is not None


def _owns(owner: str, stage: Stage) -> bool:
    before = (Stage.DNS, Stage.TCP, Stage.TLS, Stage.QUIC, Stage.REQUEST)
    return (
        (owner == "path" and stage in before)
        or (owner == "box" and stage is Stage.PROXY)
        or (owner in ("server", "queue", "prefill") and stage is Stage.WAIT)
    )


def _unknown(shares: Shares, total: Ns) -> Evidence:
    ns = shares.unknown_ns
    share = 100 * ns / total if total else 0
    error = format_duration(max(shares.error_ns, NS_PER_MS // 1000))
    return Evidence(
        text=f"{format_duration(ns)} ({share:.0f} %) is neither reported by the server nor one"
        f" round trip: the way, a box that holds, or work nobody reports (errors together {error})"
    )
