"""What the recorder writes, and how a span ends by what leaves its block."""

from __future__ import annotations

import asyncio

import pytest

from promptpath.errors import MeasureError
from promptpath.model.enums import FactSource, Outcome, Stage
from promptpath.probe.recorder import Recorder
from tests.probe.hand_time import hand_clock


def failed(code: str) -> MeasureError:
    return MeasureError("it broke", stage="tcp", code=code)


@pytest.mark.parametrize(
    ("error", "outcome", "text"),
    [
        (TimeoutError(), Outcome.TIMED_OUT, "timed out"),
        (failed("refused"), Outcome.FAILED, "it broke"),
        (failed("connect-timeout"), Outcome.TIMED_OUT, "it broke"),
        (asyncio.CancelledError(), Outcome.CANCELLED, "given up"),
        (KeyboardInterrupt(), Outcome.CANCELLED, "KeyboardInterrupt"),
    ],
)
def test_a_span_ends_by_what_leaves_its_block(
    error: BaseException, outcome: Outcome, text: str
) -> None:
    clock, time = hand_clock()
    recorder = Recorder(clock)
    with pytest.raises(type(error)):
        with recorder.span(Stage.TCP, "dial"):
            time.advance(7)
            raise error
    (span,) = recorder.log.spans
    assert (span.end_ns, span.outcome, span.error) == (7, outcome, text)


def test_a_span_without_trouble_ends_now_or_at_the_instant_given() -> None:
    clock, time = hand_clock()
    recorder = Recorder(clock)
    with recorder.span(Stage.TCP, "dial", conn=3) as outer:
        inner = recorder.start(Stage.TCP, "connect", parent=outer)
        time.advance(10)
        recorder.end(inner, 4)
    dial, connect = recorder.log.spans
    assert (dial.conn, dial.end_ns, dial.outcome) == (3, 10, Outcome.OK)
    assert (connect.parent, connect.end_ns) == (dial.id, 4)


def test_connections_are_numbered_from_one() -> None:
    recorder = Recorder(hand_clock()[0])
    assert [recorder.new_conn(), recorder.new_conn()] == [1, 2]


def test_what_the_far_side_says_is_kept_clean() -> None:
    recorder = Recorder(hand_clock()[0], secrets=("sk-hidden-4711",))
    kept = recorder.clean("no\x1b[31m key sk-hidden-4711 " + "x" * 1000)
    assert "sk-hidden" not in kept and "\x1b" not in kept and len(kept) <= 310
    span = recorder.start(Stage.TLS, "handshake")
    recorder.fail(span, Outcome.FAILED, "bad sk-hidden-4711")
    assert "sk-hidden" not in (recorder.log.spans[0].error or "")


def test_a_failure_keeps_all_its_parts_and_no_secret() -> None:
    recorder = Recorder(hand_clock()[0], secrets=("sk-hidden-4711",))
    recorder.failure(
        MeasureError(
            "said sk-hidden-4711", stage="tls", code="closed", where="tls, a\x07b", hint="wait"
        )
    )
    (fact,) = recorder.log.facts
    value = fact.value
    assert (value["stage"], value["code"], value["hint"]) == ("tls", "closed", "wait")
    assert value["expected"] is None
    assert "sk-hidden" not in value["what"] and "\x07" not in value["where"]


def test_facts_have_their_source() -> None:
    recorder = Recorder(hand_clock()[0])
    recorder.observed("a", 1)
    recorder.reported("b", 2)
    recorder.limit("timeout", 5)
    sources = [(fact.key, fact.source) for fact in recorder.log.facts]
    observed = FactSource.OBSERVED
    assert sources == [("a", observed), ("b", FactSource.REPORTED), ("limit", observed)]
    assert recorder.log.facts[2].value == {"name": "timeout", "value": 5}
