"""All streams of a calibration together: which box there is, how large, how slow, and what cures
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.calibration import (
    MIXED,
    NEXT_EVENT,
    PASSES,
    SHORT,
    TIMER,
    TO_THE_END,
    Buffer,
    Held,
    Single,
    Stream,
    Sweep,
    buffer_of,
    fastest_ns,
    frames_intact,
    held,
    single_of,
    sweep_of,
)
from promptpath.analysis.cures import Cure, cures_for
from promptpath.model.report import Evidence, Verdict
from promptpath.model.rows import Json
from promptpath.model.units import Ns, format_duration, opt_ms, to_ms

QUESTION = "calibration"
PLAIN = "plain"
"""The variant that all others are compared with."""
COMPRESSED = "compression asked for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One variant and what became of it."""

    run: int
    name: str
    http: str | None
    status: int | None
    held: Held | None
    """None where the stream did not come whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What the streams say together."""

    buffer: Buffer | None
    single: Single | None
    sweep: Sweep | None
    rows: tuple[Row, ...]
    intact: bool
    """Each HTTP frame of the plain variant carries one event. The ramp is too fast for that:
    HAProxy reads several of its chunks at a time and makes one of them."""
    streams: int
    whole: int
    """Streams that came whole."""
    headers: dict[str, str]
    """Of the plain variant: hints at the product."""

    @property
    def plain(self) -> Held | None:
        """The stream as most servers send it."""
        return self._row(PLAIN)

    def _row(self, name: str) -> Held | None:
        return next((row.held for row in self.rows if row.name == name), None)

    @property
    def answer(self) -> Answer:
        """The box, in the words of the buffering verdict."""
        single = self.single.answer if self.single else SHORT
        if single == NEXT_EVENT:
            return Answer.ONE_EVENT_HOLD
        if single == TIMER:
            return Answer.TRANSPORT_CORK if self.intact else Answer.TIMER
        if self.buffer is not None and single in (TO_THE_END, MIXED):
            by_record = self.buffer.layer == "tls-record"
            return Answer.TLS_RECORD_BUFFER if by_record else Answer.SIZE_BUFFER
        if self.sweep is not None:
            return Answer.INITIAL_HOLD
        if single == TO_THE_END:
            return Answer.WHOLE_BODY
        if single == PASSES and self.plain is not None and self.plain.passes:
            compressed = self._row(COMPRESSED)
            held_back = compressed is not None and not compressed.passes
            return Answer.COMPRESSION if held_back else Answer.STREAMING
        return Answer.INCONCLUSIVE

    @property
    def cured_by(self) -> tuple[str, ...]:
        """Variants that pass where the plain one does not."""
        if self.plain is None or self.plain.passes:
            return ()
        return tuple(row.name for row in self.rows if row.held is not None and row.held.passes)

    @property
    def held_too(self) -> tuple[str, ...]:
        """Variants that are held where the plain one passes."""
        if self.plain is None or not self.plain.passes:
            return ()
        return tuple(r.name for r in self.rows if r.held is not None and not r.held.passes)

    @property
    def cures(self) -> tuple[Cure, ...]:
        """Configuration that lets the stream pass, by product."""
        return cures_for(self.answer.value, self.headers)


def judge_calibration(streams: Sequence[Stream]) -> Calibration | None:
    """What they say together; None without a stamped event."""
    fastest = fastest_ns(streams)
    if fastest is None:
        return None
    ramp = next((s for s in streams if s.kind == "ramp" and s.whole), None)
    singles = [single_of(s, fastest) for s in streams if s.kind == "single"]
    variants = [s for s in streams if s.kind == "variant"]
    tries: dict[str, list[Row]] = {}
    for stream in variants:
        tries.setdefault(stream.name, []).append(_row(stream, fastest))
    rows = tuple(_best(rows) for rows in tries.values())
    return Calibration(
        buffer=None if ramp is None else buffer_of(ramp),
        single=min(singles, key=_unclear, default=None),
        sweep=sweep_of(streams, fastest),
        rows=rows,
        intact=any(frames_intact(s) for s in variants if s.name == PLAIN),
        streams=len(streams),
        whole=sum(s.whole for s in streams),
        headers=next((s.headers for s in variants if s.name == PLAIN), {}),
    )


def _row(stream: Stream, fastest: Ns) -> Row:
    return Row(
        run=stream.run,
        name=stream.name,
        http=stream.http,
        status=stream.status,
        held=held(stream, fastest) if stream.whole else None,
    )


def _best(tries: Sequence[Row]) -> Row:
    """Of several tries of one variant the one that was held least: a box holds every time, a busy
    machine does not."""
    return min(tries, key=lambda row: (row.held is None, row.held.p90_ns if row.held else 0))


def _unclear(single: Single) -> bool:
    return single.answer in (MIXED, SHORT)


def to_repeat(found: Calibration) -> tuple[frozenset[str], bool]:
    """What deserves another try before it is believed: the variants that were held, and whether the
    single events were in no clear way."""
    doubtful = {row.name for row in found.rows if row.held is None or not row.held.passes}
    return frozenset(doubtful), found.single is None or _unclear(found.single)


def best_tries(streams: Sequence[Stream]) -> list[int]:
    """The runs of these streams in order; of a variant's several tries the best alone, where its
    first one was."""
    found = judge_calibration(streams)
    best = {row.name: row.run for row in found.rows} if found is not None else {}
    runs = [best.get(s.name, s.run) if s.kind == "variant" else s.run for s in streams]
    return list(dict.fromkeys(runs))


# -- words -----------------------------------------------------------------------------------------


def ramp_line(found: Calibration) -> str:
    """What the ramp shows."""
    buffer = found.buffer
    if buffer is None:
        return "no size repeats"
    return (
        f"{round(100 * buffer.share)} % of {buffer.releases} releases are exactly"
        f" {buffer.size_bytes} bytes ({buffer.layer})"
    )


def single_line(found: Calibration) -> str:
    """What the single events show."""
    single = found.single
    if single is None or single.answer == SHORT:
        return "did not come whole"
    said = {
        PASSES: "pass at once",
        NEXT_EVENT: "each arrives when the next one is sent",
        TO_THE_END: "all kept until the end",
        MIXED: "held, in no simple way: "
        + ", ".join(format_duration(hold) for hold in single.holds_ns),
    }.get(single.answer)
    if said is None and single.timer_ns is not None:
        said = f"let go after {format_duration(single.timer_ns)}"
        said += f" (within {format_duration(single.spread_ns)})"
    return said or single.answer


def sweep_line(found: Calibration) -> str:
    """What the sweep shows."""
    sweep = found.sweep
    if sweep is None:
        return "no initial hold"
    if sweep.exact:
        return f"the beginning is held until {sweep.passed_bytes} bytes have come"
    return f"the beginning is held: {sweep.held_bytes} bytes are kept, {sweep.passed_bytes} pass"


def sentence(found: Calibration) -> str:
    """The calibration in one sentence."""
    buffer, single, sweep = found.buffer, found.single, found.sweep
    timer = format_duration(single.timer_ns) if single and single.timer_ns is not None else "?"
    size = f"{buffer.size_bytes} bytes" if buffer else "?"
    said = {
        Answer.STREAMING: "every event passes at once",
        Answer.ONE_EVENT_HOLD: "a box holds each event until the next one is sent",
        Answer.TIMER: f"a box holds events for {timer}",
        Answer.TRANSPORT_CORK: f"a box holds events for {timer} below HTTP, whose frames it leaves"
        " as they are",
        Answer.SIZE_BUFFER: f"a box holds the stream until {size} have come",
        Answer.TLS_RECORD_BUFFER: f"a box holds the stream until a TLS record of {size} is full",
        Answer.INITIAL_HOLD: sweep_line(found) if sweep else "",
        Answer.WHOLE_BODY: "a box holds the stream to its end, or its buffer is larger than the"
        " test",
        Answer.COMPRESSION: "a box that compresses holds events; without compression they pass",
        Answer.INCONCLUSIVE: f"no verdict: {found.whole} of {found.streams} streams came whole",
    }.get(found.answer, found.answer.value)
    if found.held_too and found.answer is not Answer.COMPRESSION:
        said += f"; but not: {', '.join(found.held_too)}"
    if found.cured_by:
        said += f"; it lets pass: {', '.join(found.cured_by)}"
    return said


# -- the verdict -----------------------------------------------------------------------------------


def calibration_verdict(found: Calibration) -> Verdict:
    """The calibration as a verdict. Its confidence is the share of streams that came whole."""
    buffer, single, sweep = found.buffer, found.single, found.sweep
    estimate: dict[str, Json] = {
        "sentence": sentence(found),
        "buffer_bytes": buffer.size_bytes if buffer else None,
        "buffer_layer": buffer.layer if buffer else None,
        "timer_ms": opt_ms(single.timer_ns) if single else None,
        "single": single.answer if single else None,
        "initial_hold_held_bytes": sweep.held_bytes if sweep else None,
        "initial_hold_passed_bytes": sweep.passed_bytes if sweep else None,
        "cured_by": list(found.cured_by),
        "held_too": list(found.held_too),
        "variants": [_variant(row) for row in found.rows],
        "cures": [cure.text for cure in found.cures],
    }
    lines = (
        f"ramp: {ramp_line(found)}",
        f"single events: {single_line(found)}",
        f"comments first: {sweep_line(found)}",
    )
    return Verdict(
        question=QUESTION,
        answer=found.answer.value,
        confidence=round(found.whole / found.streams, 2),
        estimate=estimate,
        because=tuple(Evidence(text=line) for line in lines),
    )


def _variant(row: Row) -> dict[str, Json]:
    return {
        "name": row.name,
        "http": row.http,
        "status": row.status,
        "hold_p50_ms": None if row.held is None else to_ms(row.held.p50_ns),
        "hold_p90_ms": None if row.held is None else to_ms(row.held.p90_ns),
        "hold_max_ms": None if row.held is None else to_ms(row.held.max_ns),
        "passes": None if row.held is None else row.held.passes,
    }
