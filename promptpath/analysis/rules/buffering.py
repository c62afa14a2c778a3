"""PP41x: boxes between the client and the model that hold the stream, one code a kind."""

from __future__ import annotations

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.buffering.verdict import harms, header_hint, hold_reason, proven
from promptpath.analysis.cures import cure_text
from promptpath.analysis.rules.base import NO, Because, Condition, Rule
from promptpath.analysis.view import Measured
from promptpath.model.enums import Severity


def _is(*answers: Answer) -> Condition:
    """The buffering verdict is one of these."""

    def condition(measured: Measured) -> Because:
        judgement = measured.buffering
        if judgement is None or judgement.answer not in answers:
            return NO
        return (*judgement.because, hold_reason(judgement), *header_hint(measured.headers))

    return condition


def _by_harm(measured: Measured) -> Severity:
    """Error only for a proven hold that people notice, with its own error taken off."""
    judgement = measured.buffering
    return Severity.ERROR if judgement is not None and proven(judgement) else Severity.WARNING


def _mild(measured: Measured) -> Severity:
    """Never an error: round trips alone can look like it."""
    judgement = measured.buffering
    return Severity.WARNING if judgement is not None and harms(judgement) else Severity.INFO


def _cure(measured: Measured) -> str:
    judgement = measured.buffering
    answer = "" if judgement is None else judgement.answer.value
    return cure_text(answer, measured.headers)


_HARM = (
    " Error when the answer is trusted at 0.8 or the sender stamps its events, a tenth of the"
    " events were held 0.1 s or longer (noticed: Miller 1968; Nielsen 1993, chapter 5), and the"
    " hold less its error is still more than is tolerated; warning else."
)

RULES = (
    Rule(
        code="PP411",
        title="The whole stream is held until it has ended",
        severity=Severity.ERROR,
        asks="Does somebody collect the answer and hand it over at once?",
        decided="All events within the time that a finished body takes to arrive (0.1 s and twice"
        " the rounds of slow start, RFC 5681), after a wait at least four times as long and 0.3 s"
        " or more." + _HARM,
        advice="Turn response buffering off at the box; ask the server directly to be sure that it"
        " streams.",
        is_not="Not a slow first token: the model had produced the first long before.",
        condition=_is(Answer.WHOLE_BODY),
        grade=_by_harm,
        cure=_cure,
    ),
    Rule(
        code="PP412",
        title="Events are held until a buffer is full",
        severity=Severity.ERROR,
        asks="Does a box wait for so many bytes?",
        decided="HTTP frames or bursts of one size that end within an event (measured: 0.95 of the"
        " bursts do), whatever the time between them." + _HARM,
        advice="Turn response buffering off at the box.",
        is_not="Not a timer: that cuts between events.",
        condition=_is(Answer.SIZE_BUFFER),
        grade=_by_harm,
        cure=_cure,
    ),
    Rule(
        code="PP413",
        title="Events are held until a timer fires",
        severity=Severity.ERROR,
        asks="Does somebody flush the stream by the clock?",
        decided="Groups of whole events at even gaps whose number wavers by one: two clocks beat;"
        " or, with the sender's stamps, groups of whole events that were sent one by one." + _HARM,
        advice="Flush after each event; ask the server directly, as the timer may be its own.",
        is_not="Not speculative decoding, whose groups differ widely.",
        condition=_is(Answer.TIMER),
        grade=_by_harm,
        cure=_cure,
    ),
    Rule(
        code="PP414",
        title="Events come in groups at a steady pace",
        severity=Severity.INFO,
        asks="Is the stream batched by somebody?",
        decided="Groups of whole events, one HTTP frame each. A timer, a buffer and a server that"
        " emits several tokens a step look alike from here; no threshold decides it.",
        advice="Let the sender stamp its events, or ask the server directly.",
        is_not="Not proof of a box: batching servers do the same.",
        condition=_is(Answer.PACED_BATCH),
    ),
    Rule(
        code="PP415",
        title="Each event is held until the next one comes",
        severity=Severity.WARNING,
        asks="Is the stream always one event behind?",
        decided="More than 0.8 of the bursts end within an event whose rest comes with the next"
        " (measured: 0.95 and more); or, with the sender's stamps, most events arrive when the"
        " next one is sent.",
        advice="Exclude text/event-stream from compression and inspection.",
        is_not="Not a slow model: the last token waits for the end.",
        condition=_is(Answer.ONE_EVENT_HOLD),
        cure=_cure,
    ),
    Rule(
        code="PP416",
        title="The beginning of the stream is held",
        severity=Severity.WARNING,
        asks="Does a box wait for the first so many bytes?",
        decided="The first burst has several events, by the rhythm of the rest they were held; the"
        " rest passes within what is tolerated.",
        advice="Turn off body inspection or request buffering for the path; a comment of some kB at"
        " the start of the stream passes many such boxes.",
        is_not="Not a slow first token.",
        condition=_is(Answer.INITIAL_HOLD, Answer.HEADERS_HELD),
        cure=_cure,
    ),
    Rule(
        code="PP417",
        title="A compressor holds events",
        severity=Severity.ERROR,
        asks="Does an encoder keep events in its window?",
        decided="A content coding, several events an HTTP frame, bursts that end within an event."
        + _HARM,
        advice="Exclude text/event-stream from compression, or flush after each event.",
        is_not="Not compression as such: one that flushes costs below 1 ms.",
        condition=_is(Answer.COMPRESSION),
        grade=_by_harm,
        cure=_cure,
    ),
    Rule(
        code="PP418",
        title="Events are held until a TLS record is full",
        severity=Severity.ERROR,
        asks="Does a box collect small frames into large TLS records?",
        decided="HTTP frames of one event each, several events a TLS record, records of 4 KiB or"
        " more (16 KiB at most: RFC 8446, 5.1)." + _HARM,
        advice="Turn response buffering off at the box that ends TLS, or use HTTP/2 there.",
        is_not="Not visible in clear text: the same server passes the stream over http.",
        condition=_is(Answer.TLS_RECORD_BUFFER),
        grade=_by_harm,
        cure=_cure,
    ),
    Rule(
        code="PP419",
        title="Small events are collected below HTTP",
        severity=Severity.WARNING,
        asks="Does a sender's socket wait for more?",
        decided="HTTP frames as their sender made them, several a burst, and more after a longer"
        " wait, or after one that TCP's senders know: 200 ms (tcp(7), TCP_CORK), a round trip"
        " (Nagle's algorithm, RFC 1122, 4.2.3.4), a full segment. Warning from a noticed hold on"
        " (0.1 s: Nielsen 1993), info below.",
        advice="Set TCP_NODELAY, and no cork, at the hop before the client.",
        is_not="Not a buffer: at most a segment or 200 ms are held.",
        condition=_is(Answer.TRANSPORT_CORK),
        grade=_mild,
        cure=_cure,
    ),
    Rule(
        code="PP420",
        title="The stream is throttled",
        severity=Severity.WARNING,
        asks="Does the path carry less than the stream needs?",
        decided="With the sender's stamps: the delay at least doubles from the first tenth of the"
        " events to the last, by more than 0.1 s (noticed: Nielsen 1993). Without: bursts of one"
        " size at even gaps that cut frames anywhere.",
        advice="Look for a rate limit on the way, or a slow link.",
        is_not="Not a buffer: what is held grows without end.",
        condition=_is(Answer.THROTTLE),
        cure=_cure,
    ),
)
