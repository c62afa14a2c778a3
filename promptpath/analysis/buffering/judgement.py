"""What a buffering decision says, whoever made it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from promptpath.analysis.buffering.hold import Hold
from promptpath.model.report import Evidence as Reason


class Answer(StrEnum):
    """What happens to the stream between its sender and us."""

    STREAMING = "streaming"
    WHOLE_BODY = "whole-body"
    """Everything is kept until the sender has ended."""
    SIZE_BUFFER = "size-buffer"
    """Kept until so many bytes have come."""
    TIMER = "timer"
    """Kept until so much time has passed."""
    PACED_BATCH = "paced-batch"
    """Groups at a steady pace: a timer, a buffer or the sender's own batches; these cannot be told
    apart from arrivals alone."""
    ONE_EVENT_HOLD = "one-event-hold"
    """Each event arrives when the next is sent."""
    INITIAL_HOLD = "initial-hold"
    """Only the beginning is kept, until so many bytes have come; `headers-held` with the head."""
    HEADERS_HELD = "headers-held"
    COMPRESSION = "compression"
    """An encoder that does not flush after each event."""
    TLS_RECORD_BUFFER = "tls-record-buffer"
    """HTTP frames of one event each, collected into large TLS records."""
    TRANSPORT_CORK = "transport-cork"
    """HTTP frames intact, collected below HTTP: Nagle, delayed ACK, MSG_MORE."""
    THROTTLE = "throttle"
    """Passed on at a limited rate: the delay grows."""
    LOSS = "loss"
    """Segments came out of order; TCP waits for the missing one."""
    CLIENT_LAG = "client-lag"
    """This client read late."""
    SERVER_BATCH = "server-batch"
    """The sender emits several events at a time."""
    INCONCLUSIVE = "inconclusive"


BOX = frozenset(
    {
        Answer.WHOLE_BODY,
        Answer.SIZE_BUFFER,
        Answer.TIMER,
        Answer.ONE_EVENT_HOLD,
        Answer.INITIAL_HOLD,
        Answer.HEADERS_HELD,
        Answer.COMPRESSION,
        Answer.TLS_RECORD_BUFFER,
        Answer.TRANSPORT_CORK,
        Answer.THROTTLE,
    }
)
"""Answers that mean somebody between the model and us kept bytes he had."""
UNDECIDED = frozenset({Answer.PACED_BATCH, Answer.INCONCLUSIVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The answer with all that stands behind it."""

    answer: Answer
    confidence: float
    hold: Hold | None
    """None where there were too few events to say."""
    tolerated_ns: int
    """The hold at the 90th percentile that would pass as streaming."""
    because: tuple[Reason, ...]
    layer: str | None = None
    """The lowest layer that still shows single events' traces of coalescing: http-frame |
    tls-record | segment | body."""
    size_bytes: int | None = None
    """Of the buffer, the burst or the initial hold."""
    period_ns: int | None = None
    """Of the timer or the cork."""
    alternatives: tuple[Answer, ...] = ()
    next_test: str | None = None
    """What would decide, or confirm."""
    stamped: bool = False
    """Decided with the sender's stamps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """One decision before hold and confidence are joined to it."""

    answer: Answer
    because: tuple[Reason, ...]
    layer: str | None = None
    size_bytes: int | None = None
    period_ns: int | None = None
    alternatives: tuple[Answer, ...] = field(default=())
    next_test: str | None = None
    doubtful: bool = False
    """The evidence would look the same in a rarer case: confidence is lowered."""


def why(text: str, events: tuple[int, ...] = ()) -> tuple[Reason, ...]:
    """One reason, with the events it rests on."""
    return (Reason(text=text, events=events),)
