"""What drove a hop, in words."""

from __future__ import annotations

from promptpath.analysis.diagnose import diagnose
from promptpath.analysis.drivers import round_trips
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import SPAN_CONNECT, SPAN_DIAL, TLS_HELLO_RETRY
from tests.analysis.build import PLAN, TraceBuilder, healthy, ns, opened


def drivers(trip: TraceBuilder, stage: Stage) -> tuple[str, ...]:
    return next(hop.drivers for hop in diagnose(trip.build(), PLAN).hops if hop.stage is stage)


def test_a_connection_is_one_round_trip() -> None:
    assert round_trips(ns(44), ns(43)) == "43.0 ms of 44.0 ms is one round trip"
    assert round_trips(ns(44), ns(4)) is None
    assert round_trips(ns(44), ns(45)) is None
    assert round_trips(ns(44), None) is None


def test_a_hello_retry_is_two() -> None:
    trip = TraceBuilder().dns(2).tcp(20, rtt_ms=20).tls(45).fact(TLS_HELLO_RETRY, {"group": None})
    assert drivers(trip.request().head(20), Stage.TLS) == (
        "2 round trips: HelloRetryRequest",
        "40.0 ms of 45.0 ms is 2 round trips",
    )


def test_lost_attempts_and_their_cost_are_named() -> None:
    trip = TraceBuilder().dns(2)
    dial = trip.log.start_span(Stage.TCP, SPAN_DIAL, trip.now_ns)
    trip.span(Stage.TCP, SPAN_CONNECT, 250, outcome=Outcome.CANCELLED, parent=dial)
    trip.span(Stage.TCP, SPAN_CONNECT, 20, parent=dial)
    trip.log.end_span(dial, trip.now_ns)
    assert drivers(trip, Stage.TCP) == ("1 attempt before the one that worked cost 250 ms",)


def test_the_wait_is_never_called_several_round_trips() -> None:
    trip = opened().head(22).wait(98).text(3).marker().end()
    assert drivers(trip, Stage.WAIT) == ("20.0 ms of 120 ms is one round trip",)


def test_generation_says_how_much_and_how_fast() -> None:
    assert drivers(healthy(), Stage.GENERATION) == ("40 tokens", "40 events", "50 tokens/s")


def test_far_side_words_cannot_move_the_cursor() -> None:
    trip = TraceBuilder().dns(2)
    trip.span(Stage.TCP, SPAN_DIAL, 5, outcome=Outcome.FAILED, error="\x1b[2Jgone")
    assert drivers(trip, Stage.TCP) == ("\\x1b[2Jgone",)


def test_what_ended_a_response_belongs_to_its_finish() -> None:
    trip = opened().head(22).text(3).wait(50).limit("idle-timeout", ns(50))
    assert drivers(trip, Stage.WAIT) == ("20.0 ms of 22.0 ms is one round trip",)
    assert drivers(trip, Stage.FINISH) == ("idle-timeout",)
