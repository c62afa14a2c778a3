"""The paced engine in virtual time: what it promises is exact."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from reference_server.compute.paced import PacedEngine
from reference_server.engine.delayed import DelayedEngine
from reference_server.engine.generation import Generation, GenerationFailed, GenerationRequest, Step
from reference_server.engine.slots import QueueFull
from reference_server.settings import EngineSettings, PaceSettings
from tests.virtual_time import VirtualTimeLoop, run

MS = 1_000_000
PACE = PaceSettings(base_ms=40, prefill_ms_per_token=0.5, itl_ms=20, text="one two three")


def _engine(
    loop: VirtualTimeLoop, pace: PaceSettings = PACE, limits: EngineSettings | None = None
) -> PacedEngine:
    return PacedEngine(pace, limits or EngineSettings(), loop.now_ns)


def _submit(
    engine: PacedEngine, loop: VirtualTimeLoop, name: str = "r", prompt: int = 10, limit: int = 4
) -> Generation:
    return engine.submit(GenerationRequest(name, prompt, limit), loop.now_ns())


async def _steps(generation: Generation) -> list[Step]:
    steps = []
    while (step := await generation.next_step()) is not None:
        steps.append(step)
    return steps


def test_first_token_after_base_and_prompt_then_one_each_interval() -> None:
    async def scenario(loop: VirtualTimeLoop) -> Generation:
        generation = _submit(_engine(loop), loop)
        steps = await _steps(generation)
        assert [step.sampled_ns for step in steps] == pytest.approx(
            [45 * MS, 65 * MS, 85 * MS, 105 * MS], abs=100
        )
        assert "".join(step.text for step in steps) == "one two threeone"
        return generation

    stages = run(scenario)[0].stages
    assert stages.queue_ns == 0
    assert stages.prefill_ns == pytest.approx(45 * MS, abs=100)
    assert stages.decode_ns == pytest.approx(60 * MS, abs=100)


def test_a_request_without_a_slot_waits_until_one_is_free() -> None:
    async def scenario(loop: VirtualTimeLoop) -> tuple[Generation, Generation]:
        engine = _engine(loop, limits=EngineSettings(slots=1))
        first, second = _submit(engine, loop, "a"), _submit(engine, loop, "b")
        assert (engine.running, engine.waiting) == (1, 1)
        await asyncio.gather(_steps(first), _steps(second))
        return first, second

    first, second = run(scenario)[0]
    assert second.stages.scheduled_ns == first.stages.last_token_ns
    assert second.stages.queue_ns == pytest.approx(105 * MS, abs=100)


def test_batch_and_step_tell_who_shared_the_engine() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[list[Step]]:
        engine = _engine(loop)
        both = [_submit(engine, loop, "a", limit=2), _submit(engine, loop, "b", limit=4)]
        return list(await asyncio.gather(*map(_steps, both)))

    short, long = run(scenario)[0]
    assert [step.batch for step in short] == [2, 2]
    assert [step.batch for step in long][0] == 2
    # At 60 ms both step; the short one, which came first, has left its slot by then.
    assert [step.batch for step in long][1:] == [1, 1, 1]
    numbers = [step.step for step in short + long]
    assert sorted(numbers) == list(range(1, 7))


def test_a_full_queue_is_refused_at_once() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(slots=1, queue_limit=1))
        _submit(engine, loop, "a")
        _submit(engine, loop, "b")
        with pytest.raises(QueueFull):
            _submit(engine, loop, "c")
        await engine.close()

    run(scenario)


def test_cancel_frees_the_slot_within_the_same_call() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(slots=1))
        first, second = _submit(engine, loop, "a", limit=1000), _submit(engine, loop, "b")
        await first.next_step()
        first.cancel()
        assert (engine.running, engine.waiting) == (1, 0)
        assert second.stages.scheduled_ns == loop.now_ns()
        with pytest.raises(GenerationFailed, match="cancelled"):
            await _steps(first)
        assert len(await _steps(second)) == 4

    run(scenario)


def test_a_waiting_request_that_is_cancelled_never_runs() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(slots=1))
        first, second = _submit(engine, loop, "a"), _submit(engine, loop, "b")
        second.cancel()
        await _steps(first)
        assert (engine.running, engine.waiting) == (0, 0)
        assert second.stages.scheduled_ns is None

    run(scenario)


def test_waiting_too_long_ends_the_request_and_nothing_else() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(slots=1, queue_timeout_ms=50))
        first, second = _submit(engine, loop, "a"), _submit(engine, loop, "b")
        with pytest.raises(GenerationFailed, match="queue_timeout"):
            await second.next_step()
        assert loop.now_ns() == pytest.approx(50 * MS, abs=100)
        assert len(await _steps(first)) == 4

    run(scenario)


def test_a_reader_that_falls_too_far_behind_is_dropped() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(backlog_steps=3))
        generation = _submit(engine, loop, limit=100)
        await asyncio.sleep(10)
        assert engine.running == 0
        with pytest.raises(GenerationFailed, match="slow_reader"):
            await _steps(generation)

    run(scenario)


def test_close_ends_every_request_with_a_reason() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        engine = _engine(loop, limits=EngineSettings(slots=1))
        both = [_submit(engine, loop, "a"), _submit(engine, loop, "b")]
        await asyncio.sleep(0.01)
        await engine.close()
        for generation in both:
            with pytest.raises(GenerationFailed, match="engine_stopped"):
                await generation.next_step()
        assert (engine.running, engine.waiting) == (0, 0)

    run(scenario)


@pytest.mark.parametrize(
    ("answer", "limit", "count", "reason"),
    [(None, 5, 5, "length"), (3, 5, 3, "stop"), (5, 5, 5, "stop"), (9, 5, 5, "length")],
)
def test_the_finish_reason_says_what_ended_the_answer(
    answer: int | None, limit: int, count: int, reason: str
) -> None:
    async def scenario(loop: VirtualTimeLoop) -> Generation:
        pace = PaceSettings(text="a b c", answer_tokens=answer)
        generation = _submit(_engine(loop, pace), loop, limit=limit)
        await _steps(generation)
        return generation

    generation = run(scenario)[0]
    assert (generation.stages.output_tokens, generation.finish_reason) == (count, reason)


def test_several_tokens_a_step_never_pass_the_limit() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[int]:
        pace = PaceSettings(tokens_per_step=3)
        steps = await _steps(_submit(_engine(loop, pace), loop, limit=7))
        return [step.tokens for step in steps]

    assert run(scenario)[0] == [3, 3, 1]


def test_jitter_is_bounded_and_the_same_for_the_same_seed() -> None:
    def gaps(seed: int) -> list[int]:
        async def scenario(loop: VirtualTimeLoop) -> list[int]:
            pace = PaceSettings(itl_ms=20, jitter=0.2, seed=seed)
            steps = await _steps(_submit(_engine(loop, pace), loop, limit=50))
            times = [step.sampled_ns for step in steps]
            return [b - a for a, b in pairwise(times)]

        return run(scenario)[0]

    first = gaps(1)
    assert first == gaps(1) != gaps(2)
    assert min(first) >= 16 * MS - 100 and max(first) <= 24 * MS + 100
    assert max(first) - min(first) > 2 * MS


@pytest.mark.parametrize("pace", [PaceSettings(text=""), PaceSettings(jitter=2)])
def test_a_pace_that_makes_no_sense_is_refused(pace: PaceSettings) -> None:
    with pytest.raises(ValueError, match="paced engine"):
        PacedEngine(pace, EngineSettings())


def test_a_stop_text_ends_the_answer_and_is_not_part_of_it() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        request = GenerationRequest("r", 10, 50, stop=("two th",))
        generation = _engine(loop).submit(request, loop.now_ns())
        steps = await _steps(generation)
        assert [step.text for step in steps] == ["one", " ", ""]
        assert (generation.finish_reason, generation.stop_text) == ("stop", "two th")

    run(scenario)


def test_what_a_stop_text_has_held_back_comes_with_the_last_token() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        request = GenerationRequest("r", 10, 2, stop=(" two!",))
        generation = _engine(loop).submit(request, loop.now_ns())
        assert [step.text for step in await _steps(generation)] == ["one", " two"]
        assert (generation.finish_reason, generation.stop_text) == ("length", None)

    run(scenario)


def test_delays_keep_the_stop_text_that_ended_the_answer() -> None:
    async def scenario(loop: VirtualTimeLoop) -> None:
        request = GenerationRequest("r", 10, 50, stop=("two th",))
        engine = DelayedEngine(_engine(loop), 5 * MS, 5 * MS, 64, loop.now_ns)
        generation = engine.submit(request, loop.now_ns())
        await _steps(generation)
        assert (generation.finish_reason, generation.stop_text) == ("stop", "two th")

    run(scenario)
