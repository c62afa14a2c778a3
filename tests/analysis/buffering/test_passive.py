"""Each answer from arrivals alone, and what must not be taken for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import BOX, UNDECIDED, Answer, Judgement
from tests.analysis.buffering import flow as f

GZIP = {"content-type": "text/event-stream", "content-encoding": "gzip"}


def judged(flow: f.Flow) -> Judgement:
    return judge(f.evidence_of(flow))


def test_a_stream_nobody_holds_is_streaming() -> None:
    assert judged(f.one_by_one(f.varied(60, gap_ms=20, size=200))).answer is Answer.STREAMING


def test_seven_events_are_too_few_and_it_says_how_many_are_needed() -> None:
    found = judged(f.one_by_one(f.steady(7, gap_ms=20, size=200)))
    assert found.answer is Answer.INCONCLUSIVE
    assert found.hold is None
    assert "8 are needed" in found.because[0].text
    assert found.next_test


def test_a_stream_without_content_is_inconclusive() -> None:
    assert judged(f.Flow([], [])).answer is Answer.INCONCLUSIVE


@pytest.mark.parametrize("size", [4096, 8192, 5000])
def test_a_buffer_is_found_with_its_size(size: int) -> None:
    found = judged(f.held_until(size, f.varied(400, gap_ms=10, size=97)))
    assert (found.answer, found.size_bytes) == (Answer.SIZE_BUFFER, size)
    assert found.layer == "http-frame"


def test_a_buffer_without_http_frames_is_found_by_its_bursts() -> None:
    flow = f.held_until(4096, f.varied(400, gap_ms=10, size=97))
    flow.frames = []
    assert judged(flow).answer is Answer.SIZE_BUFFER


def test_a_buffer_that_fits_the_events_names_what_looks_the_same() -> None:
    found = judged(f.held_until(4096, f.steady(400, gap_ms=10, size=1024)))
    assert found.answer is Answer.SIZE_BUFFER
    assert found.confidence <= 0.6
    assert Answer.TIMER in found.alternatives
    assert found.next_test


@pytest.mark.parametrize("period", [93.0, 207.0])
def test_a_timer_is_found_with_its_period(period: float) -> None:
    found = judged(f.timed(period, f.steady(400, gap_ms=10, size=97)))
    assert found.answer is Answer.TIMER
    assert found.period_ns == pytest.approx(period * 1e6, rel=0.01)


@given(st.integers(1, 10_000))
@settings(max_examples=40, deadline=None)
def test_on_a_varied_stream_a_buffer_is_never_a_timer(seed: int) -> None:
    sent = f.varied(300, gap_ms=10, size=97, seed=seed)
    assert judged(f.held_until(4096, sent)).answer is Answer.SIZE_BUFFER


@given(st.integers(1, 10_000), st.floats(60, 400))
@settings(max_examples=40, deadline=None)
def test_on_a_varied_stream_a_timer_is_never_a_buffer(seed: int, period: float) -> None:
    sent = f.varied(300, gap_ms=10, size=97, seed=seed)
    assert judged(f.timed(period, sent)).answer in (Answer.TIMER, Answer.PACED_BATCH)


def test_a_batching_server_is_never_a_timer_nor_a_buffer() -> None:
    found = judged(f.batched([4] * 40, step_ms=12, size=97))
    assert found.answer is Answer.PACED_BATCH
    assert {Answer.TIMER, Answer.SERVER_BATCH, Answer.SIZE_BUFFER} == set(found.alternatives)
    assert found.confidence == 0
    assert found.next_test


def test_speculative_decoding_is_the_servers() -> None:
    counts = [3, 1, 5, 2, 4, 1, 5, 3, 2, 4] * 4
    assert judged(f.batched(counts, step_ms=25, size=97)).answer is Answer.SERVER_BATCH


def test_small_batches_that_hold_little_are_the_servers() -> None:
    assert judged(f.batched([3] * 40, step_ms=8, size=97)).answer is Answer.SERVER_BATCH


def test_a_body_that_comes_at_once_is_held_whole() -> None:
    found = judged(f.whole(f.steady(60, gap_ms=20, size=97)))
    assert found.answer is Answer.WHOLE_BODY
    assert found.hold is not None
    true_ns = 0.9 * 59 * 20e6
    assert abs(found.hold.p90_ns - true_ns) < found.hold.error_ns
    assert found.because[0].events == (0, 59)


def test_a_short_answer_at_once_is_not_blamed() -> None:
    found = judged(f.whole(f.steady(12, gap_ms=4, size=97, ttft_ms=60)))
    assert found.answer is Answer.INCONCLUSIVE
    assert Answer.WHOLE_BODY in found.alternatives


def test_a_fast_server_whose_events_have_segments_of_their_own_is_not_a_held_body() -> None:
    sent = f.steady(60, gap_ms=1, size=97, ttft_ms=900)
    assert judged(f.one_by_one(sent)).answer not in BOX


def test_a_whole_body_over_a_long_lossy_way_is_still_whole() -> None:
    sent = f.steady(100, gap_ms=30, size=997)
    flow = f.whole(sent)
    flow.rtt_ms, flow.mtu = 80, 1500
    start = flow.deliveries[0].at_ms
    flow.deliveries = [
        f.Delivery(start + 80 * turn, list(range(25 * turn, 25 * turn + 25)), 25_000, segments=18)
        for turn in range(4)
    ]
    flow.frames = []
    assert judged(flow).answer is Answer.WHOLE_BODY


def test_one_event_behind_is_found() -> None:
    found = judged(f.one_behind(f.varied(60, gap_ms=40, size=97)))
    assert found.answer is Answer.ONE_EVENT_HOLD


def test_full_segments_that_cut_events_are_not_one_event_behind() -> None:
    flow = f.one_behind(f.steady(60, gap_ms=40, size=1448))
    flow.mtu = 1500
    assert judged(flow).answer is not Answer.ONE_EVENT_HOLD


def test_a_cork_leaves_frames_of_one_event() -> None:
    found = judged(f.corked(200, f.varied(300, gap_ms=20, size=97)))
    assert found.answer is Answer.TRANSPORT_CORK
    assert found.layer == "segment"
    assert found.period_ns == pytest.approx(200e6, rel=0.05)


@pytest.mark.parametrize("own_segments", [False, True])
@pytest.mark.parametrize("counts", [[4] * 40, [3, 1, 5, 2, 4, 1, 5, 3, 2, 4] * 4])
def test_a_server_that_writes_several_frames_a_step_is_no_cork_and_no_late_client(
    counts: list[int], own_segments: bool
) -> None:
    flow = f.batched(counts, step_ms=30, size=97)
    flow.frames = [97] * sum(counts)
    if own_segments:
        for delivery in flow.deliveries:
            delivery.segments = len(delivery.events)
    undecided = Answer.INCONCLUSIVE if own_segments else Answer.PACED_BATCH
    assert judged(flow).answer in (undecided, Answer.SERVER_BATCH)


def test_a_cork_over_a_steady_stream_is_known_by_its_200_ms() -> None:
    found = judged(f.corked(200, f.steady(300, gap_ms=20, size=97)))
    assert found.answer is Answer.TRANSPORT_CORK
    assert judged(f.corked(120, f.steady(300, gap_ms=20, size=97))).answer is Answer.PACED_BATCH


def test_full_tls_records_over_frames_of_one_event_are_a_record_buffer() -> None:
    found = judged(f.in_records(16_384, f.varied(600, gap_ms=10, size=97)))
    assert found.answer is Answer.TLS_RECORD_BUFFER
    assert found.layer == "tls-record"


def test_an_encoder_that_does_not_flush_is_named() -> None:
    flow = f.held_until(16_384, f.varied(800, gap_ms=10, size=97))
    flow.headers = GZIP
    assert judged(flow).answer is Answer.COMPRESSION


def test_a_flushing_encoder_is_streaming() -> None:
    flow = f.one_by_one(f.varied(60, gap_ms=20, size=200))
    flow.headers = GZIP
    assert judged(flow).answer is Answer.STREAMING


def test_a_client_that_reads_late_is_told_so() -> None:
    found = judged(f.read_late(90, f.varied(200, gap_ms=10, size=97)))
    assert found.answer is Answer.CLIENT_LAG


def test_loss_is_loss() -> None:
    flow = f.lossy(f.steady(300, gap_ms=10, size=97), rtt_ms=90, every=13)
    assert judged(flow).answer is Answer.LOSS


def test_a_rate_limit_that_cuts_frames_is_a_throttle() -> None:
    found = judged(f.throttled(1638, 200, f.steady(300, gap_ms=20, size=250)))
    assert found.answer is Answer.THROTTLE


@pytest.mark.parametrize("with_head", [True, False])
def test_a_held_beginning_is_told_with_its_size(with_head: bool) -> None:
    sent = f.steady(50, gap_ms=100, size=40)
    found = judged(f.start_held(1024, sent, with_head=with_head))
    assert found.answer is (Answer.HEADERS_HELD if with_head else Answer.INITIAL_HOLD)
    assert found.size_bytes == 1040
    assert found.hold is not None
    assert found.hold.first_ns == pytest.approx(25 * 100e6, rel=0.05)


def test_a_queue_that_never_runs_empty_is_not_called_healthy() -> None:
    sent = f.steady(200, gap_ms=10, size=1000)
    flow = f.throttled(1448, 20, sent)
    flow.mtu = 1500
    found = judged(flow)
    assert found.answer is Answer.INCONCLUSIVE
    assert Answer.THROTTLE in found.alternatives


def test_one_stall_is_no_pattern() -> None:
    sent = f.steady(30, gap_ms=30, size=97)
    flow = f.one_by_one(sent)
    stalled = [d for d in flow.deliveries if 400 <= d.at_ms < 700]
    for delivery in stalled:
        delivery.at_ms = 700
        delivery.segments = 0
    found = judged(flow)
    assert found.answer is Answer.INCONCLUSIVE
    assert "a stall" in found.because[0].text
    assert found.because[0].events == (10,)


def test_speculative_decoding_of_few_steps_is_no_timer() -> None:
    found = judged(f.batched([4, 5, 4, 3, 5, 4], step_ms=25, size=97))
    assert found.answer not in BOX


@given(st.floats(0, 18), st.integers(1, 1000), st.floats(8, 120))
@settings(max_examples=60, deadline=None)
def test_jitter_within_what_is_tolerated_is_never_a_box(
    jitter: float, seed: int, gap: float
) -> None:
    flow = f.one_by_one(f.varied(80, gap_ms=gap, size=97, seed=seed), jitter_ms=jitter, seed=seed)
    flow.rtt_ms = 40
    assert judged(flow).answer not in BOX


MAKERS: dict[str, tuple[Callable[[list[f.Sent]], f.Flow], set[Answer]]] = {
    "timer": (lambda sent: f.timed(100, sent), {Answer.TIMER, Answer.PACED_BATCH}),
    "buffer": (lambda sent: f.held_until(4096, sent), {Answer.SIZE_BUFFER}),
    "cork": (lambda sent: f.corked(200, sent), {Answer.TRANSPORT_CORK}),
}


@given(st.sampled_from(sorted(MAKERS)), st.floats(0, 80))
@settings(max_examples=40, deadline=None)
def test_when_a_stream_begins_changes_nothing(kind: str, shift: float) -> None:
    make, expected = MAKERS[kind]
    sent = [f.Sent(s.at_ms + shift, s.size) for s in f.varied(200, gap_ms=10, size=97)]
    assert judged(make(sent)).answer in expected


def test_no_undecided_answer_has_confidence() -> None:
    for flow in (f.batched([4] * 40, step_ms=12, size=97), f.Flow([], [])):
        found = judged(flow)
        assert found.answer in UNDECIDED
        assert found.confidence == 0
