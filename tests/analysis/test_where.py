"""The verdict on where the time went: right where it can be, open where it cannot."""

from __future__ import annotations

import pytest

from promptpath.analysis.view import measure
from promptpath.analysis.where import divide, judge_where
from promptpath.model.enums import EventKind, Outcome, Stage
from promptpath.model.names import SPAN_DIAL
from promptpath.model.report import Verdict
from tests.analysis.build import PLAN, TraceBuilder, healthy, ns, opened


def where(trip: TraceBuilder) -> Verdict:
    return judge_where(measure(trip.build(), PLAN))


def waited(ms: float, **reported_ms: float) -> TraceBuilder:
    trip = opened().head(22).wait(ms).text(20, gap_ms=2).marker()
    return trip.reports("final", **reported_ms).end()


def test_every_nanosecond_up_to_the_last_token_has_one_owner() -> None:
    shares = divide(measure(healthy().build(), PLAN))
    assert shares.total_ns == ns(1049.1)
    assert shares.by_owner["path"] == ns(67.1)
    assert shares.unknown_ns == ns(11)


@pytest.mark.parametrize(
    ("trip", "answer"),
    [
        (waited(900, queue=850, prefill=40), "queue"),
        (waited(900, queue=40, prefill=850), "prefill"),
        (waited(900, gateway=800), "box"),
        (waited(900), "server"),
        (TraceBuilder().dns(2000).tcp(5, rtt_ms=5).request().head(9).text(3).end(), "path"),
        (TraceBuilder().dns(2).after(500).tcp(5).request().head(9).text(3).end(), "client"),
    ],
)
def test_the_largest_share_wins(trip: TraceBuilder, answer: str) -> None:
    assert where(trip).answer == answer


def test_what_the_server_does_not_account_for_is_not_given_to_anybody() -> None:
    verdict = where(waited(900, queue=5, prefill=5))
    assert verdict.answer == "inconclusive"
    assert verdict.confidence == 0
    assert any("neither reported" in evidence.text for evidence in verdict.because)


def test_two_equal_shares_are_inconclusive() -> None:
    assert where(waited(400, queue=190, prefill=190)).answer == "inconclusive"


def test_a_difference_smaller_than_the_errors_is_inconclusive() -> None:
    sharp = opened().head(22).wait(400).text(9).marker().reports(queue=220, prefill=180).end()
    assert where(sharp).answer == "queue"
    blunt = opened()
    blunt.error_ns = ns(30)
    blunt.head(22).wait(400).text(9).marker().reports(queue=220, prefill=180).end()
    assert where(blunt).answer == "inconclusive"


def test_the_servers_word_alone_is_never_certain() -> None:
    assert where(waited(90_000, queue=89_900, prefill=80)).confidence == 0.9


def test_the_senders_own_stamps_make_a_slow_generation_its_own() -> None:
    trip = opened().head(22)
    for index in range(20):
        trip.after(100).event(EventKind.TEXT, tokens=1, chars=4, server_ms=5003 + 100 * index)
    assert where(trip.marker().end()).answer == "decode"


def test_a_generation_that_the_sender_did_not_stretch_is_not_its_own() -> None:
    trip = opened().head(22)
    for index in range(20):
        trip.after(100).event(EventKind.TEXT, tokens=1, chars=4, server_ms=5000 + index)
    assert where(trip.marker().end()).answer == "inconclusive"


def test_a_connection_that_never_came_is_the_paths() -> None:
    trip = TraceBuilder().dns(2)
    trip.span(Stage.TCP, SPAN_DIAL, 5000, outcome=Outcome.TIMED_OUT, error="no answer")
    verdict = where(trip.fails(Stage.TCP, "connect-timeout"))
    assert verdict.answer == "path"


def test_an_acked_request_without_a_response_is_the_servers() -> None:
    trip = TraceBuilder().dns(2).tcp(20, rtt_ms=20).tls(25).request(acked_ms=20)
    verdict = where(trip.after(9000).limit("first-token-timeout", ns(9000)))
    assert verdict.answer == "server"
    assert "ACKed and no response came" in verdict.because[0].text


def test_an_empty_trace_is_inconclusive() -> None:
    verdict = where(TraceBuilder())
    assert verdict.answer == "inconclusive"
    assert verdict.because
