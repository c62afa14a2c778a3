"""Reported times: one a scope, the place that knows most, and never a guess."""

from __future__ import annotations

from promptpath.analysis.facts import Facts
from promptpath.analysis.server import read_reported, server_report
from promptpath.model.names import SERVER_COUNT, SERVER_TIMING, STREAM_USAGE
from promptpath.model.report import Server
from promptpath.model.rows import Json
from tests.analysis.build import TraceBuilder, ns


def report(trip: TraceBuilder) -> Server:
    facts = Facts(trip.build())
    return server_report(facts, read_reported(facts))


def test_nothing_reported_is_nothing_claimed() -> None:
    assert report(TraceBuilder()) == Server()


def test_the_last_chunk_knows_more_than_the_header() -> None:
    trip = TraceBuilder().reports("final", queue=7).reports("header", queue=5)
    assert report(trip).queue_ms == 7


def test_of_equal_places_the_later_one_counts() -> None:
    assert (
        report(TraceBuilder().reports("chunk", decode=7).reports("chunk", decode=9)).decode_ms == 9
    )


def test_the_gateways_checks_are_its_time_unless_it_gives_a_total() -> None:
    trip = TraceBuilder().reports("header", auth=2, limits=3)
    assert report(trip).gateway_ms == 5
    assert report(trip.reports("header", gateway=11)).gateway_ms == 11


def test_sources_say_where_each_time_was_read() -> None:
    found = report(TraceBuilder().reports("header", auth=2).reports("final", queue=7))
    assert found.sources == ("header: auth_ms", "final: queue_ms")


def test_what_is_no_duration_is_left_out() -> None:
    trip = TraceBuilder()
    wrong: list[Json] = [None, "5", -1, True, {}]
    for value in wrong:
        trip.fact(SERVER_TIMING, {"scope": "queue", "duration_ns": value, "place": "final"})
    trip.fact(SERVER_TIMING, {"scope": "queue", "duration_ns": ns(1), "place": "nowhere"})
    assert report(trip) == Server()


def test_counts_beat_usage() -> None:
    trip = TraceBuilder().fact(STREAM_USAGE, {"input_tokens": 10, "cached_tokens": 4})
    assert (report(trip).prompt_tokens, report(trip).cached_tokens) == (10, 4)
    trip.fact(SERVER_COUNT, {"name": "prompt_n", "value": 12})
    trip.fact(SERVER_COUNT, {"name": "cached_n", "value": 0})
    assert (report(trip).prompt_tokens, report(trip).cached_tokens) == (12, 0)
