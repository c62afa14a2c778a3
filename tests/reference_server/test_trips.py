"""What is kept of past requests, and no more."""

from __future__ import annotations

from reference_server.timing import Timeline
from reference_server.trips import TripStore


def test_the_oldest_ended_requests_are_forgotten_and_running_ones_are_not() -> None:
    store = TripStore(most_trips=2)
    for name in ("a", "b", "c", "d"):
        trip = store.begin(name, Timeline(0, lambda: 1))
        trip.caller_id = "me"
        if name != "a":
            trip.end("stop", 1)
    assert [trip.request_id for trip in store.latest("me", 10)] == ["d", "a"]
    assert store.find("b", "me") is None and store.find("a", "you") is None


def test_many_rows_push_out_older_requests() -> None:
    store = TripStore(most_rows=10)
    for name in ("a", "b", "c"):
        trip = store.begin(name, Timeline(0, lambda: 1))
        trip.caller_id = "me"
        for seq in range(8):
            trip.note("text", seq, 1, 1, None)
        trip.end("stop", 1)
    assert [trip.request_id for trip in store.latest("me", 10)] == ["c", "b"]


def test_rows_of_one_request_are_bounded_and_the_rest_is_counted() -> None:
    trip = TripStore().begin("a", Timeline(0, lambda: 1))
    for seq in range(10_005):
        trip.note("text", seq, 1, 1, None)
    assert len(trip.written) == 10_000 and trip.document(1)["rows_dropped"] == 5
