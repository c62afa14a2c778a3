"""The runner under the real scheduler: answers do not depend on what else runs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference_server.compute import torch_needed  # noqa: F401  # isort: skip

from reference_server.compute.checkpoint import Checkpoint, open_checkpoint
from reference_server.compute.model import Llama
from reference_server.compute.runner import TorchRunner, make_runner
from reference_server.engine.plan import SamplingParams, StepItem, StepPlan
from reference_server.engine.scheduler import SchedulerLimits
from tests.reference_server.compute.reference import greedy
from tests.reference_server.engine.rig import Rig

LIMITS = SchedulerLimits(token_budget=32, max_running=6, context_tokens=512)
PROMPTS = [
    tuple(b"Why does my BGP session keep flapping?"),
    tuple(b"Why does my BGP session keep flapping? The timers are equal."),
    tuple(b"x"),
    tuple(b"Why does my BGP session stay up?"),
    tuple(range(48)),
    tuple(b"abc" * 30),
]


@cache
def checkpoint(path: Path) -> Checkpoint:
    """The random model's weights."""
    return open_checkpoint(str(path))


@cache
def model(path: Path) -> Llama:
    """The random model in the deterministic mode."""
    return Llama(checkpoint(path), "exact")


@cache
def reference(path: Path, prompt: tuple[int, ...], count: int) -> list[int]:
    """What the reference answers."""
    return greedy(checkpoint(path), list(prompt), count)


def exact_runner(path: Path, blocks: int) -> TorchRunner:
    """A runner with an empty pool."""
    return make_runner(model(path), blocks, lambda: 0, exact=True)


def answers(
    path: Path, limits: SchedulerLimits, blocks: int, params: SamplingParams | None = None
) -> tuple[list[list[int]], Rig]:
    """All prompts at once through loop, scheduler and model; 12 tokens each."""
    rig = Rig(blocks=blocks, limits=limits, runner=exact_runner(path, blocks))
    for number, prompt in enumerate(PROMPTS):
        rig.submit(str(number), prompt, 12, params=params or SamplingParams())
    rig.drain()
    return [rig.tokens(str(number)) for number in range(len(PROMPTS))], rig


def expected(path: Path) -> list[list[int]]:
    """All answers by the reference."""
    return [reference(path, prompt, 12) for prompt in PROMPTS]


@pytest.mark.parametrize("budget", [6, 7, 17, 32, 400])
def test_greedy_answers_equal_the_reference_whatever_the_chunks(
    random_model: Path, budget: int
) -> None:
    got, _ = answers(random_model, replace(LIMITS, token_budget=budget), 64)
    assert got == expected(random_model)


@pytest.mark.parametrize("most", [1, 2, 6])
def test_greedy_answers_equal_the_reference_whatever_the_batch(
    random_model: Path, most: int
) -> None:
    got, _ = answers(random_model, replace(LIMITS, max_running=most), 64)
    assert got == expected(random_model)


def test_greedy_answers_equal_the_reference_with_prefix_hits(random_model: Path) -> None:
    got, rig = answers(random_model, replace(LIMITS, max_running=1), 64)
    assert rig.scheduler.prefix_hits >= 32
    assert got == expected(random_model)


def test_greedy_answers_equal_the_reference_after_preemptions(random_model: Path) -> None:
    got, rig = answers(random_model, replace(LIMITS, token_budget=200), 14)
    assert rig.scheduler.preemptions > 0
    assert got == expected(random_model)


def test_greedy_answers_equal_the_reference_without_kv_cache(random_model: Path) -> None:
    got, _ = answers(random_model, replace(LIMITS, token_budget=600, kv_cache=False), 64)
    assert got == expected(random_model)


def test_sampled_answers_depend_on_the_seed_and_not_on_the_schedule(random_model: Path) -> None:
    params = SamplingParams(temperature=0.8, top_p=0.95, seed=7)
    alone, _ = answers(random_model, replace(LIMITS, max_running=1), 64, params)
    together, _ = answers(random_model, replace(LIMITS, token_budget=11), 40, params)
    other, _ = answers(random_model, LIMITS, 64, replace(params, seed=8))
    assert alone == together
    assert alone != other and alone != expected(random_model)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_in_the_deterministic_mode_the_very_bits_do_not_depend_on_the_batch(
    random_model: Path, data: st.DataObject
) -> None:
    prompt = PROMPTS[1]
    cut = data.draw(st.integers(0, len(prompt) - 1))
    others = data.draw(st.lists(st.integers(1, 40), max_size=3))
    params = SamplingParams(top_logprobs=5)
    alone = exact_runner(random_model, 32)
    whole = StepItem(0, prompt, 0, (0, 1, 2, 3), True, params)
    wanted = alone.execute(StepPlan((whole,))).sampled[0]
    runner = exact_runner(random_model, 32)
    if cut:
        first = StepItem(0, prompt[:cut], 0, (9, 1, 2, 3), False)
        runner.execute(StepPlan((first,)))
    items = [StepItem(0, prompt[cut:], cut, (9, 1, 2, 3), True, params)]
    for number, length in enumerate(others, 1):
        table = tuple(range(10 + 4 * number, 14 + 4 * number))
        items.append(StepItem(number, prompt[:length], 0, table, True, params))
    order = data.draw(st.permutations(items))
    sampled = {token.sequence_id: token for token in runner.execute(StepPlan(tuple(order))).sampled}
    assert sampled[0] == wanted


def test_results_come_in_the_plans_order_for_those_that_sample(random_model: Path) -> None:
    runner = exact_runner(random_model, 32)
    items = (
        StepItem(4, (1, 2, 3), 0, (0,), True, SamplingParams()),
        StepItem(9, (1,), 0, (1,), False),
        StepItem(2, (5,), 0, (2,), True, SamplingParams()),
    )
    result = runner.execute(StepPlan(items))
    assert [token.sequence_id for token in result.sampled] == [4, 2]
    assert runner.execute(StepPlan(items[1:2])).sampled == ()
