"""The streams of an idle pass: what is asked for, and that each leaves a trace whatever happens."""

from __future__ import annotations

import asyncio

import pytest

from promptpath.analysis.idle import Fate, fate_of
from promptpath.model.names import FAILURE, HTTP_STATUS, TEST, TEST_KEPT
from promptpath.model.plan import Limits, Plan
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S
from promptpath.model.urls import parse_url
from promptpath.probe.active import StreamTest, ask_for, base_path, run_tests
from promptpath.probe.clock import RunClock
from promptpath.probe.idle import AFTER_NS, LATE_NS, SILENCES, idle_tests
from tests.peers.process import free_port
from tests.peers.scripted import FIN, HOLD, RST, ReadRequest, ScriptedOrigin, Step, chunk, head
from tests.reference_server.harness import serving

TICK = b'event: tick\ndata: {"kind":"tick","promptpath":{"seq":0,"sent_ns":1}}\n\n'
ABOUT = {"command": "idle", "at": "stream", "keepalive": "none"}


def plan(url: str, limit_ms: int = 10_000) -> Plan:
    return Plan(target=parse_url(url), limits=Limits(total_ns=limit_ms * NS_PER_MS))


def measure(*tests: StreamTest, stop_after_s: float | None = None) -> list[Trace]:
    async def scenario() -> list[Trace]:
        stop = asyncio.Event()
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, stop.set)
        return await run_tests(tests, stop=stop, clock=RunClock.start())

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("typed", "folder"),
    [
        ("/", "/promptpath/"),
        ("/llm", "/llm/promptpath/"),
        ("/llm/?a=1", "/llm/promptpath/"),
        ("/llm/v1/chat/completions", "/llm/promptpath/"),
        ("/promptpath/silence?at=head", "/promptpath/"),
    ],
)
def test_the_test_streams_are_looked_for_behind_the_prefix_a_person_typed(
    typed: str, folder: str
) -> None:
    assert base_path(typed) == folder


def test_a_pass_asks_for_every_silence_at_once_and_ends_soon_after_the_longest() -> None:
    tests = idle_tests(plan("http://h/"), 75 * NS_PER_S)
    assert len(tests) == len(SILENCES) + 1
    assert {test.plan.method for test in tests} == {"GET"}
    silent = tests[0].plan
    assert silent.target.path.startswith("/promptpath/silence?silence_ms=77000&at=head")
    assert silent.limits.total_ns == 75 * NS_PER_S + LATE_NS + AFTER_NS <= 80 * NS_PER_S
    busy = next(test for test in tests if test.about["keepalive"] == "busy")
    assert "keepalive=event&interval_ms=200" in busy.plan.target.path
    assert tests[-1].keep_idle_ns == 77 * NS_PER_S


@pytest.mark.parametrize(
    ("steps", "fate", "how"),
    [
        ([head(), chunk(TICK), FIN], Fate.CUT, "FIN without the last chunk"),
        ([head(), chunk(TICK), RST], Fate.CUT, "TCP reset"),
        ([head(), chunk(TICK), b"0\r\n\r\n", FIN], Fate.CUT_CLEAN, "a clean end (last chunk)"),
        ([FIN], Fate.CUT, "FIN instead of a response"),
        ([RST], Fate.CUT, "a reset instead of a response"),
        ([head(), chunk(TICK), HOLD], Fate.HANG, "no byte and no end"),
    ],
)
def test_every_way_to_end_a_stream_leaves_its_trace(
    steps: list[Step], fate: Fate, how: str
) -> None:
    with ScriptedOrigin([ReadRequest(), *steps]) as origin:
        asked = plan(origin.url("/"), limit_ms=300 if steps[-1] is HOLD else 10_000)
        (trace,) = measure(StreamTest(plan=asked, about=dict(ABOUT)))
    found = fate_of(trace)
    assert found is not None
    assert (found.fate, found.how[: len(how)]) == (fate, how)


def test_one_stream_that_fails_does_not_harm_the_others() -> None:
    nobody = plan(f"http://127.0.0.1:{free_port()}/")
    with ScriptedOrigin([ReadRequest(), head(), chunk(TICK), FIN]) as origin:
        tests = [
            StreamTest(plan=nobody, about=dict(ABOUT)),
            StreamTest(plan=plan(origin.url("/")), about=dict(ABOUT)),
        ]
        refused, cut = measure(*tests)
    assert refused.fact(FAILURE)["code"] == "refused"
    assert cut.fact(HTTP_STATUS) == 200
    assert refused.fact(TEST) == cut.fact(TEST) == ABOUT
    assert refused.clock.epoch_monotonic_ns == cut.clock.epoch_monotonic_ns


def test_a_stop_keeps_what_was_measured() -> None:
    with ScriptedOrigin([ReadRequest(), head(), chunk(TICK), HOLD]) as origin:
        (trace,) = measure(
            StreamTest(plan=plan(origin.url("/")), about=dict(ABOUT)), stop_after_s=0.3
        )
    found = fate_of(trace)
    assert trace.truncated == "interrupted"
    assert found is not None and found.fate is Fate.UNFINISHED
    assert len(trace.events) == 1


@pytest.mark.parametrize(
    ("server_keeps_s", "closed", "reused"), [(0.2, "fin", False), (30.0, None, True)]
)
def test_an_idle_connection_is_watched_and_asked_again(
    server_keeps_s: float, closed: str | None, reused: bool
) -> None:
    async def scenario() -> Trace:
        async with serving(keepalive_timeout_s=server_keeps_s) as served:
            asked = ask_for(
                plan(served.url.replace("localhost", "127.0.0.1")),
                "calibrate",
                {"events": 1, "min_gap_ms": 0, "max_gap_ms": 0},
            )
            test = StreamTest(plan=asked, about={"command": "idle"}, keep_idle_ns=NS_PER_S // 2)
            (trace,) = await run_tests([test], stop=asyncio.Event(), clock=RunClock.start())
            return trace

    trace = asyncio.run(scenario())
    kept = trace.fact(TEST_KEPT)
    assert (kept["closed"], kept["reused"]) == (closed, reused)
    expected_s = server_keeps_s if closed else 0.5
    assert kept["idle_ns"] == pytest.approx(expected_s * NS_PER_S, rel=0.5)
