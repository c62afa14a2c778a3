"""The streams of a calibration through boxes that hold in one known way: each must show its truth.
All run at once; the longest takes eight seconds, since it asks for silences of two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from promptpath.analysis.calibration import (
    NEXT_EVENT,
    TIMER,
    TO_THE_END,
    Stream,
    Sweep,
    buffer_of,
    fastest_ns,
    next_sizes,
    single_of,
    streams_of,
    sweep_of,
)
from promptpath.model.plan import HttpChoice, Limits, Plan
from promptpath.model.trace import Trace
from promptpath.model.units import NS_PER_MS, NS_PER_S
from promptpath.model.urls import parse_url
from promptpath.probe.active import StreamTest, run_tests
from promptpath.probe.calibrate import (
    HTTP_1,
    SWEEP_BYTES,
    VARIANTS,
    first_pass,
    next_sweep,
    ramp,
    single,
    sweep,
)
from promptpath.probe.clock import RunClock
from tests.e2e.reference import reference_server
from tests.peers.holding import Hold, HoldingBox

pytestmark = pytest.mark.slow

TIMER_MS = 250.0
TIMER_ERROR_MS = 15.0
"""5 ms, and what a busy machine and a box in Python add."""
SIZE = 12_345
INITIAL = 5_000
Streams = dict[str, list[Stream]]


def plan(url: str) -> Plan:
    return Plan(target=parse_url(url), limits=Limits(total_ns=20 * NS_PER_S))


async def measure(clock: RunClock, tests: Sequence[StreamTest]) -> list[Trace]:
    return await run_tests(tests, stop=asyncio.Event(), clock=clock)


async def narrow(clock: RunClock, url: str) -> list[Trace]:
    """The sweep until it is exact."""
    traces = await measure(clock, [sweep(plan(url), size) for size in SWEEP_BYTES])
    for _ in range(6):
        streams = streams_of(traces)
        sizes = next_sizes(streams, fastest_ns(streams) or 0)
        if not sizes:
            break
        traces += await measure(clock, next_sweep(plan(url), sizes))
    return traces


async def measure_all(urls: dict[str, str]) -> dict[str, list[Trace]]:
    clock = RunClock.start()
    work = {
        "timer": measure(clock, [single(plan(urls["timer"]))]),
        "next-event": measure(clock, [single(plan(urls["next-event"]))]),
        "whole": measure(clock, [single(plan(urls["whole"])), ramp(plan(urls["whole"]))]),
        "size": measure(clock, [ramp(plan(urls["size"])), single(plan(urls["size"]))]),
        "initial": narrow(clock, urls["initial"]),
        "direct": narrow(clock, urls["direct"]),
    }
    return dict(zip(work, await asyncio.gather(*work.values()), strict=True))


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streams]:
    """What came through each box."""
    holds = {
        "timer": Hold(timer_ms=TIMER_MS),
        "next-event": Hold(next_event=True),
        "whole": Hold(whole=True),
        "size": Hold(size_bytes=SIZE),
        "initial": Hold(initial_bytes=INITIAL),
    }
    with ExitStack() as stack:
        directory: Path = tmp_path_factory.mktemp("server")
        server = stack.enter_context(reference_server(directory, "--engine", "none"))
        boxes = {name: HoldingBox(server.url, hold) for name, hold in holds.items()}
        urls = {name: stack.enter_context(box).url for name, box in boxes.items()}
        traces = asyncio.run(measure_all({**urls, "direct": server.url}))
        yield {name: streams_of(each) for name, each in traces.items()}


def fastest(found: Streams) -> int:
    """Of all streams: they share a clock, a server and a machine."""
    value = fastest_ns([stream for streams in found.values() for stream in streams])
    assert value is not None
    return value


def of_kind(found: Streams, name: str, kind: str) -> Stream:
    (stream,) = [each for each in found[name] if each.kind == kind]
    assert stream.whole
    return stream


def test_a_timer_shows_its_time(found: Streams) -> None:
    shown = single_of(of_kind(found, "timer", "single"), fastest(found))
    assert shown.answer == TIMER
    assert shown.timer_ns == pytest.approx(TIMER_MS * NS_PER_MS, abs=TIMER_ERROR_MS * NS_PER_MS)


def test_a_box_that_waits_for_the_next_event_shows(found: Streams) -> None:
    shown = single_of(of_kind(found, "next-event", "single"), fastest(found))
    assert (shown.answer, shown.timer_ns) == (NEXT_EVENT, None)


def test_a_buffer_shows_its_size_to_the_byte(found: Streams) -> None:
    shown = buffer_of(of_kind(found, "size", "ramp"))
    assert shown is not None
    assert (shown.size_bytes, shown.layer) == (SIZE, "http-frame")
    assert single_of(of_kind(found, "size", "single"), fastest(found)).answer == TO_THE_END


def test_a_box_that_keeps_all_has_no_size(found: Streams) -> None:
    assert buffer_of(of_kind(found, "whole", "ramp")) is None
    assert single_of(of_kind(found, "whole", "single"), fastest(found)).answer == TO_THE_END


def test_an_initial_hold_shows_to_the_byte(found: Streams) -> None:
    shown = sweep_of(found["initial"], fastest(found))
    assert shown == Sweep(held_bytes=INITIAL - 1, passed_bytes=INITIAL)


def test_without_a_box_nothing_is_held(found: Streams) -> None:
    assert len(found["direct"]) == len(SWEEP_BYTES)
    assert sweep_of(found["direct"], fastest(found)) is None


# -- what is asked for -----------------------------------------------------------------------------


def test_the_first_pass_asks_for_each_kind_of_stream_once() -> None:
    tests = first_pass(plan("http://h/llm/v1/chat/completions"))
    kinds = [test.about["kind"] for test in tests]
    assert kinds == ["ramp", "single"] + ["sweep"] * len(SWEEP_BYTES) + ["variant"] * len(VARIANTS)
    assert all(test.plan.target.path.startswith("/llm/promptpath/calibrate?") for test in tests)
    headers = {
        test.about["name"]: test.plan.target.path.count("_header=0")
        for test in tests
        if test.about["kind"] == "variant"
    }
    assert (headers["plain"], headers["both headers"]) == (2, 0)


def test_http_1_is_compared_where_http_2_may_be_spoken() -> None:
    (extra,) = first_pass(plan("https://h/"))[2 + len(SWEEP_BYTES) + len(VARIANTS) :]
    assert (extra.about["name"], extra.plan.http) == (HTTP_1, HttpChoice.H1)
    assert extra.plan.target.path == first_pass(plan("https://h/"))[11].plan.target.path
