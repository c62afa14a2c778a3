"""The hops inside `wait` and `generation`: what the far side reports, and what is left over.

They are never added to the top-level hops. What the far side reports and what we observe overlap;
the remainder is `return`: the way there and back, and whoever held the bytes. A negative
remainder (the far side claims more time than passed) is not shown as a hop but kept here, and a
finding names it.
"""

from __future__ import annotations

from dataclasses import dataclass

from promptpath.analysis.breakdown import Breakdown, Leg
from promptpath.analysis.cadence import Rhythm
from promptpath.analysis.milestones import Instants, error_of
from promptpath.analysis.server import Reported
from promptpath.model.enums import FactSource, Stage
from promptpath.model.units import Ns

PROMPT_STAGES = (
    Stage.EDGE,
    Stage.GATEWAY,
    Stage.SESSION,
    Stage.TOKENIZE,
    Stage.QUEUE,
    Stage.PREFILL,
)
"""What happens to a prompt before its first token, in order; each begins where the one before
ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A hop within another, in ns."""

    stage: Stage
    within: Stage
    start_ns: Ns | None
    duration_ns: Ns
    error_ns: Ns
    source: FactSource
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """The parts, and the remainders that tell whether they fit."""

    parts: tuple[Part, ...] = ()
    wait_remainder_ns: Ns | None = None
    """Wait minus everything reported or observed in it; negative when the far side claims too much.
    None when nothing was reported."""
    generation_remainder_ns: Ns | None = None
    """Generation minus reported decode; None when decode was not reported."""
    remainder_error_ns: Ns = 0
    """Error of the observed interval the reported ones must fit in."""

    def of(self, stage: Stage, within: Stage | None = None) -> Ns | None:
        """A part's duration; None where there is none."""
        for part in self.parts:
            if part.stage is stage and within in (None, part.within):
                return part.duration_ns
        return None


def look_inside(
    breakdown: Breakdown, instants: Instants, reported: Reported, rhythm: Rhythm | None
) -> Inside:
    """The hops within the final exchange's wait and within generation."""
    wait = breakdown.final_wait
    if wait is None:
        return Inside()
    reasoning = _reasoning(wait, instants)
    prompt = _prompt_parts(reported)
    parts: list[Part] = [*prompt, *([reasoning] if reasoning else [])]
    remainder = None
    if prompt:
        remainder = wait.duration_ns - sum(part.duration_ns for part in parts)
        if remainder >= -wait.error_ns:
            parts.append(_return(wait, max(remainder, 0)))
    generation = breakdown.generation
    left = None
    if generation is not None and rhythm is not None:
        hidden = reasoning.duration_ns if reasoning else 0
        found, left = _generation_parts(generation, reported["decode"], hidden, rhythm)
        parts.extend(found)
    return Inside(
        parts=tuple(parts),
        wait_remainder_ns=remainder,
        generation_remainder_ns=left,
        remainder_error_ns=wait.error_ns,
    )


def _prompt_parts(reported: Reported) -> list[Part]:
    durations = {stage: reported[stage.value] for stage in PROMPT_STAGES}
    durations[Stage.GATEWAY] = reported.gateway_ns
    return [
        Part(
            stage=stage,
            within=Stage.WAIT,
            start_ns=None,
            duration_ns=duration,
            error_ns=0,
            source=FactSource.REPORTED,
        )
        for stage, duration in durations.items()
        if duration is not None
    ]


def _reasoning(wait: Leg, instants: Instants) -> Part | None:
    """Tokens that came before the first visible one: the wait for text is then not all prefill."""
    first, visible = instants.first_content, instants.first_visible
    if first is None or visible is None or first.at_ns >= visible.at_ns:
        return None
    start_ns = max(first.at_ns, wait.start_ns)
    return Part(
        stage=Stage.DECODE,
        within=Stage.WAIT,
        start_ns=start_ns,
        duration_ns=max(wait.end_ns - start_ns, 0),
        error_ns=error_of(first) + error_of(visible),
        source=FactSource.OBSERVED,
        why=("tokens before the first visible one (reasoning, a tool call)",),
    )


def _return(wait: Leg, remainder_ns: Ns) -> Part:
    return Part(
        stage=Stage.RETURN,
        within=Stage.WAIT,
        start_ns=None,
        duration_ns=remainder_ns,
        error_ns=wait.error_ns,
        source=FactSource.INFERRED,
        why=("what no reported stage covers: the way there and back, and whoever held it",),
    )


def _generation_parts(
    generation: Leg, decode_ns: Ns | None, hidden_ns: Ns, rhythm: Rhythm
) -> tuple[list[Part], Ns | None]:
    """Decode as reported (less what of it ran before the first visible token), and stalls: as far
    as decode does not already explain them."""
    parts: list[Part] = []
    stalled_ns = rhythm.stall_excess_ns
    left = None
    if decode_ns is not None:
        visible_ns = max(decode_ns - hidden_ns, 0)
        left = generation.duration_ns - visible_ns
        source = FactSource.INFERRED if hidden_ns else FactSource.REPORTED
        parts.append(_generation_part(Stage.DECODE, visible_ns, 0, source))
        stalled_ns = min(stalled_ns, max(left, 0))
    if stalled_ns > 0:
        source = FactSource.OBSERVED if decode_ns is None else FactSource.INFERRED
        count = len(rhythm.stalls)
        gaps = "one gap" if count == 1 else f"{count} gaps"
        why = f"{gaps} far beyond the stream's own rhythm"
        part = _generation_part(Stage.STALL, stalled_ns, generation.error_ns, source, why)
        parts.append(part)
    return parts, left


def _generation_part(
    stage: Stage, duration_ns: Ns, error_ns: Ns, source: FactSource, *why: str
) -> Part:
    return Part(
        stage=stage,
        within=Stage.GENERATION,
        start_ns=None,
        duration_ns=duration_ns,
        error_ns=error_ns,
        source=source,
        why=why,
    )
