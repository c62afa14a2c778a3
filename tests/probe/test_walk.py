"""Whole runs: what each leaves, what a warm one finds, and how a run ends early."""

from __future__ import annotations

import asyncio
import gc
import json
from dataclasses import replace
from typing import Any

import pytest

from promptpath.model.log import Observer, Row
from promptpath.model.plan import Limits, Plan
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS
from promptpath.model.urls import parse_url
from promptpath.probe.clock import RunClock
from promptpath.probe.walk import walk
from tests.peers.certs import Certificates
from tests.peers.scripted import (
    HOLD,
    ReadRequest,
    ScriptedOrigin,
    Step,
    chunk,
    head,
    response,
    sse_stream,
)
from tests.peers.scripted_h2 import AwaitRequest, Data, Goaway, H2Step, Headers, ScriptedH2Origin

CHAT = "/v1/chat/completions"
TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
EVENTS = [TEXT, TEXT, b"data: [DONE]\n\n"]
STREAM: list[Step] = sse_stream(EVENTS)


def plan_for(url: str, **changes: Any) -> Plan:
    plan = Plan(target=parse_url(url), method="POST", body=b'{"model":"m"}', dns_detail=False)
    return replace(plan, **changes)


def traces(plan: Plan, stop_at_first: str | None = None) -> list[Trace]:
    """All runs of the plan; the stop signal is set by the first row of the kind named."""
    watched: list[tuple[int, str]] = []

    async def main() -> list[Trace]:
        stop = asyncio.Event()

        def observe(row: Row) -> None:
            if row[0] == stop_at_first:
                stop.set()

        def watch(index: int, kind: str, clock: RunClock) -> list[Observer]:
            watched.append((index, kind))
            return [observe]

        runs = walk(plan, stop=stop, watch=watch, clock=RunClock.start())
        found = [trace async for trace in runs]
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, "tasks left behind"
        return found

    found = asyncio.run(main())
    assert [index for index, _ in watched] == list(range(len(found)))
    return found


def facts(trace: Trace, key: str) -> list[Any]:
    return [fact.value for fact in trace.log.facts if fact.key == key]


def kinds(runs: list[Trace]) -> list[str]:
    return [facts(run, "run")[0]["kind"] for run in runs]


def names(trace: Trace) -> list[str]:
    return [span.name for span in trace.log.spans if span.parent is None]


def test_a_run_leaves_its_spans_in_trip_order_on_a_clock_of_its_own() -> None:
    with ScriptedOrigin(STREAM) as origin:
        (trace,) = traces(plan_for(origin.url(CHAT)))
    assert names(trace) == ["resolve", "dial", "upload", "response"]
    assert all(span.end_ns is not None and span.start_ns >= 0 for span in trace.log.spans)
    assert trace.truncated is None and not facts(trace, "failure")
    assert [value["when"] for value in facts(trace, "tcp.info")][-2:] == ["head", "end"]


def test_each_cold_run_dials_and_each_warm_run_reuses() -> None:
    with ScriptedOrigin([*STREAM, *STREAM]) as origin:
        runs = traces(plan_for(origin.url(CHAT), repeat=2, warm=True))
        assert len(origin.connections) == 2
    assert kinds(runs) == ["cold", "warm", "cold", "warm"]
    assert names(runs[1]) == ["upload", "response"]
    assert facts(runs[1], "run") == [{"kind": "warm", "index": 1, "reused": True}]
    epochs = [run.clock.epoch_monotonic_ns for run in runs]
    assert epochs == sorted(set(epochs))
    # All instants of a run are its own: none lies before its t0.
    assert all(row.at_ns >= 0 for run in runs for row in run.log.arrivals)


@pytest.mark.parametrize(
    "script",
    [
        STREAM,  # the connection is closed after it
        [ReadRequest(), response(200, b"x", "text/plain", ("connection", "close")), HOLD],
        [ReadRequest(), head(200, "text/plain", chunked=False), b"until close"],
        [ReadRequest(), response(200, b"x", "text/plain") + b"bytes nobody asked for", HOLD],
    ],
)
def test_there_is_no_warm_run_on_a_connection_that_takes_no_more(script: list[Step]) -> None:
    with ScriptedOrigin(script) as origin:
        assert kinds(traces(plan_for(origin.url(CHAT), warm=True))) == ["cold"]
        assert len(origin.requests) == 1


def test_there_is_no_warm_run_after_a_goaway() -> None:
    from promptpath.model.plan import HttpChoice

    script: list[H2Step] = [AwaitRequest(), Headers(), Data(b"x", end=True), Goaway()]
    with ScriptedH2Origin(script) as origin:
        plan = plan_for(origin.url(CHAT), warm=True, http=HttpChoice.H2)
        assert kinds(traces(plan)) == ["cold"]


def test_a_failure_is_data_and_the_next_run_goes_on() -> None:
    with ScriptedOrigin([ReadRequest()], STREAM) as origin:
        broken, good = traces(plan_for(origin.url(CHAT), repeat=2))
    assert facts(broken, "failure")[0]["stage"] == "wait"
    assert not facts(good, "failure") and facts(good, "http.status") == [200]


def test_the_total_limit_truncates_the_run() -> None:
    steps: list[Step] = [ReadRequest(), head(), chunk(TEXT), HOLD]
    with ScriptedOrigin(steps) as origin:
        limits = Limits(total_ns=150 * NS_PER_MS)
        (trace,) = traces(plan_for(origin.url(CHAT), limits=limits, warm=True))
    assert trace.truncated == "timeout"
    assert facts(trace, "limit") == [{"name": "timeout", "value": 150 * NS_PER_MS}]
    assert len(trace.log.events) == 1
    assert {span.outcome.value for span in trace.log.spans if span.name == "response"} == {
        "timed-out"
    }


def test_a_connect_timeout_is_not_longer_than_the_whole() -> None:
    with ScriptedOrigin([HOLD]) as origin:
        plan = plan_for(f"https://127.0.0.1:{origin.port}/", limits=Limits(total_ns=NS_PER_MS * 80))
        (trace,) = traces(plan)
    (failure,) = facts(trace, "failure")
    assert (failure["stage"], failure["code"]) == ("tls", "connect-timeout")


def test_a_stop_ends_all_runs_and_keeps_what_there_was() -> None:
    steps: list[Step] = [ReadRequest(), head(), chunk(TEXT), HOLD]
    with ScriptedOrigin(steps) as origin:
        (trace,) = traces(plan_for(origin.url(CHAT), repeat=3), stop_at_first="event")
    assert trace.truncated == "interrupted" and len(trace.log.events) == 1
    assert facts(trace, "limit") == [{"name": "interrupt", "value": None}]
    outcomes = {span.name: span.outcome.value for span in trace.log.spans}
    assert outcomes["response"] == "cancelled"


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_rests_while_measuring_and_is_as_it_was_after(enabled: bool) -> None:
    during: list[bool] = []

    async def main(url: str) -> None:
        def watch(index: int, kind: str, clock: RunClock) -> list[Any]:
            during.append(gc.isenabled())
            return []

        async for _ in walk(
            plan_for(url), stop=asyncio.Event(), watch=watch, clock=RunClock.start()
        ):
            pass

    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with ScriptedOrigin(STREAM) as origin:
            asyncio.run(main(origin.url(CHAT)))
        assert during == [False] and gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize("location", ["ftp://x/", "http://[", "http://h:0/"])
def test_a_location_that_leads_nowhere_ends_the_trip(location: str) -> None:
    steps: list[Step] = [ReadRequest(), response(307, b"", "text/plain", ("location", location))]
    with ScriptedOrigin([*steps, *steps]) as origin:
        (trace,) = traces(plan_for(origin.url(CHAT)))
    assert facts(trace, "http.status")[0] == 307 and not facts(trace, "failure")
    assert not facts(trace, "http.redirect")


def test_a_redirect_to_a_name_sends_that_name_in_the_handshake(certs: Certificates) -> None:
    seen: list[str | None] = []
    context = certs.good.server_context()
    context.sni_callback = lambda _sock, name, _context: seen.append(name)
    with ScriptedOrigin(STREAM, tls=context) as second:
        onward = second.url(CHAT, host="localhost")
        first: list[Step] = [ReadRequest(), response(307, b"", "text/plain", ("location", onward))]
        with ScriptedOrigin(first, tls=certs.good.server_context()) as origin:
            url = origin.url(CHAT, host="127.0.0.1")
            plan = plan_for(url, ca_file=str(certs.ca), sni="api.promptpath.test", resume=False)
            (trace,) = traces(plan)
    assert facts(trace, "http.status") == [307, 200] and seen == ["localhost"]


@pytest.mark.parametrize(
    ("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")]
)
def test_the_redirect_of_a_prompt_may_become_a_get_without_a_body(status: int, method: str) -> None:
    steps: list[Step] = [ReadRequest(), response(status, b"", "text/plain", ("location", "/done"))]
    page = response(200, json.dumps({"ok": True}).encode(), "application/json")
    with ScriptedOrigin([*steps, ReadRequest(), page]) as origin:
        (trace,) = traces(plan_for(origin.url(CHAT)))
    assert origin.requests[1].startswith(f"{method} /done HTTP/1.1\r\n".encode())
    assert (b'"model"' in origin.requests[1]) is (method == "POST")
    assert [value["method"] for value in facts(trace, "http.request")] == ["POST", method]
