"""The report in one sentence."""

from __future__ import annotations

import pytest

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.sentence import sentence
from promptpath.model.enums import EventKind, Outcome, Stage
from promptpath.model.names import SPAN_DIAL
from promptpath.model.units import NS_PER_S
from tests.analysis.build import PLAN, TraceBuilder, opened


def said(trip: TraceBuilder) -> str:
    return sentence(diagnose(trip.build(), PLAN))


def unconnected() -> TraceBuilder:
    trip = TraceBuilder().dns(2)
    what = "connection refused"
    trip.span(Stage.TCP, SPAN_DIAL, 3, outcome=Outcome.FAILED, error=what)
    return trip.fails(Stage.TCP, "refused", what)


def answered(wait_ms: float, gap_ms: float = 5, **reported_ms: float) -> TraceBuilder:
    trip = opened().head(22).wait(wait_ms).text(20, gap_ms=gap_ms).marker()
    return trip.reports("final", **reported_ms).end()


@pytest.mark.parametrize(
    ("trip", "words"),
    [
        (unconnected(), "No response after 5.00 ms: connection refused."),
        (
            answered(1000, queue=980, prefill=20),
            "The server's queue took 92 % of the 1.07 s to the first token;"
            " the path added 67.1 ms (6 %).",
        ),
        (
            answered(100, gap_ms=500, prefill=100, decode=9500),
            "Decoding took 98 % of the 9.67 s trip (2 tokens/s); the path added 67.1 ms"
            " (under 1 %).",
        ),
        (
            answered(900, queue=5, prefill=5),
            "969 ms to the first token; 892 ms of the trip cannot be given to anybody.",
        ),
        (
            opened().head(22).wait(500).text(3).end(marker_seen=False),
            "The server side (nothing reported splits it) took 89 % of the 589 ms trip;"
            " the path added 67.1 ms (11 %); the stream was cut.",
        ),
    ],
)
def test_the_sentence_says_where_the_time_went(trip: TraceBuilder, words: str) -> None:
    assert said(trip) == words


def test_a_limit_before_the_head_is_named() -> None:
    trip = opened().after(9000).limit("first-token-timeout", 9 * NS_PER_S)
    assert said(trip) == "No response after 9.05 s: --first-token-timeout was reached (9.00 s)."


def test_ctrl_c_is_no_limit() -> None:
    trip = opened().head(22).wait(500).text(3).limit("interrupt")
    assert said(trip).endswith("; it was interrupted.")


def test_a_long_finish_is_not_in_the_time_that_is_shared_out() -> None:
    trip = opened().head(22).wait(100).text(20, gap_ms=50).after(500).marker()
    words = said(trip.reports("final", queue=1, prefill=90, decode=950).end())
    assert "to the last token" in words and "trip" not in words


def test_no_visible_text_is_not_called_a_first_token() -> None:
    trip = opened().head(22).wait(10).text(9, kind=EventKind.TOOL).marker()
    assert "to the first token" not in said(trip.end())
