"""The calibration stream: designed sizes and gaps, exact in virtual time."""

from __future__ import annotations

import json

import pytest

from tests.reference_server.harness import ask

MS = 1_000_000
PATH = "/promptpath/calibrate"


def test_every_event_has_the_size_and_the_gap_of_the_plan() -> None:
    answer = ask("GET", PATH + "?events=40&min_bytes=200&max_bytes=5000&max_gap_ms=300")
    events = answer.events()
    plan, ticks = events[0], events[1:-1]
    assert (plan["kind"], events[-1]["kind"], events[-1]["sent"]) == ("plan", "end", 40)
    pieces = answer.pieces[1:41]
    due_ns = answer.pieces[0][0]
    for designed, (at_ns, piece), tick in zip(plan["events"], pieces, ticks, strict=True):
        due_ns += round(designed["gap_ms"] * MS)
        assert len(piece) == designed["size"]
        assert at_ns == pytest.approx(due_ns, abs=1000)
        assert tick["promptpath"]["sent_ns"] == at_ns
    assert [e["promptpath"]["seq"] for e in events] == list(range(42))
    sizes = [designed["size"] for designed in plan["events"]]
    assert len(set(sizes)) > 30 and min(sizes) >= 200 and max(sizes) <= 5000


def test_the_same_seed_gives_the_same_plan_and_another_a_different_one() -> None:
    bodies = [ask("GET", f"{PATH}?events=5&seed={seed}").events()[0] for seed in (1, 1, 2)]
    assert bodies[0]["events"] == bodies[1]["events"] != bodies[2]["events"]


def test_equal_sizes_and_gaps_are_possible() -> None:
    query = "?events=5&min_bytes=997&max_bytes=997&min_gap_ms=4&max_gap_ms=4"
    answer = ask("GET", PATH + query)
    assert {len(piece) for _, piece in answer.pieces[1:6]} == {997}
    assert ask("GET", f"{PATH}?events=3&min_gap_ms=0&max_gap_ms=0").status == 200


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1000])
def test_a_preamble_has_its_exact_size_and_is_no_event(size: int) -> None:
    answer = ask("GET", f"{PATH}?events=1&preamble_bytes={size}")
    assert len(answer.pieces[0][1]) == size
    assert b"data" not in answer.pieces[0][1]


def test_ndjson_has_one_document_a_line() -> None:
    answer = ask("GET", PATH + "?format=ndjson&events=3&preamble_bytes=10")
    assert answer.headers["content-type"] == "application/x-ndjson"
    kinds = [json.loads(line)["kind"] for line in answer.body.splitlines() if line.strip()]
    assert kinds == ["plan", "tick", "tick", "tick", "end"]
    assert [len(piece) for _, piece in answer.pieces[2:5]] == [
        event["size"] for event in json.loads(answer.pieces[1][1])["events"]
    ]


def test_the_headers_that_ask_proxies_not_to_buffer_can_be_left_out() -> None:
    assert ask("GET", PATH + "?events=1").headers["x-accel-buffering"] == "no"
    answer = ask("GET", PATH + "?events=1&no_buffering_header=0&no_transform_header=0")
    assert "x-accel-buffering" not in answer.headers
    assert "cache-control" not in answer.headers


@pytest.mark.parametrize(
    "query",
    [
        "events=0",
        "events=x",
        "events=1.5",
        "events=nan",
        "events=1_0",
        "min_bytes=10",
        "min_bytes=900&max_bytes=800",
        "min_gap_ms=9&max_gap_ms=8",
        "events=20000&max_bytes=1048576",
        "events=20000&max_gap_ms=600000",
        "format=xml",
        "evnets=5",
        "&".join(f"a{n}=1" for n in range(101)),
    ],
)
def test_a_wrong_knob_is_a_400_and_no_stream(query: str) -> None:
    answer = ask("GET", f"{PATH}?{query}")
    assert answer.status == 400
    assert answer.json()["error"]["code"] in ("invalid_value", "unknown_parameter")
