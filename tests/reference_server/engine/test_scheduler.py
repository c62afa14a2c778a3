"""What the scheduler puts into a step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reference_server.engine.blocks import BlockPool
from reference_server.engine.plan import StepPlan
from reference_server.engine.scheduler import PromptTooLarge, Scheduler, SchedulerLimits
from reference_server.engine.slots import QueueFull
from tests.reference_server.engine.fake_model import expected
from tests.reference_server.engine.rig import Rig, request

SMALL = SchedulerLimits(token_budget=32, max_running=4, queue_limit=8)


def _shape(plan: StepPlan) -> list[tuple[int, int, int, bool]]:
    return [(i.sequence_id, i.position, len(i.token_ids), i.sample) for i in plan.items]


def _rig(blocks: int = 64, **limits: Any) -> Rig:
    return Rig(blocks=blocks, limits=replace(SMALL, **limits))


def test_decode_comes_first_and_a_prompt_takes_the_rest_of_the_budget() -> None:
    rig = _rig()
    rig.submit("a", range(10), 8)
    rig.loop.turn()
    rig.submit("b", range(100, 170), 1)
    for _ in range(3):
        rig.loop.turn()
    assert [_shape(plan) for plan in rig.model.plans] == [
        [(0, 0, 10, True)],
        [(0, 10, 1, True), (1, 0, 31, False)],
        [(0, 11, 1, True), (1, 31, 31, False)],
        [(0, 12, 1, True), (1, 62, 8, True)],
    ]


def test_no_step_has_more_tokens_than_the_budget() -> None:
    rig = _rig()
    for name in range(8):
        rig.submit(str(name), range(name, name + 25), 5)
    rig.drain()
    assert max(sum(len(i.token_ids) for i in plan.items) for plan in rig.model.plans) == 32


def test_first_come_first_served() -> None:
    rig = _rig(max_running=1)
    for name in "abc":
        rig.submit(name, [1, 2], 1)
    rig.drain()
    assert [event.request_id for event in rig.events if event in rig.outs(event.request_id)] == [
        *"abc"
    ]


def test_a_lower_priority_number_overtakes_the_queue() -> None:
    rig = _rig(max_running=1)
    rig.submit("a", [1], 2)
    rig.loop.turn()
    rig.submit("b", [2], 1)
    rig.submit("c", [3], 1, priority=-1)
    rig.drain()
    ends = [e.request_id for name in "abc" for e in rig.outs(name) if e.finish]
    steps = {name: rig.outs(name)[-1].step for name in ends}
    assert steps["a"] < steps["c"] < steps["b"]


def test_the_queue_is_bounded() -> None:
    scheduler = Scheduler(replace(SMALL, max_running=1, queue_limit=1), BlockPool(8))
    scheduler.submit(request("a", [1], 1))
    scheduler.submit(request("b", [1], 1))
    with pytest.raises(QueueFull):
        scheduler.submit(request("c", [1], 1))
    assert scheduler.waiting == 2


def test_a_prompt_that_leaves_no_room_is_refused_and_one_that_fits_just_so_ends() -> None:
    rig = _rig(blocks=2)
    with pytest.raises(PromptTooLarge):
        rig.submit("a", range(32), 1)
    rig.submit("b", range(31), 100)
    rig.drain()
    assert len(rig.tokens("b")) == 1 and rig.outs("b")[-1].finish == "length"


def test_the_context_bounds_prompt_and_answer() -> None:
    rig = _rig(context_tokens=20)
    rig.submit("a", range(15), 100)
    rig.drain()
    assert len(rig.tokens("a")) == 5


def test_an_empty_prompt_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        _rig().submit("a", [])


def test_a_batch_larger_than_the_budget_is_an_error() -> None:
    with pytest.raises(ValueError, match="max_running"):
        Scheduler(SchedulerLimits(token_budget=4, max_running=5), BlockPool(4))


def test_a_wholly_cached_prompt_still_computes_its_last_token() -> None:
    # nano-vllm issue 144: a prompt that was cached to its end gave a prefill of no token.
    rig = _rig()
    for name in "ab":
        rig.submit(name, range(32), 1)
        rig.drain()
    assert _shape(rig.model.plans[1]) == [(1, 16, 16, True)]
    assert rig.tokens("a") == rig.tokens("b") == expected(range(32), 1)


def test_a_prefix_is_not_shared_before_it_is_computed() -> None:
    # nano-vllm pull request 209: two equal prompts in one step, the second used empty blocks.
    rig = _rig(token_budget=128)
    rig.submit("a", range(40), 3)
    rig.submit("b", range(40), 3)
    rig.drain()
    first = rig.model.plans[0]
    assert _shape(first) == [(0, 0, 40, True), (1, 0, 40, True)]
    assert not set(first.items[0].block_table) & set(first.items[1].block_table)
    assert rig.tokens("a") == rig.tokens("b") == expected(range(40), 3)


def test_a_preempted_sequence_comes_back_through_the_prefix_cache() -> None:
    # nano-vllm pull requests 211 and 233: preemption, then a prefix hit: index out of range.
    rig = _rig(blocks=6, token_budget=64)
    prompts = {"a": range(30), "b": range(30, 60)}
    for name, prompt in prompts.items():
        rig.submit(name, prompt, 40)
    rig.drain()
    assert rig.scheduler.preemptions
    again = [p.items for p in rig.model.plans if any(i.sequence_id == 1 for i in p.items)]
    assert any(i.sequence_id == 1 and i.position == 16 for items in again for i in items)
    for name, prompt in prompts.items():
        assert rig.tokens(name) == expected(prompt, 40)


def test_a_preempted_sequence_is_not_decoding_until_it_is_computed_again() -> None:
    # nano-vllm issue 144, second part: after a preemption, prefill was taken for decode.
    rig = _rig(blocks=6, token_budget=64, prefix_cache=False)
    rig.submit("a", range(30), 40)
    rig.submit("b", range(30, 60), 40)
    rig.drain()
    b_items = [i for p in rig.model.plans for i in p.items if i.sequence_id == 1]
    restarts = [i for i in b_items if i.position == 0]
    assert len(restarts) == 1 + rig.scheduler.preemptions
    assert restarts[1].token_ids[:30] == tuple(range(30, 60)) and len(restarts[1].token_ids) > 30


def test_the_last_to_come_is_preempted_and_keeps_its_place_in_the_queue() -> None:
    rig = _rig(blocks=6, token_budget=64)
    rig.submit("a", range(30), 40)
    rig.submit("b", range(30, 60), 40)
    while not rig.scheduler.preemptions:
        rig.loop.turn()
    before = len(rig.model.plans)
    rig.submit("c", [1, 2], 1)
    rig.drain()
    order = [i.sequence_id for plan in rig.model.plans[before:] for i in plan.items]
    assert order.index(1) < order.index(2)


def test_another_salt_finds_nothing_and_the_same_salt_does() -> None:
    rig = _rig()
    cached = {}
    for name, salt in (("a", "red"), ("b", "blue"), ("c", "red"), ("d", "")):
        rig.submit(name, range(40), 1, cache_salt=salt)
        sequence = next(iter(rig.scheduler.live()))
        rig.drain()
        cached[name] = sequence.cached
    assert cached == {"a": 0, "b": 0, "c": 32, "d": 0}
    assert (rig.scheduler.prefix_queries, rig.scheduler.prefix_hits) == (160, 32)


def test_answers_are_cached_as_well_as_prompts() -> None:
    rig = _rig()
    rig.submit("a", range(10), 30)
    rig.drain()
    rig.submit("b", [*range(10), *rig.tokens("a"), 7], 1)
    rig.drain()
    assert rig.scheduler.prefix_hits == 32  # The last of 40 tokens was sampled, not computed.


def test_the_cache_gives_way_to_those_that_run() -> None:
    rig = _rig(blocks=4)
    rig.submit("a", range(40), 1)
    rig.drain()
    rig.submit("b", range(100, 163), 1)
    rig.drain()
    assert rig.tokens("b") == expected(range(100, 163), 1)
    rig.submit("a2", range(40), 1)
    rig.drain()
    assert rig.scheduler.prefix_hits == 0


def test_without_the_prefix_cache_nothing_is_found() -> None:
    rig = _rig(prefix_cache=False)
    for name in "ab":
        rig.submit(name, range(40), 1)
        rig.drain()
    assert rig.scheduler.prefix_hits == rig.pool.cached == 0


def test_without_a_kv_cache_every_step_computes_everything_and_says_the_same() -> None:
    rig = _rig(kv_cache=False)
    rig.submit("a", range(40), 3)
    rig.drain()
    assert [_shape(plan) for plan in rig.model.plans[:4]] == [
        [(0, 0, 32, False)],
        [(0, 32, 8, True)],
        [(0, 0, 32, False)],
        [(0, 32, 9, True)],
    ]
    assert rig.tokens("a") == expected(range(40), 3)


def test_a_static_batch_computes_ended_rows_until_the_longest_ends() -> None:
    rig = _rig(batching="static")
    rig.submit("short", [1, 2, 3], 1)
    rig.submit("long", [4, 5, 6], 4)
    rig.loop.turn()
    rig.submit("next", [7], 1)
    rig.drain()
    shapes = [_shape(plan) for plan in rig.model.plans]
    assert shapes[0] == [(0, 0, 3, True), (1, 0, 3, True)]
    assert shapes[1:4] == [[(1, at, 1, True), (0, 2, 1, False)] for at in (3, 4, 5)]
    assert shapes[4] == [(2, 0, 1, True)]
    assert rig.tokens("long") == expected([4, 5, 6], 4)
    assert rig.pool.used == 0


def test_a_static_batch_decodes_when_all_its_prompts_are_computed() -> None:
    rig = _rig(batching="static")
    for name in range(3):
        rig.submit(str(name), range(name, name + 30), 2)
    rig.drain()
    assert [[i[:3] for i in _shape(p)] for p in rig.model.plans] == [
        [(0, 0, 30), (1, 0, 2)],
        [(1, 2, 28), (2, 0, 4)],
        [(2, 4, 26)],
        [(0, 30, 1), (1, 30, 1), (2, 30, 1)],
    ]


def test_a_row_dropped_from_a_static_batch_is_not_padded() -> None:
    rig = _rig(batching="static")
    rig.submit("a", [1], 3)
    rig.submit("b", [2], 3)
    rig.loop.turn()
    rig.loop.cancel("a")
    rig.drain()
    assert [len(plan.items) for plan in rig.model.plans] == [2, 1, 1]


def test_a_decode_already_planned_yields_to_a_prompt_that_goes_before_it() -> None:
    rig = _rig(blocks=4, token_budget=17)
    rig.submit("late", range(15), 10)
    rig.loop.turn()
    rig.submit("first", range(100, 148), 1, priority=-1)
    while not rig.scheduler.preemptions:
        rig.loop.turn()
    assert _shape(rig.model.plans[-1]) == [(1, 32, 16, True)]
    rig.drain()
    assert rig.tokens("late") == expected(range(15), 10)
    assert rig.tokens("first") == expected(range(100, 148), 1)
