"""The hand-over between the engine and the API."""

from __future__ import annotations

import pytest

from reference_server.engine.generation import (
    Generation,
    GenerationFailed,
    GenerationRequest,
    Stages,
    Step,
)
from tests.virtual_time import VirtualTimeLoop, run


def _generation(backlog: int = 2, cancelled: list[bool] | None = None) -> Generation:
    calls = [] if cancelled is None else cancelled
    request = GenerationRequest("r", 3, 10)
    return Generation(request, Stages(5), backlog, lambda: calls.append(True))


def _step(at_ns: int) -> Step:
    return Step("x", 1, 1, 1, at_ns)


def test_steps_come_in_order_and_then_the_end() -> None:
    async def scenario(loop: VirtualTimeLoop) -> list[Step | None]:
        generation = _generation()
        loop.call_later(1, generation.put, _step(10))
        loop.call_later(2, generation.put, _step(20))
        loop.call_later(2, generation.finish, "stop")
        return [await generation.next_step() for _ in range(3)]

    steps, _ = run(scenario)
    assert steps == [_step(10), _step(20), None]


def test_what_was_made_before_a_failure_is_still_read() -> None:
    async def scenario(loop: VirtualTimeLoop) -> str:
        generation = _generation()
        generation.put(_step(10))
        generation.fail("engine_error")
        generation.fail("cancelled")
        assert await generation.next_step() == _step(10)
        with pytest.raises(GenerationFailed) as caught:
            await generation.next_step()
        return caught.value.code

    assert run(scenario)[0] == "engine_error"


def test_a_full_backlog_refuses_the_step_and_does_not_count_it() -> None:
    generation = _generation(backlog=2)
    assert [generation.put(_step(n)) for n in (1, 2, 3)] == [True, True, False]
    assert (generation.stages.output_tokens, generation.stages.last_token_ns) == (2, 2)


def test_cancel_reaches_the_engine_only_before_the_end() -> None:
    cancelled: list[bool] = []
    generation = _generation(cancelled=cancelled)
    generation.cancel()
    generation.finish("length")
    generation.cancel()
    assert cancelled == [True]


def test_stages_are_disjoint_and_null_until_they_are_reached() -> None:
    stages = Stages(admitted_ns=100)
    assert (stages.queue_ns, stages.prefill_ns, stages.decode_ns) == (None, None, None)
    stages.scheduled_ns = 130
    stages.first_token_ns = stages.last_token_ns = 200
    assert (stages.queue_ns, stages.prefill_ns, stages.decode_ns) == (30, 70, 0)
