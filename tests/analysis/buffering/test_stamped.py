"""With the sender's stamps: the hold is measured, whatever its clock says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from promptpath.analysis.buffering.evidence import MISSING
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Answer, Judgement
from tests.analysis.buffering import flow as f


def judged(flow: f.Flow, offset_ms: float = 5_000.123) -> Judgement:
    return judge(f.evidence_of(flow, stamps=True, offset_ms=offset_ms))


@given(st.floats(0, 1e9), st.sampled_from([60.0, 100.0, 250.0]))
@settings(max_examples=30, deadline=None)
def test_the_hold_needs_no_synchronised_clocks(offset: float, period: float) -> None:
    found = judged(f.timed(period, f.varied(200, gap_ms=10, size=97)), offset)
    assert found.answer is Answer.TIMER
    assert found.stamped
    assert found.hold is not None
    assert found.hold.measured
    assert found.hold.p90_ns == pytest.approx(0.9 * period * 1e6, rel=0.1)


def test_a_servers_own_batches_are_no_hold() -> None:
    found = judged(f.batched([4] * 40, step_ms=50, size=97))
    assert found.answer is Answer.SERVER_BATCH
    assert found.hold is not None
    assert found.hold.p90_ns < 1e6


def test_a_server_that_sends_all_at_once_is_not_a_box() -> None:
    sent = f.steady(40, gap_ms=0.1, size=97)
    assert judged(f.whole(sent)).answer is Answer.SERVER_BATCH


def test_a_held_body_is_held_by_somebody_else() -> None:
    sent = f.steady(60, gap_ms=20, size=97)
    found = judged(f.whole(sent))
    assert found.answer is Answer.WHOLE_BODY
    assert Answer.SERVER_BATCH not in found.alternatives
    assert found.hold is not None
    assert found.hold.first_ns == pytest.approx(59 * 20e6, rel=0.01)


def test_steady_groups_are_no_longer_undecided() -> None:
    sent = f.steady(200, gap_ms=10, size=97)
    groups = [(s.at_ms + 30, list(range(i, i + 4))) for i, s in enumerate(sent) if i % 4 == 0]
    assert judged(f.grouped(sent, groups)).answer is Answer.TIMER


def test_whole_events_one_behind_are_found() -> None:
    sent = f.varied(60, gap_ms=60, size=97)
    late = [f.Sent(after.at_ms, 97) for after in sent[1:]] + [f.Sent(sent[-1].at_ms, 97)]
    flow = f.one_by_one(late)
    flow.sent = sent
    found = judged(flow)
    assert found.answer is Answer.ONE_EVENT_HOLD
    assert found.period_ns == pytest.approx(60e6, rel=0.1)


def test_jitter_of_a_fast_stream_is_not_one_behind() -> None:
    flow = f.one_by_one(f.steady(200, gap_ms=10, size=97), jitter_ms=14, seed=3)
    flow.rtt_ms = 30
    assert judged(flow).answer is Answer.STREAMING


def test_a_growing_delay_is_a_throttle() -> None:
    found = judged(f.throttled(500, 20, f.steady(300, gap_ms=10, size=350)))
    assert found.answer is Answer.THROTTLE


def test_a_buffer_and_a_cork_keep_their_names() -> None:
    sent = f.varied(300, gap_ms=10, size=97)
    assert judged(f.held_until(4096, sent)).answer is Answer.SIZE_BUFFER
    assert judged(f.corked(200, sent)).answer is Answer.TRANSPORT_CORK


def test_only_the_beginning_held_is_told() -> None:
    found = judged(f.start_held(1024, f.steady(50, gap_ms=100, size=40)))
    assert found.answer is Answer.HEADERS_HELD


def test_stamps_on_some_events_only_are_not_used() -> None:
    evidence = f.evidence_of(f.batched([4] * 40, step_ms=50, size=97), stamps=True)
    evidence.events.server_ns[5] = MISSING
    found = judge(evidence)
    assert not found.stamped
    assert found.answer is Answer.PACED_BATCH


def test_stamps_can_be_left_out() -> None:
    evidence = f.evidence_of(f.batched([4] * 40, step_ms=50, size=97), stamps=True)
    assert judge(evidence, use_stamps=False).answer is Answer.PACED_BATCH


def test_one_stall_is_no_pattern() -> None:
    flow = f.one_by_one(f.steady(30, gap_ms=30, size=97))
    for delivery in flow.deliveries:
        if 400 <= delivery.at_ms < 700:
            delivery.at_ms = 700
    assert judged(flow).answer is Answer.INCONCLUSIVE


def test_a_delay_that_rises_once_and_stays_is_no_throttle_and_no_timer() -> None:
    flow = f.one_by_one(f.steady(60, gap_ms=20, size=97))
    for delivery in flow.deliveries[30:]:
        delivery.at_ms += 880
    found = judged(flow)
    assert found.answer is Answer.INCONCLUSIVE
    assert found.because[0].events == (30,)


def test_stamps_in_whole_seconds_are_not_used() -> None:
    evidence = f.evidence_of(f.batched([4] * 40, step_ms=50, size=97), stamps=True)
    for index, value in enumerate(evidence.events.server_ns):
        evidence.events.server_ns[index] = value // 1_000_000_000 * 1_000_000_000
    assert not judge(evidence).stamped


@pytest.mark.parametrize("tick_ns", [1_000_000, 10_000_000])
def test_stamps_in_milliseconds_carry_the_verdict(tick_ns: int) -> None:
    evidence = f.evidence_of(f.timed(250, f.varied(200, gap_ms=17, size=97)), stamps=True)
    for index, value in enumerate(evidence.events.server_ns):
        evidence.events.server_ns[index] = value // tick_ns * tick_ns
    found = judge(evidence)
    assert found.stamped
    assert found.answer is Answer.TIMER


def test_one_stamp_for_the_whole_answer_is_no_send_time() -> None:
    evidence = f.evidence_of(f.one_by_one(f.steady(60, gap_ms=20, size=97)), stamps=True)
    for index in range(len(evidence.events)):
        evidence.events.server_ns[index] = evidence.events.server_ns[0]
    found = judge(evidence)
    assert not found.stamped
    assert found.answer is Answer.STREAMING
