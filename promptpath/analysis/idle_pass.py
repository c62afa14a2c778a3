"""All streams of an idle pass together: which timers there are, what resets them, and whose they
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.analysis.defaults import LATE_NS, Default, TimerKind, matching
from promptpath.analysis.idle import Fate, StreamFate
from promptpath.model.report import Evidence, Verdict
from promptpath.model.rows import Json
from promptpath.model.units import NS_PER_MS, Ns, format_duration, opt_ms, to_ms

QUESTION = "idle"
STREAM_QUESTION = "idle-stream"
NEXT_WRITE_NS = 500 * NS_PER_MS
"""A cut within half a second of the first write after the silence: its deadline had passed before,
and only a write showed it (measured: Go's WriteTimeout, set to 3 s, cut a silence of 8 s at 8.3 s).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A known default that timers of the pass may be."""

    default: Default
    kinds: tuple[TimerKind, ...]
    """Which of the timers found."""
    named: bool
    """The response headers name the product."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What the streams of one pass say together. Times are None where no timer was found."""

    idle_ns: Ns | None
    """Silence in the middle of a stream that somebody ends."""
    total_ns: Ns | None
    """The whole time that somebody gives even a busy stream."""
    before_head_ns: Ns | None
    before_first_byte_ns: Ns | None
    kept_ns: Ns | None
    """How long a connection may idle between two requests."""
    comments_reset: bool | None
    events_reset: bool | None
    swallowed: bool | None
    """A box keeps comment keepalives back, so that the timer after it never sees them."""
    hangs: bool
    """A stream stopped for good, and nobody said so, though the peer lives."""
    drops: bool
    """The path of a stream died: TCP keepalives got no answer."""
    looks_complete: bool
    """A cut stream ended cleanly."""
    longest_ns: Ns
    """Timers up to here were sought."""
    streams: int
    """How many streams were asked for."""
    decided: int
    """How many of them could be followed to their end."""
    refusals: frozenset[int]
    """Statuses that came at once in place of a stream: no timer's."""
    boxes: str
    """What response headers say of who handled the streams."""
    because: tuple[Evidence, ...]

    @property
    def answer(self) -> str:
        """none-found | idle-timer | total-timer | idle-and-total-timer | silent-drop | hang |
        inconclusive."""
        if self.idle_ns is not None and self.total_ns is not None:
            return "idle-and-total-timer"
        if self.total_ns is not None:
            return "total-timer"
        if self.idle_ns is not None or self.before_head_ns or self.before_first_byte_ns:
            return "idle-timer"
        if self.drops:
            return "silent-drop"
        if self.hangs:
            return "hang"
        return "none-found" if self.decided == self.streams else "inconclusive"

    def matches(self) -> tuple[Match, ...]:
        """The known defaults that the timers found may be; first those whose product the response
        headers name."""
        first_ns = self.before_head_ns or self.before_first_byte_ns
        timers = (
            (TimerKind.IDLE, self.idle_ns),
            (TimerKind.TOTAL, self.total_ns),
            (TimerKind.FIRST_BYTE, first_ns if first_ns != self.total_ns else None),
            (TimerKind.KEPT, self.kept_ns),
        )
        kinds: dict[Default, list[TimerKind]] = {}
        for kind, timer_ns in timers:
            for default in matching(timer_ns, kind) if timer_ns is not None else ():
                kinds.setdefault(default, []).append(kind)
        found = [
            Match(
                default=default,
                kinds=tuple(fitting),
                named=any(sign in self.boxes for sign in default.signs),
            )
            for default, fitting in kinds.items()
        ]
        return tuple(sorted(found, key=lambda match: not match.named))


def judge_pass(fates: Sequence[StreamFate]) -> Pass | None:
    """What they say together; None without a stream."""
    if not fates:
        return None
    by_test = {(fate.at, fate.keepalive): fate for fate in fates}
    middle, busy = by_test.get(("stream", "none")), by_test.get(("stream", "busy"))
    comment, event = by_test.get(("stream", "comment")), by_test.get(("stream", "event"))
    kept = by_test.get(("kept", "none"))
    total_ns = _total_ns(busy, middle)
    idle_ns = _silence_ns(middle, total_ns)
    return Pass(
        idle_ns=idle_ns,
        total_ns=total_ns,
        before_head_ns=_silence_ns(by_test.get(("head", "none")), total_ns),
        before_first_byte_ns=_silence_ns(by_test.get(("body", "none")), total_ns),
        kept_ns=kept.silent_ns if kept is not None and kept.ended else None,
        comments_reset=_resets(comment, idle_ns),
        events_reset=_resets(event, idle_ns),
        swallowed=None if comment is None else comment.swallowed,
        hangs=any(fate.fate is Fate.HANG for fate in fates),
        drops=any(fate.fate is Fate.SILENT_DROP for fate in fates),
        looks_complete=any(fate.fate is Fate.CUT_CLEAN for fate in fates),
        longest_ns=max(fate.longest_ns for fate in fates),
        streams=len(fates),
        decided=sum(fate.decided for fate in fates),
        refusals=frozenset(
            fate.status
            for fate in fates
            if fate.fate is Fate.REFUSED and not fate.decided and fate.status is not None
        ),
        boxes=" ".join(dict.fromkeys(fate.boxes for fate in fates)),
        because=tuple(Evidence(text=_line(fate)) for fate in fates),
    )


def _total_ns(busy: StreamFate | None, middle: StreamFate | None) -> Ns | None:
    """Whoever cuts a stream that is never silent counts the whole of it."""
    if busy is None or not busy.ended:
        return None
    if busy.swallowed and middle is not None and middle.ended:
        # A box before the timer kept the events: for that timer the busy stream was silent.
        return None
    return busy.after_request_ns


def _silence_ns(fate: StreamFate | None, total_ns: Ns | None) -> Ns | None:
    """The silence that ended this stream, where the total timer does not explain its end."""
    if fate is None or not fate.ended or fate.after_request_ns is None:
        return None
    after_ns = fate.after_request_ns
    at_next_write = 0 <= after_ns - fate.silence_ns <= NEXT_WRITE_NS
    if total_ns is not None and (abs(after_ns - total_ns) <= LATE_NS or at_next_write):
        return None
    return fate.silent_ns


def _resets(fate: StreamFate | None, idle_ns: Ns | None) -> bool | None:
    """Whether these keepalives hold the idle timer off; None where there is none, or where they
    never reached it."""
    if idle_ns is None or fate is None or fate.fate in (Fate.UNFINISHED, Fate.UNMEASURED):
        return None
    if not fate.ended:
        return fate.fate is Fate.SURVIVED or None
    return None if fate.swallowed else False


# -- words -----------------------------------------------------------------------------------------

_PLACES = {
    "head": "before the head",
    "body": "before the first byte",
    "stream": "mid-stream",
    "kept": "idle connection",
}
_BREAKS = {
    "none": "",
    "comment": ", comments",
    "event": ", events",
    "busy": ", busy",
}


def title(fate: StreamFate) -> str:
    """The stream in a few words."""
    return _PLACES.get(fate.at, fate.at) + _BREAKS.get(fate.keepalive, "")


def _line(fate: StreamFate) -> str:
    if fate.fate is Fate.SURVIVED:
        return f"{title(fate)}: survived ({fate.how})"
    when = []
    if fate.silent_ns is not None:
        when.append(f"after {format_duration(fate.silent_ns)} of silence")
    if fate.after_request_ns is not None:
        when.append(f"{format_duration(fate.after_request_ns)} after its request")
    return f"{title(fate)}: {fate.fate.value}, {fate.how}" + (
        f", {', '.join(when)}" if when else ""
    )


def sentence(found: Pass) -> str:
    """The pass in one sentence."""
    sought = format_duration(found.longest_ns)
    said = {
        "none-found": f"no timer up to {sought} ends a stream",
        "inconclusive": f"{found.streams - found.decided} of {found.streams} streams could not be"
        f" followed to their end{_refusal(found)}"
        + (f"; the others show no timer up to {sought}" if found.decided else ""),
        "silent-drop": "the path of a silent stream dies without a word: something forgets the"
        " connection",
        "hang": "a silent stream stops for good and nobody closes it",
        "total-timer": f"a stream may last {_time(found.total_ns)} in all, however busy",
        "idle-and-total-timer": f"a stream may be silent for {_time(found.idle_ns)} and last"
        f" {_time(found.total_ns)} in all",
    }.get(found.answer)
    if said is None:
        where = [
            f"{_time(timer_ns)} {place}"
            for timer_ns, place in (
                (found.before_head_ns, "before the head"),
                (found.before_first_byte_ns, "before the first byte"),
                (found.idle_ns, "mid-stream"),
            )
            if timer_ns is not None
        ]
        said = "a silent stream is ended after " + ", ".join(where)
    if found.swallowed:
        said += "; a box holds comment keepalives back, so they do not help"
    elif found.comments_reset:
        said += "; a comment line resets the timer"
    elif found.comments_reset is False:
        said += "; a comment line does not reset the timer"
    if found.looks_complete:
        said += "; the cut looks like a complete answer"
    return said


def _refusal(found: Pass) -> str:
    """What a status in place of a stream means."""
    if found.refusals:
        statuses = ", ".join(str(status) for status in sorted(found.refusals))
        hint = _HINTS.get(min(found.refusals), "")
        return f" (status {statuses}{hint})"
    return ""


_HINTS = {
    400: ": the server refuses so long a silence, raise its --test-seconds",
    429: ": the server runs too many test streams, raise its --test-streams",
}


def _time(timer_ns: Ns | None) -> str:
    return "?" if timer_ns is None else format_duration(timer_ns)


# -- verdicts --------------------------------------------------------------------------------------


def pass_verdict(found: Pass) -> Verdict:
    """The pass as a verdict, question "idle". Its confidence is the share of streams that could be
    followed to their end."""
    estimate: dict[str, Json] = {
        "sentence": sentence(found),
        "idle_ms": opt_ms(found.idle_ns),
        "total_ms": opt_ms(found.total_ns),
        "before_head_ms": opt_ms(found.before_head_ns),
        "before_first_byte_ms": opt_ms(found.before_first_byte_ns),
        "kept_ms": opt_ms(found.kept_ns),
        "comments_reset": found.comments_reset,
        "events_reset": found.events_reset,
        "keepalives_swallowed": found.swallowed,
        "looks_complete": found.looks_complete,
        "sought_ms": to_ms(found.longest_ns),
        "matches": [_match(match) for match in found.matches()],
    }
    return Verdict(
        question=QUESTION,
        answer=found.answer,
        confidence=round(found.decided / found.streams, 2),
        estimate=estimate,
        because=found.because,
    )


def _match(match: Match) -> dict[str, Json]:
    default = match.default
    return {
        "kinds": [kind.value for kind in match.kinds],
        "product": default.product,
        "setting": default.setting,
        "default_s": default.seconds,
        "named_by_headers": match.named,
        "cure": default.cure,
        "source": default.source,
        "verified": default.verified,
    }


def stream_verdict(fate: StreamFate) -> Verdict:
    """One stream's fate as a verdict, question "idle-stream"."""
    return Verdict(
        question=STREAM_QUESTION,
        answer=fate.fate.value,
        confidence=1.0 if fate.decided else 0.0,
        estimate={
            "at": fate.at,
            "keepalive": fate.keepalive,
            "how": fate.how,
            "status": fate.status,
            "silent_ms": opt_ms(fate.silent_ns),
            "after_request_ms": opt_ms(fate.after_request_ns),
            "keepalives": fate.keepalives,
            "keepalives_expected": fate.expected,
        },
        because=(Evidence(text=_line(fate)),),
    )
