"""The hold as a hop: what a proven one added to the time to the first token, taken out of what
nobody could explain."""

from __future__ import annotations

from dataclasses import replace

from promptpath.analysis.buffering.judgement import Answer, Judgement
from promptpath.analysis.buffering.verdict import first_hold_ns
from promptpath.analysis.within import Inside, Part
from promptpath.model.enums import FactSource, Stage
from promptpath.model.units import Ns


def first_token_hold_ns(
    judgement: Judgement | None, decode_ns: Ns | None, generation_ns: Ns | None
) -> Ns:
    """How long the first token was held, where that is proven; else 0. `decode_ns` is what the
    server reports, `generation_ns` what we saw."""
    if judgement is None or (hold_ns := first_hold_ns(judgement)) <= 0:
        return 0
    whole = judgement.answer is Answer.WHOLE_BODY
    if whole and decode_ns is not None and generation_ns is not None:
        # The server says how long it made tokens; all came at once, so the first waited for that.
        return max(hold_ns, decode_ns - generation_ns)
    return hold_ns


def with_hold(inside: Inside, hold_ns: Ns, judgement: Judgement | None) -> Inside:
    """The wait's unexplained remainder, split into the hold and the way there and back."""
    parts: list[Part] = []
    for part in inside.parts:
        taken = min(hold_ns, part.duration_ns) if part.stage is Stage.RETURN else 0
        if taken > 0 and judgement is not None:
            parts.append(_hold(part, taken, judgement))
            part = replace(part, duration_ns=part.duration_ns - taken)
        parts.append(part)
    return replace(inside, parts=tuple(parts))


def _hold(rest: Part, taken_ns: Ns, judgement: Judgement) -> Part:
    hold = judgement.hold
    return Part(
        stage=Stage.HOLD,
        within=rest.within,
        start_ns=None,
        duration_ns=taken_ns,
        error_ns=rest.error_ns if hold is None else max(rest.error_ns, hold.error_ns),
        source=FactSource.INFERRED,
        why=(f"a box had the first token and kept it: {judgement.answer.value}",),
    )
