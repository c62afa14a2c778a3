"""What the streams of a calibration say, from hand-made ones with a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from promptpath.analysis.buffering.judgement import Answer
from promptpath.analysis.calibration import (
    NEXT_EVENT,
    PASSES,
    SHORT,
    TIMER,
    TO_THE_END,
    Sent,
    Stream,
    buffer_of,
    fastest_ns,
    held,
    next_sizes,
    single_of,
    streams_of,
    sweep_of,
)
from promptpath.analysis.calibration_pass import (
    best_tries,
    calibration_verdict,
    judge_calibration,
    sentence,
    to_repeat,
)
from promptpath.model.names import TEST
from promptpath.model.units import NS_PER_MS
from promptpath.probe.calibrate import SWEEP_BYTES
from tests.analysis.build import TraceBuilder

MS = NS_PER_MS
OFFSET_NS = -987_654_321_000
"""Our clock minus the server's: nobody knows it."""
PATH_NS = 3 * MS
EVENT = 997


def stream(kind: str, sent_ms: Sequence[float], held_ms: Sequence[float], **more: object) -> Stream:
    """Events sent at these times and held for so long; the last is the end event."""
    events = tuple(
        Sent(
            seq=index,
            sent_ns=round(sent * MS),
            at_ns=round((sent + hold) * MS) + PATH_NS + OFFSET_NS,
            size_bytes=EVENT,
        )
        for index, (sent, hold) in enumerate(zip(sent_ms, held_ms, strict=True))
    )
    plain = Stream(
        run=0,
        kind=kind,
        name=kind,
        gap_ns=None,
        preamble_bytes=0,
        status=200,
        http="1.1",
        headers={},
        whole=True,
        events=events,
        frames=(),
        records=(),
        released=(),
        rtt_ns=2 * MS,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


SENT = (0.0, 2000.0, 4000.0, 6000.0, 8000.0, 8000.1)
"""Plan, four single events, end."""
FASTEST = PATH_NS + OFFSET_NS


def single(*held_ms: float) -> Stream:
    return stream("single", SENT, held_ms)


def test_the_fastest_event_of_all_streams_is_the_path() -> None:
    streams = [single(200, 200, 200, 200, 0.2, 0.1), single(205, 203, 202, 201, 3, 2)]
    assert fastest_ns(streams) == FASTEST + 100_000
    assert fastest_ns([]) is None


@pytest.mark.parametrize(
    ("held_ms", "answer", "timer_ms"),
    [
        ((0.1, 0.2, 5.0, 0.3, 0.1, 0.0), PASSES, None),
        ((0.1, 0.2, 80.0, 0.3, 0.1, 0.0), PASSES, None),
        ((193.0, 206.0, 205.0, 204.5, 0.2, 0.0), TIMER, 204.5),
        ((193.0, 206.0, 305.0, 204.5, 0.2, 0.0), TIMER, 204.5),
        ((2001.0, 2000.5, 2000.2, 2000.1, 0.3, 0.0), NEXT_EVENT, None),
        ((8001.0, 6001.0, 4001.0, 2001.0, 0.9, 0.9), TO_THE_END, None),
        ((1.0, 900.0, 300.0, 4.0, 0.2, 0.0), "mixed", None),
    ],
)
def test_single_events_tell_a_timer_from_a_buffer(
    held_ms: tuple[float, ...], answer: str, timer_ms: float | None
) -> None:
    found = single_of(single(*held_ms), FASTEST)
    assert found.answer == answer
    assert found.timer_ns == (None if timer_ms is None else pytest.approx(timer_ms * MS))


def test_a_single_stream_that_was_cut_says_nothing() -> None:
    cut = replace(single(1, 1, 1, 1, 1, 1), whole=False)
    assert single_of(cut, FASTEST).answer == SHORT
    short = replace(cut, whole=True, events=cut.events[:3])
    assert single_of(short, FASTEST).answer == SHORT


def ramp(**more: object) -> Stream:
    times = [4.0 * n for n in range(600)]
    return stream("ramp", times, [0.0] * 600, **more)


def test_a_buffer_has_its_size_to_the_byte() -> None:
    found = buffer_of(ramp(released=(1234, *[4096] * 140, 4095), frames=(900, *[4096] * 140, 300)))
    assert found is not None
    assert (found.size_bytes, found.layer) == (4096, "http-frame")
    assert found.share == pytest.approx(140 / 141)


def test_a_buffer_of_tls_records_shows_in_the_records() -> None:
    uneven = tuple(16_270 + n % 7 for n in range(35))
    found = buffer_of(ramp(released=uneven, frames=(EVENT,) * 600, records=(5, *[16_384] * 35, 9)))
    assert found is not None
    assert (found.size_bytes, found.layer) == (16_384, "tls-record")


def test_the_pieces_of_a_whole_body_are_no_buffer() -> None:
    sent = [4.0 * n for n in range(600)]
    at_once = stream("ramp", sent, [2396.0 - each for each in sent], records=(16_384,) * 36)
    assert buffer_of(at_once) is None
    assert buffer_of(replace(at_once, frames=(4096,) * 146)) is None


@pytest.mark.parametrize(
    "more",
    [
        {"released": (EVENT,) * 100, "frames": (EVENT,) * 600},
        {"frames": (EVENT,) * 600, "records": (EVENT + 9,) * 600},
        {"released": tuple(range(20_000, 20_060))},
        {"released": (4096, 4096, 4096)},
        {},
    ],
)
def test_without_a_buffer_no_size_is_made_up(more: dict[str, object]) -> None:
    assert buffer_of(ramp(**more)) is None


def swept(size: int, hold_ms: float, own: int = 600) -> Stream:
    found = stream("sweep", [0, 1000, 1000.1], [hold_ms, 0.2, 0.1], preamble_bytes=size)
    first = replace(found.events[0], size_bytes=own)
    return replace(found, gap_ns=1000 * MS, events=(first, *found.events[1:]))


@pytest.mark.parametrize("truth", [1_024, 8_192, 16_384, 40_001])
def test_the_sweep_finds_an_initial_hold_to_the_byte(truth: int) -> None:
    def ask(size: int) -> Stream:
        own = 590 + len(str(size))  # the plan in the event names the size
        return swept(size, 0.3 if size + own >= truth else 1000.2, own)

    streams = [ask(size) for size in SWEEP_BYTES]
    passes = 1
    while sizes := next_sizes(streams, FASTEST):
        streams += [ask(size) for size in sizes]
        passes += 1
    found = sweep_of(streams, FASTEST)
    assert found is not None
    assert found.exact
    assert (found.held_bytes, found.passed_bytes) == (truth - 1, truth)
    assert passes <= 7


def test_a_box_that_holds_every_size_or_none_has_no_initial_hold() -> None:
    assert sweep_of([swept(size, 0.3) for size in SWEEP_BYTES], FASTEST) is None
    assert sweep_of([swept(size, 1000.2) for size in SWEEP_BYTES], FASTEST) is None
    assert next_sizes([swept(size, 0.3) for size in SWEEP_BYTES], FASTEST) == []
    # One that was held by chance, above sizes that passed.
    odd = [swept(0, 0.3), swept(512, 0.3), swept(65_536, 1000.2)]
    assert sweep_of(odd, FASTEST) is None


def variant(name: str, hold_ms: float) -> Stream:
    times = [50.0 * n for n in range(40)]
    return stream("variant", times, [*[hold_ms] * 39, 0.1], name=name)


def judged(*streams: Stream) -> Answer:
    found = judge_calibration(streams)
    assert found is not None
    return found.answer


PASSING = single(0.1, 0.1, 0.1, 0.1, 0.1, 0.1)
KEPT = single(8001.0, 6001.0, 4001.0, 2001.0, 0.9, 0.9)
BUFFER = ramp(released=(4096,) * 100, frames=(4096,) * 100)


def test_streams_together_name_the_box() -> None:
    plain, bad = variant("plain", 0.2), variant("plain", 300)
    assert judged(PASSING, ramp(), plain) is Answer.STREAMING
    assert judged(KEPT, BUFFER, bad) is Answer.SIZE_BUFFER
    assert judged(KEPT, ramp(), bad) is Answer.WHOLE_BODY
    timer = single(204, 205, 204, 205, 0.1, 0.1)
    assert judged(timer, ramp(), replace(bad, frames=(9000, 8000))) is Answer.TIMER
    assert judged(timer, ramp(), replace(bad, frames=(EVENT,) * 40)) is Answer.TRANSPORT_CORK
    one = single(2001.0, 2000.5, 2000.2, 2000.1, 0.3, 0.0)
    assert judged(one, ramp(), bad) is Answer.ONE_EVENT_HOLD
    sweeps = [swept(size, 0.3 if size >= 8192 else 1000.2) for size in SWEEP_BYTES]
    assert judged(PASSING, ramp(), plain, *sweeps) is Answer.INITIAL_HOLD
    assert judged(PASSING, plain, variant("compression asked for", 400)) is Answer.COMPRESSION
    assert judged(replace(PASSING, whole=False), plain) is Answer.INCONCLUSIVE
    assert judge_calibration([]) is None


def test_what_cures_and_what_spoils_is_named() -> None:
    found = judge_calibration([KEPT, BUFFER, variant("plain", 300), variant("both headers", 0.3)])
    assert found is not None
    assert found.cured_by == ("both headers",)
    said = sentence(found)
    assert said == "a box holds the stream until 4096 bytes have come; it lets pass: both headers"
    spoilt = judge_calibration([PASSING, variant("plain", 0.2), variant("over HTTP/1.1", 300)])
    assert spoilt is not None
    assert sentence(spoilt) == "every event passes at once; but not: over HTTP/1.1"
    verdict = calibration_verdict(found)
    assert (verdict.answer, verdict.confidence) == ("size-buffer", 1.0)
    assert verdict.estimate["buffer_bytes"] == 4096
    assert [each["passes"] for each in verdict.estimate["variants"]] == [False, True]


def test_a_variant_that_passes_once_is_not_held_and_unclear_ones_are_tried_again() -> None:
    mixed = single(1.0, 900.0, 300.0, 4.0, 0.2, 0.0)
    first = [mixed, variant("plain", 0.2), variant("text/plain", 90)]
    found = judge_calibration(first)
    assert found is not None
    assert to_repeat(found) == (frozenset({"text/plain"}), True)
    again = judge_calibration([*first, variant("text/plain", 0.3), PASSING])
    assert again is not None
    assert to_repeat(again) == (frozenset(), False)
    assert [row.name for row in again.rows] == ["plain", "text/plain"]
    assert again.answer is Answer.STREAMING
    numbered = [replace(s, run=i) for i, s in enumerate([*first, variant("text/plain", 0.3)])]
    assert best_tries(numbered) == [0, 1, 3]
    held_twice = judge_calibration([PASSING, variant("plain", 99), variant("plain", 98)])
    assert held_twice is not None and held_twice.plain is not None
    assert not held_twice.plain.passes


def test_a_hold_within_what_a_healthy_path_does_passes() -> None:
    streams = [variant("plain", 20.9), variant("slow", 21.2), variant("both headers", 0.0)]
    fine = held(streams[0], FASTEST)
    slow = held(streams[1], FASTEST)
    assert fine is not None and fine.passes  # 20 ms and half a round trip of 2 ms
    assert slow is not None and not slow.passes
    assert held(replace(streams[0], events=()), FASTEST) is None


def test_a_name_in_a_strange_file_reaches_a_terminal_as_printable_text() -> None:
    builder = TraceBuilder().dns(1).tcp(10).request().head(5).end()
    about = {"command": "calibrate", "kind": "variant", "name": "\x1b[2Jplain\n" * 20}
    (found,) = streams_of([builder.fact(TEST, about).build()])
    assert found.name.isprintable() and len(found.name) <= 60


def test_a_trace_of_another_command_is_no_stream_of_a_calibration() -> None:
    assert streams_of([TraceBuilder().build()]) == []
