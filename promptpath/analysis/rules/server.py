"""PP6xx: the server's queue, prefill and decode."""

from __future__ import annotations

from itertools import pairwise

from promptpath.analysis.buffering.bursts import SILENCE_NS
from promptpath.analysis.buffering.judgement import BOX
from promptpath.analysis.cadence import PERCEIVED_NS
from promptpath.analysis.rules.base import NO, Because, Rule, because
from promptpath.analysis.rules.transport import MAJORITY
from promptpath.analysis.view import Measured
from promptpath.model.enums import EndState, EventKind, Severity, Stage
from promptpath.model.names import SERVER_TIMING
from promptpath.model.report import Evidence
from promptpath.model.units import Ns, format_duration

READING_TOKENS_PER_S = 5.3
"""Silent reading of English, 238 words a minute (Brysbaert 2019, a meta-analysis of 190 studies),
at 0.75 words a token (OpenAI's rule of thumb): a stream below this keeps its reader waiting."""
MAX_STALL_EVIDENCE = 3


def _dominates(measured: Measured, stage: Stage) -> Because:
    """A reported stage is more than half of a time to the first token that a person perceives."""
    took, ttft = measured.inside.of(stage, Stage.WAIT), measured.ttft_ns
    if took is None or ttft is None or ttft < PERCEIVED_NS or took <= MAJORITY * ttft:
        return NO
    return because(
        f"the server reports {format_duration(took)} of {stage.value},"
        f" {100 * took / ttft:.0f} % of the {format_duration(ttft)} to the first token",
        facts=(SERVER_TIMING,),
    )


def _queue(measured: Measured) -> Because:
    return _dominates(measured, Stage.QUEUE)


def _prefill(measured: Measured) -> Because:
    return _dominates(measured, Stage.PREFILL)


def _slow_decode(measured: Measured) -> Because:
    rhythm = measured.rhythm
    rate = rhythm.cadence.tokens_per_s if rhythm else None
    if rhythm is None or rate is None or rate >= READING_TOKENS_PER_S:
        return NO
    return because(f"{rate:g} tokens/s over {rhythm.cadence.events} events")


def _stalls(measured: Measured) -> Because:
    rhythm = measured.rhythm
    if rhythm is None or not rhythm.stalls:
        return NO
    usual = format_duration(rhythm.median_gap_ns or 0)
    content = measured.scan.content
    stalls = [index for index in rhythm.stalls if not _made_by_a_box(measured, index)]
    longest = sorted(stalls, key=lambda index: (-rhythm.gaps[index], index))
    return tuple(
        Evidence(
            text=f"{format_duration(rhythm.gaps[index])} without an event, the usual gap is {usual}"
            + _senders_view(measured, index),
            events=(content.index[index], content.index[index + 1]),
        )
        for index in longest[:MAX_STALL_EVIDENCE]
    )


def _made_by_a_box(measured: Measured, index: int) -> bool:
    """A box holds the stream, and the sender is not known to have paused for half of the gap: the
    pause is the hold that PP41x tells of. What the sender sent before and after a pause may have
    come in one burst."""
    judgement, rhythm = measured.buffering, measured.rhythm
    if judgement is None or rhythm is None or judgement.answer not in BOX:
        return False
    content = measured.scan.content
    last = index + 1
    while last < len(rhythm.gaps) and rhythm.gaps[last] < SILENCE_NS:
        last += 1
    sent = content.server_ns[index : last + 1]
    pauses = [after - before for before, after in pairwise(sent) if before >= 0]
    return 2 * max(pauses, default=0) < rhythm.gaps[index]


def _senders_view(measured: Measured, index: int) -> str:
    """Where each event carries its send time: did the sender pause too?"""
    sent = measured.scan.content.server_ns
    if sent[index] < 0 or sent[index + 1] < sent[index]:
        return ""
    return f"; the sender paused {format_duration(sent[index + 1] - sent[index])}"


def _claims_too_much(measured: Measured) -> Because:
    inside = measured.inside
    error = inside.remainder_error_ns
    found: list[Evidence] = []
    for name, left, excused in (
        ("wait", inside.wait_remainder_ns, error),
        ("generation", inside.generation_remainder_ns, error + _first_event_lag_ns(measured)),
    ):
        if left is not None and left < -excused:
            text = (
                f"the reported stages exceed the observed {name} by {format_duration(-left)}"
                f" (error {format_duration(error)})"
            )
            found.append(Evidence(text=text, facts=(SERVER_TIMING,)))
    return tuple(found)


def _first_event_lag_ns(measured: Measured) -> Ns:
    """How much later than the last event the first one may come for reasons of its own (a process
    woken late, a packet behind another): in a stream that keeps its rhythm less than one gap, in
    one that is held as long as anything is held."""
    rhythm, judgement = measured.rhythm, measured.buffering
    gap = 0 if rhythm is None else rhythm.median_gap_ns or 0
    if judgement is None or judgement.hold is None or judgement.answer not in BOX:
        return gap
    return max(gap, judgement.hold.max_ns + judgement.hold.error_ns)


def _undivided(measured: Measured) -> Because:
    wait, ttft = measured.breakdown.final_wait, measured.ttft_ns
    if wait is None or ttft is None or ttft < PERCEIVED_NS:
        return NO
    if measured.reported.sum_of(("queue", "prefill")) is not None:
        return NO
    server = wait.duration_ns - (measured.rtt_ns or 0) - wait.error_ns
    if server <= MAJORITY * ttft:
        return NO
    return because(
        f"{format_duration(wait.duration_ns)} of waiting, neither queue nor prefill reported"
    )


def _reasoning(measured: Measured) -> Because:
    took, ttft = measured.inside.of(Stage.DECODE, Stage.WAIT), measured.ttft_ns
    if took is None or ttft is None or took <= MAJORITY * ttft or ttft < PERCEIVED_NS:
        return NO
    if measured.end_state is EndState.NO_RESPONSE or not measured.scan.count(EventKind.REASONING):
        return NO
    return because(
        f"{measured.scan.count(EventKind.REASONING)} reasoning events over"
        f" {format_duration(took)} came before the first visible text"
    )


RULES = (
    Rule(
        code="PP601",
        title="The queue takes most of the time to the first token",
        severity=Severity.WARNING,
        asks="Is the server full rather than slow?",
        decided="The reported queue time is more than half of the time to the first visible"
        " token, and that is at least 0.1 s, what a person perceives (Miller 1968).",
        advice="Add capacity, or spread the load; a faster network or model changes little.",
        is_not="Not prefill, and not the path.",
        condition=_queue,
    ),
    Rule(
        code="PP602",
        title="Prefill takes most of the time to the first token",
        severity=Severity.INFO,
        asks="Is it the length of the prompt?",
        decided="The reported prefill time is more than half of the time to the first visible"
        " token, and that is at least 0.1 s, what a person perceives (Miller 1968).",
        advice="Shorten the prompt, or keep its beginning stable so that the prefix cache can be"
        " used (cached_tokens says whether it was).",
        is_not="Not the queue.",
        condition=_prefill,
    ),
    Rule(
        code="PP603",
        title="The stream is slower than people read",
        severity=Severity.WARNING,
        asks="Does the reader wait for each word?",
        decided="Fewer than 5.3 tokens/s: silent reading of English is 238 words a minute"
        " (Brysbaert 2019), at 0.75 words a token.",
        advice="Look at the where verdict: a decoder under load, or a path that throttles.",
        is_not="Not a slow start: that is the time to the first token.",
        condition=_slow_decode,
    ),
    Rule(
        code="PP604",
        title="The stream stalls",
        severity=Severity.WARNING,
        asks="Are there pauses far beyond the stream's own rhythm?",
        decided="A gap that even at the short end of its error exceeds Tukey's outer fence (Q3 +"
        " 3 IQR), four times the p90 gap (a burst rhythm is no stall; exponential gaps pass it"
        " once in 10,000) and 0.1 s, what a person perceives (Miller 1968).",
        advice="Where events carry send times the evidence says whether the sender paused."
        " Otherwise look at PP207 (loss) and at preemption in the engine.",
        is_not="Not a steady, slow rhythm (PP603), and not bursts.",
        condition=_stalls,
    ),
    Rule(
        code="PP605",
        title="The server reports more time than passed",
        severity=Severity.WARNING,
        asks="Can the reported times be believed?",
        decided="The reported stages exceed the observed interval they must fit in by more than"
        " its error; the generation by a usual gap besides, for its first event may come late.",
        advice="Ask what the server's numbers mean: stages that overlap, a sum over retries,"
        " another unit.",
        is_not="Not a measuring error: that was deducted.",
        condition=_claims_too_much,
    ),
    Rule(
        code="PP606",
        title="Nothing splits the server's time",
        severity=Severity.INFO,
        asks="Queue, prefill or a gateway: can anybody tell?",
        decided="More than half of a perceived (0.1 s, Miller 1968) time to the first token"
        " passed behind the TCP peer, and neither queue nor prefill was reported.",
        advice="Let the server send Server-Timing or timings in its last chunk; see"
        " docs/concepts/ttft.md.",
        is_not="Not proof of a slow model: the answer is honestly open.",
        condition=_undivided,
    ),
    Rule(
        code="PP607",
        title="Reasoning takes most of the time to the first visible text",
        severity=Severity.INFO,
        asks="Does the model think before it answers?",
        decided="From the first reasoning event to the first visible text is more than half of"
        " the time to the first visible text, and that is at least 0.1 s, what a person"
        " perceives (Miller 1968).",
        advice="Lower the reasoning effort, or show the reasoning to the reader.",
        is_not="Not queue or prefill: tokens flowed.",
        condition=_reasoning,
    ),
)
