"""The judgement as a verdict, and when it counts as harm or proof."""

from __future__ import annotations

from dataclasses import replace

import pytest

from promptpath.analysis.buffering.hold import Hold
from promptpath.analysis.buffering.judge import judge
from promptpath.analysis.buffering.judgement import Answer, Judgement
from promptpath.analysis.buffering.verdict import (
    buffering_verdict,
    first_hold_ns,
    harms,
    header_hint,
    proven,
)
from tests.analysis.buffering import flow as f

MS = 1_000_000
SENT = f.varied(300, gap_ms=10, size=97)
BUFFERED = judge(f.evidence_of(f.held_until(4096, SENT)))


def held(p90_ms: float, error_ms: float = 5, answer: Answer = Answer.SIZE_BUFFER) -> Judgement:
    ns = round(p90_ms * MS)
    hold = Hold(
        p50_ns=ns // 2,
        p90_ns=ns,
        max_ns=ns,
        first_ns=ns,
        error_ns=round(error_ms * MS),
        measured=False,
    )
    return replace(BUFFERED, answer=answer, hold=hold)


def test_a_verdict_says_what_how_much_where_and_what_next() -> None:
    verdict = buffering_verdict(judge(f.evidence_of(f.batched([4] * 40, step_ms=12, size=97))))
    assert (verdict.question, verdict.answer) == ("buffering", "paced-batch")
    assert verdict.estimate["layer"] == "http-frame"
    assert set(verdict.estimate["alternatives"]) == {"timer", "server-batch", "size-buffer"}
    assert verdict.estimate["hold_source"] == "arrivals"
    assert verdict.estimate["period_ms"] == pytest.approx(48)
    texts = [reason.text for reason in verdict.because]
    assert any(text.startswith("could also be: ") for text in texts)
    assert any(text.startswith("next test: ") for text in texts)


def test_a_size_is_given_where_there_is_one() -> None:
    assert buffering_verdict(BUFFERED).estimate["size_bytes"] == 4096


def test_nothing_is_invented_for_too_few_events() -> None:
    verdict = buffering_verdict(judge(f.evidence_of(f.one_by_one(SENT[:5]))))
    assert set(verdict.estimate) == {"tolerated_ms", "next_test"}


@pytest.mark.parametrize(
    ("p90_ms", "error_ms", "expected"),
    [(99, 0, False), (100, 0, True), (120, 110, False), (400, 300, True)],
)
def test_harm_is_a_noticed_hold_beyond_its_error(
    p90_ms: float, error_ms: float, expected: bool
) -> None:
    assert harms(held(p90_ms, error_ms)) is expected


def test_what_tcp_may_do_is_never_proof() -> None:
    assert proven(held(500))
    for answer in (Answer.TRANSPORT_CORK, Answer.THROTTLE, Answer.LOSS, Answer.STREAMING):
        assert not proven(held(500, answer=answer))


def test_a_doubtful_answer_is_no_proof_without_stamps() -> None:
    doubtful = replace(held(500), confidence=0.6)
    assert not proven(doubtful)
    assert proven(replace(doubtful, stamped=True))


def test_the_first_tokens_hold_counts_less_its_error() -> None:
    assert first_hold_ns(held(500, 100)) == 400 * MS
    assert first_hold_ns(held(50)) == 0


def test_headers_are_hints_only_where_there_are_any() -> None:
    assert header_hint({"date": "x"}) == ()
    (reason,) = header_hint({"via": "1.1 squid", "x-cache": "MISS"})
    assert "via: 1.1 squid; x-cache: MISS" in reason.text
