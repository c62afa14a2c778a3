from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from promptpath.cli.live_model import LiveRun
from promptpath.model.enums import Stage
from promptpath.model.log import Row
from tests.analysis.build import TraceBuilder
from tests.export.documents import extend


def rows_of_a_trip() -> list[Row]:
    rows: list[Row] = []
    builder = TraceBuilder()
    builder.log.observe(rows.append)
    extend(builder)
    return rows


def model_of(rows: list[Row]) -> LiveRun:
    model = LiveRun()
    for row in rows:
        model.apply(row)
    return model


def test_the_hops_of_a_trip_come_out_in_order_and_join() -> None:
    model = model_of(rows_of_a_trip())
    stages = [hop.stage for hop in model.hops]
    assert stages == [
        Stage.DNS,
        Stage.TCP,
        Stage.TLS,
        Stage.REQUEST,
        Stage.WAIT,
        Stage.GENERATION,
        Stage.FINISH,
    ]
    wait, generation, finish = model.hops[-3:]
    assert wait.end_ns == generation.start_ns == model.first_token_ns
    assert generation.end_ns == finish.start_ns == model.last_content_ns
    assert all(hop.end_ns is not None for hop in model.hops)


def test_what_comes_after_the_response_is_no_hop_but_a_redirects_trip_is() -> None:
    rows = rows_of_a_trip()
    dial: Row = ["span", 99, None, 2, "tcp", "dial", 10**9]
    assert model_of([*rows, dial]).hops == model_of(rows).hops
    redirect: Row = ["fact", "http.redirect", {"status": 307}, "observed", None]
    assert model_of([*rows, redirect, dial]).hops[-1].start_ns == 10**9


def test_events_and_tokens_are_counted() -> None:
    model = model_of(rows_of_a_trip())
    assert model.events == 20


def test_a_run_in_progress_has_an_open_hop() -> None:
    rows = rows_of_a_trip()
    first_event = next(number for number, row in enumerate(rows) if row[0] == "event")
    model = model_of(rows[:first_event])
    assert model.hops[-1].stage is Stage.WAIT and model.hops[-1].end_ns is None


def test_memory_does_not_grow_with_the_stream() -> None:
    model = LiveRun()
    for number in range(10_000):
        model.apply(["stamp", number, number, number, 0])
        model.apply(["event", 0, number, number, 1, 1, 1, -1, -1, None, None])
    assert model.events == 10_000 and len(model._stamps) <= 256 and len(model.hops) == 1


@given(st.data())
def test_lost_rows_never_break_it(data: st.DataObject) -> None:
    rows = rows_of_a_trip()
    kept = data.draw(st.lists(st.sampled_from(range(len(rows))), unique=True).map(sorted))
    model_of([rows[number] for number in kept])


def test_what_is_known_of_a_quiet_peer_lasts_until_bytes_come() -> None:
    model = model_of(rows_of_a_trip())
    assert model.quiet_peer is None
    model.apply(["fact", "stream.quiet", {"peer": "alive", "quiet_ns": 7 * 10**9}, "observed", 5])
    assert model.quiet_peer == "alive"
    model.apply(["arrival", 1, 5, 0, 0, 10, -1, -1, -1])
    assert model.quiet_peer is None
    model.apply(["fact", "stream.quiet", "nonsense", "observed", None])
    assert model.quiet_peer is None


def test_the_answer_to_a_ping_lasts_until_bytes_come() -> None:
    model = model_of(rows_of_a_trip())
    for http in ("unanswered", "answered"):
        note = {"peer": "alive", "peer_http": http, "ping_rtt_ns": None}
        model.apply(["fact", "stream.quiet", note, "observed", 5])
        assert (model.quiet_peer, model.quiet_http) == ("alive", http)
    model.apply(["arrival", 1, 5, 0, 0, 10, -1, -1, -1])
    assert model.quiet_http is None
    model.apply(["fact", "stream.quiet", {"peer": "alive", "peer_http": 7}, "observed", 5])
    assert model.quiet_http is None
