"""The engine in its own process: answers, cancellation, death and restart. A real process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip

from reference_server.compute.random_model import write_random_model
from reference_server.compute.text_file import read_text
from reference_server.engine.frames import Start
from reference_server.engine.generation import (
    EngineStartError,
    EngineUnavailable,
    Generation,
    GenerationFailed,
    GenerationRequest,
    Step,
)
from reference_server.engine.plan import SamplingParams
from reference_server.engine.remote import RemoteEngine
from reference_server.engine.scheduler import SchedulerLimits
from reference_server.engine.slots import QueueFull
from reference_server.settings import EngineSettings, ModelSettings
from tests.reference_server.harness import in_loop

PROMPT = tuple(b"Why does my BGP session keep flapping?")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model."""
    path = tmp_path_factory.mktemp("model") / "random.gguf"
    write_random_model(path)
    return path


@contextlib.asynccontextmanager
async def engine(model: Path, **limits: int) -> AsyncIterator[RemoteEngine]:
    """A started engine on one thread, closed at the end."""
    limit = EngineSettings(**limits)
    start = Start(
        ModelSettings(str(model), mode="exact", threads=1, kv_blocks=64),
        SchedulerLimits(max_running=limit.slots, queue_limit=limit.queue_limit),
    )
    started = RemoteEngine(start, limit, read_text(str(model)).tokenizer.bytes_of)
    assert (await started.start()).startswith("float32, fixed order of sums; 1 thread; loaded in")
    try:
        yield started
    finally:
        await started.close()


def submit(
    to: RemoteEngine, name: str, count: int = 12, params: SamplingParams | None = None
) -> Generation:
    """Ask for `count` tokens."""
    chosen = params or SamplingParams()
    request = GenerationRequest(name, len(PROMPT), count, PROMPT, chosen)
    return to.submit(request, time.monotonic_ns())


async def steps_of(generation: Generation) -> list[Step]:
    """All its steps."""
    steps = []
    while (step := await generation.next_step()) is not None:
        steps.append(step)
    return steps


def pid_of(engine: RemoteEngine) -> int:
    """The worker's process id."""
    assert engine._worker is not None
    return engine._worker._process.pid


@in_loop
async def test_an_answer_comes_with_ordered_stages_and_the_second_hits_the_cache(
    model: Path,
) -> None:
    async with engine(model) as started:
        first = submit(started, "a")
        assert started.waiting == 1 and started.running == 0
        steps = await steps_of(first)
        stages = first.stages
        assert first.finish_reason == "length" and len(steps) == stages.output_tokens == 12
        assert stages.scheduled_ns is not None and stages.first_token_ns is not None
        assert stages.admitted_ns < stages.scheduled_ns < stages.first_token_ns
        assert stages.last_token_ns == steps[-1].sampled_ns <= time.monotonic_ns()
        assert [step.step for step in steps] == list(range(1, 13))
        assert sum(chunk.tokens for chunk in stages.prefill_chunks) == len(PROMPT)
        second = submit(started, "b")
        again = await steps_of(second)
        assert [step.text for step in again] == [step.text for step in steps]
        assert second.stages.cached_tokens == 32 and stages.cached_tokens == 0
        assert started.cache.prefix_hits == 32 and started.cache.blocks_total == 64
        assert started.running == started.waiting == 0


@in_loop
async def test_log_probabilities_come_with_the_tokens_bytes(model: Path) -> None:
    async with engine(model) as started:
        steps = await steps_of(submit(started, "a", 3, SamplingParams(top_logprobs=2)))
        for step in steps:
            (logprob,) = step.logprobs
            assert len(logprob.top) == 2 and logprob.top[0] == (logprob.token, logprob.logprob)


@in_loop
async def test_a_cancelled_request_frees_its_place_for_the_next(model: Path) -> None:
    async with engine(model, slots=1, queue_limit=1) as started:
        first = submit(started, "a", 400)
        await first.next_step()
        second = submit(started, "b", 2)
        with pytest.raises(QueueFull):
            submit(started, "c")
        first.cancel()
        assert len(await steps_of(second)) == 2
        with pytest.raises(GenerationFailed, match="cancelled"):
            await steps_of(first)


@in_loop
async def test_a_reader_that_is_too_far_behind_is_dropped(model: Path) -> None:
    async with engine(model, backlog_steps=50) as started:
        generation = submit(started, "a", 400)
        other = submit(started, "b", 20)
        assert len(await steps_of(other)) == 20
        while not generation.ended:  # Reading it would make room again.
            await asyncio.sleep(0.01)
        with pytest.raises(GenerationFailed, match="slow_reader"):
            await steps_of(generation)


@in_loop
async def test_a_request_not_scheduled_by_its_deadline_fails(model: Path) -> None:
    async with engine(model, slots=1, queue_timeout_ms=1) as started:
        first = submit(started, "a", 100)
        await first.next_step()
        late = submit(started, "b")
        with pytest.raises(GenerationFailed, match="queue_timeout"):
            await steps_of(late)
        assert len(await steps_of(first)) == 99


@in_loop
async def test_when_the_process_dies_its_requests_fail_and_another_takes_over(
    model: Path,
) -> None:
    async with engine(model) as started:
        generation = submit(started, "a", 400)
        await generation.next_step()
        dead = pid_of(started)
        os.kill(dead, signal.SIGKILL)
        with pytest.raises(GenerationFailed, match="engine_error"):
            await steps_of(generation)
        assert not started.available
        with pytest.raises(EngineUnavailable):
            submit(started, "b")
        async with asyncio.timeout(30):
            while not started.available:
                await asyncio.sleep(0.02)
        assert pid_of(started) != dead
        assert len(await steps_of(submit(started, "c", 3))) == 3


@in_loop
async def test_signals_meant_for_the_group_do_not_end_the_process_before_the_gateway(
    model: Path,
) -> None:
    async with engine(model) as started:
        generation = submit(started, "a", 30)
        await generation.next_step()
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(pid_of(started), number)
        assert len(await steps_of(generation)) == 29


@in_loop
async def test_closing_fails_what_runs_and_leaves_no_process(model: Path) -> None:
    async with engine(model) as started:
        generation = submit(started, "a", 400)
        await generation.next_step()
        pid = pid_of(started)
    with pytest.raises(GenerationFailed, match="engine_stopped"):
        await steps_of(generation)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@in_loop
async def test_a_model_that_cannot_be_read_is_said_in_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(2))
    for path, said in ((broken, "at byte 4"), (tmp_path / "none", "No such file")):
        start = Start(ModelSettings(str(path)), SchedulerLimits())
        with pytest.raises(EngineStartError, match=said):
            await RemoteEngine(start, EngineSettings(), lambda _: b"").start()
