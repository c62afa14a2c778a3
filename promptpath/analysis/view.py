"""Everything measured of one trace, computed once: what hops, verdicts and rules look at."""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.analysis.breakdown import Breakdown, break_down
from promptpath.analysis.buffering.from_trace import trace_evidence
from promptpath.analysis.buffering.hop import first_token_hold_ns, with_hold
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Judgement
from promptpath.analysis.cadence import Rhythm, judge_cadence
from promptpath.analysis.end_state import judge_end
from promptpath.analysis.facts import Facts, rtt_ns, tcp_counter
from promptpath.analysis.instrument import judge_instrument
from promptpath.analysis.milestones import Instants, early_error, find_instants
from promptpath.analysis.scan import Scan, scan_events
from promptpath.analysis.server import Reported, read_reported
from promptpath.analysis.within import Inside, look_inside
from promptpath.model.enums import EndState, Stage
from promptpath.model.names import (
    FAILURE,
    HTTP_HEADERS,
    HTTP_STATUS,
    LIMIT,
    RUN,
    SPAN_DIAL,
    SPAN_HANDSHAKE,
    SPAN_UPLOAD,
)
from promptpath.model.plan import PlanRecord
from promptpath.model.report import Instrument
from promptpath.model.trace import Trace
from promptpath.model.units import Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One trace, taken apart."""

    trace: Trace
    plan: PlanRecord
    facts: Facts
    scan: Scan
    instants: Instants
    breakdown: Breakdown
    reported: Reported
    rhythm: Rhythm | None
    inside: Inside
    instrument: Instrument
    end_state: EndState
    conn: int | None
    """The connection that carried the prompt."""
    rtt_ns: Ns | None
    """Round trip to the TCP peer (a proxy's, where there is one)."""
    buffering: Judgement | None
    """What happens to the stream on its way; None where there was no stream."""
    first_hold_ns: Ns
    """How long a box kept the first token, where that is proven; else 0."""

    @property
    def status(self) -> int | None:
        """The final response's status."""
        return self.facts.whole(HTTP_STATUS)

    @property
    def failure_stage(self) -> str | None:
        """The stage at which the run could not go on."""
        stage = self.facts.record(FAILURE).get("stage")
        return stage if isinstance(stage, str) else None

    @property
    def failure_code(self) -> str | None:
        """Its machine-readable code."""
        code = self.facts.record(FAILURE).get("code")
        return code if isinstance(code, str) else None

    @property
    def limit(self) -> str | None:
        """The limit of ours that ended the run."""
        name = self.facts.record(LIMIT).get("name")
        return name if isinstance(name, str) else None

    @property
    def warm(self) -> bool:
        """This was a second prompt on an open connection."""
        return self.facts.record(RUN).get("kind") == "warm"

    @property
    def headers(self) -> dict[str, str]:
        """The final response's headers by lower-case name."""
        return self.facts.headers(HTTP_HEADERS)

    @property
    def ttft_ns(self) -> Ns | None:
        """t0 to the first visible text; None is "never"."""
        visible = self.instants.first_visible
        return None if visible is None else visible.at_ns - self.breakdown.t0_ns

    @property
    def ttft_error_ns(self) -> Ns | None:
        """Its error; text cannot have come before its request was sent."""
        visible, sent_ns = self.instants.first_visible, self.breakdown.request_end_ns
        if visible is None:
            return None
        early_ns = early_error(visible)
        if sent_ns is not None:
            early_ns = min(early_ns, max(visible.at_ns - sent_ns, 0))
        return max(early_ns, visible.hi_ns - visible.at_ns)

    @property
    def trip_ns(self) -> Ns:
        """What a share is taken of: time to the first visible text, or the whole trip without
        one."""
        return self.breakdown.e2e_ns if self.ttft_ns is None else self.ttft_ns


def measure(trace: Trace, plan: PlanRecord) -> Measured:
    """Take a trace apart."""
    facts = Facts(trace)
    scan = scan_events(trace)
    instants = find_instants(trace, scan)
    breakdown = break_down(trace, instants)
    reported = read_reported(facts)
    conn = conn_of(trace)
    rhythm = judge_cadence(trace, facts, scan, breakdown.t0_ns)
    end_state = judge_end(trace, facts, scan)
    buffering = _judge_buffering(trace, facts, scan, conn, end_state)
    generation = breakdown.generation
    first_hold_ns = first_token_hold_ns(
        buffering, reported["decode"], None if generation is None else generation.duration_ns
    )
    return Measured(
        trace=trace,
        plan=plan,
        facts=facts,
        scan=scan,
        instants=instants,
        breakdown=breakdown,
        reported=reported,
        rhythm=rhythm,
        inside=with_hold(
            look_inside(breakdown, instants, reported, rhythm), first_hold_ns, buffering
        ),
        instrument=judge_instrument(trace, scan),
        end_state=end_state,
        conn=conn,
        rtt_ns=rtt_ns(facts, conn),
        buffering=buffering,
        first_hold_ns=first_hold_ns,
    )


_NO_STREAM = (EndState.NOT_A_STREAM, EndState.NO_RESPONSE)


def _judge_buffering(
    trace: Trace, facts: Facts, scan: Scan, conn: int | None, end_state: EndState
) -> Judgement | None:
    evidence = None
    if end_state not in _NO_STREAM:
        evidence = trace_evidence(
            trace,
            scan,
            facts.headers(HTTP_HEADERS),
            rtt_ns=rtt_ns(facts, conn),
            mtu=tcp_counter(facts, "pmtu_bytes", conn),
        )
    return None if evidence is None else judge(evidence)


def conn_of(trace: Trace) -> int | None:
    """The connection that carried the last request, or the last one that was dialled."""
    for name in (SPAN_UPLOAD, SPAN_HANDSHAKE, SPAN_DIAL):
        for span in reversed(trace.spans):
            if span.name == name and span.conn is not None and span.stage is not Stage.PROXY:
                return span.conn
    return None
