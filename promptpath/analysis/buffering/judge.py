"""One stream's evidence in, one judgement out."""

from __future__ import annotations

from math import floor

from promptpath.analysis.buffering.evidence import Evidence
from promptpath.analysis.buffering.hold import (
    Hold,
    estimate_hold,
    estimate_whole_hold,
    measure_hold,
    tolerated_ns,
)
from promptpath.analysis.buffering.judgement import UNDECIDED, Answer, Guess, Judgement
from promptpath.analysis.buffering.passive import decide
from promptpath.analysis.buffering.shape import Shape
from promptpath.analysis.buffering.stamped import decide_stamped
from promptpath.analysis.buffering.thresholds import MIN_EVENTS

RIGHT: dict[Answer, tuple[int, int]] = {
    Answer.STREAMING: (335, 340),
    Answer.WHOLE_BODY: (76, 79),
    Answer.SIZE_BUFFER: (26, 26),
    Answer.TIMER: (26, 26),
    Answer.ONE_EVENT_HOLD: (4, 4),
    Answer.COMPRESSION: (8, 8),
    Answer.TRANSPORT_CORK: (42, 42),
    Answer.LOSS: (2, 2),
    Answer.CLIENT_LAG: (6, 6),
    Answer.SERVER_BATCH: (15, 15),
}
RIGHT_STAMPED: dict[Answer, tuple[int, int]] = {
    Answer.STREAMING: (335, 335),
    Answer.WHOLE_BODY: (76, 79),
    Answer.SIZE_BUFFER: (27, 27),
    Answer.TIMER: (30, 31),
    Answer.ONE_EVENT_HOLD: (4, 4),
    Answer.COMPRESSION: (8, 8),
    Answer.TRANSPORT_CORK: (45, 46),
    Answer.THROTTLE: (1, 1),
    Answer.LOSS: (3, 3),
    Answer.CLIENT_LAG: (6, 6),
    Answer.SERVER_BATCH: (29, 29),
}
"""How often an answer was right on the labelled recordings: (right, given). Measured by
`python -m benchmarks.signatures`; an answer never given there has (0, 0)."""
DOUBTFUL = 0.6
"""At most, where the evidence itself names an alternative that would look the same."""


def judge(evidence: Evidence, *, use_stamps: bool = True) -> Judgement:
    """What happens to the stream. The sender's stamps, where every event has one, outrank what
    arrivals alone suggest; `use_stamps` False leaves them out."""
    shape = Shape(evidence)
    stamped = use_stamps and evidence.events.stamped
    if shape.events < MIN_EVENTS:
        return _judgement(shape, decide(shape, None), None, stamped=False)
    hold = measure_hold(evidence) if stamped else estimate_hold(shape)
    guess = decide_stamped(shape, hold) if stamped else decide(shape, hold)
    if guess.answer is Answer.WHOLE_BODY and not stamped:
        hold = estimate_whole_hold(shape)
    return _judgement(shape, guess, hold, stamped=stamped)


def _judgement(shape: Shape, guess: Guess, hold: Hold | None, *, stamped: bool) -> Judgement:
    return Judgement(
        answer=guess.answer,
        confidence=_confidence(guess, stamped=stamped),
        hold=hold,
        tolerated_ns=tolerated_ns(shape.evidence),
        because=guess.because,
        layer=guess.layer,
        size_bytes=guess.size_bytes,
        period_ns=guess.period_ns,
        alternatives=guess.alternatives,
        next_test=guess.next_test,
        stamped=stamped,
    )


def _confidence(guess: Guess, *, stamped: bool) -> float:
    """Laplace's rule of succession, (right + 1) / (given + 2), on the labelled recordings: nothing
    gets 1, and an answer nobody has seen right yet gets a half. An undecided answer gets 0."""
    if guess.answer in UNDECIDED:
        return 0.0
    right, given = (RIGHT_STAMPED if stamped else RIGHT).get(guess.answer, (0, 0))
    found = (right + 1) / (given + 2)
    return floor(100 * (min(found, DOUBTFUL) if guess.doubtful else found)) / 100
