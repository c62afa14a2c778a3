"""Any schedule: blocks are conserved, every request ends, and what it says depends on nothing else.

`plan.py` and `sequence.py` are covered here too: the hash model reads its context back through the
block tables of each plan.
"""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from reference_server.engine.generation import GenerationRequest
from reference_server.engine.plan import BLOCK_TOKENS, StepPlan, StepResult
from reference_server.engine.scheduler import SchedulerLimits
from reference_server.engine.slots import QueueFull
from tests.reference_server.engine.fake_model import HashModel, expected
from tests.reference_server.engine.rig import Rig, request

_REQUESTS = st.builds(
    lambda start, length, tokens, salt, priority: request(
        "",
        range(start, start + length),
        tokens,
        cache_salt=salt,
        priority=priority,
    ),
    # Few starts, so that prompts share prefixes.
    st.sampled_from([0, 0, 0, 100]),
    st.integers(1, 70),
    st.integers(1, 40),
    st.sampled_from(["", "", "red"]),
    st.sampled_from([0, 0, 0, -1]),
)
_LIMITS = st.builds(
    lambda budget, running, prefix, kv, batching: SchedulerLimits(
        token_budget=max(budget, running),
        max_running=running,
        queue_limit=100,
        prefix_cache=prefix,
        kv_cache=kv,
        batching=batching,
    ),
    st.integers(1, 64),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([True, True, True, False]),
    st.sampled_from(["continuous", "continuous", "static"]),
)
_ACTIONS = st.lists(
    st.one_of(_REQUESTS, st.integers(1, 8), st.tuples(st.just("cancel"), st.integers(0, 30))),
    min_size=1,
    max_size=30,
)


def _check_pool(rig: Rig) -> None:
    """Each block's holders are the tables it stands in; no holder has another's salt."""
    holders: dict[int, list[GenerationRequest]] = {}
    tables = [(s.table, s.request) for s in rig.scheduler.live()]
    for table, asked in tables:
        assert len(set(table)) == len(table)
        for block in table:
            holders.setdefault(block, []).append(asked)
    padded = rig.scheduler.limits.batching == "static"
    for block in range(rig.pool.count):
        held = holders.get(block, [])
        unseen = rig.pool.holders(block) - len(held)  # Padding rows hold blocks, too.
        assert unseen >= 0 if padded else unseen == 0
        assert len({asked.cache_salt for asked in held}) <= 1
    assert rig.pool.free == sum(not rig.pool.holders(b) for b in range(rig.pool.count))


def _play(rig: Rig, actions: list[object]) -> dict[str, GenerationRequest]:
    asked: dict[str, GenerationRequest] = {}
    for action in actions:
        if isinstance(action, GenerationRequest):
            name = str(len(asked))
            asked[name] = request(
                name,
                action.prompt_ids,
                action.max_tokens,
                cache_salt=action.cache_salt,
                priority=action.priority,
            )
            rig.loop.submit(asked[name])
        elif isinstance(action, int):
            for _ in range(action):
                rig.loop.turn()
                _check_pool(rig)
        elif isinstance(action, tuple):
            rig.loop.cancel(str(action[1]))
            _check_pool(rig)
    return asked


@settings(max_examples=150, deadline=None)
@given(st.integers(8, 24), _LIMITS, _ACTIONS)
def test_every_request_says_what_it_would_say_alone(
    blocks: int, limits: SchedulerLimits, actions: list[object]
) -> None:
    rig = Rig(blocks=blocks, limits=limits)
    asked = _play(rig, actions)
    rig.drain()
    _check_pool(rig)
    assert rig.pool.used == 0
    for name, wanted in asked.items():
        room = blocks * BLOCK_TOKENS - len(wanted.prompt_ids)
        whole = expected(wanted.prompt_ids, min(wanted.max_tokens, room))
        got = rig.tokens(name)
        if name in rig.failures():
            assert got == whole[: len(got)]
        else:
            assert got == whole and rig.outs(name)[-1].finish == "length"


def test_at_full_load_the_kv_memory_holds_real_tokens() -> None:
    """Chats of about 340 tokens. Systems that reserve for the longest answer keep 20.4-38.2 % of
    their memory for real tokens (PagedAttention paper, figure 2)."""
    dice = random.Random(7)
    rig = Rig(
        blocks=64 * 24,
        limits=SchedulerLimits(max_running=64, queue_limit=1000, prefix_cache=False),
    )
    for name in range(300):
        start, length = dice.randrange(10**6), 1 + round(dice.expovariate(1 / 212))
        prompt = range(start, start + min(length, 2000))
        rig.submit(str(name), prompt, 1 + min(512, round(dice.expovariate(1 / 128))))
    shares = []
    while rig.loop.turn():
        if rig.scheduler.waiting and rig.scheduler.running > 32:
            live = [s for s in rig.scheduler.live() if s.table]
            tokens = sum(s.computed for s in live)
            shares.append(tokens / (sum(len(s.table) for s in live) * BLOCK_TOKENS))
    assert len(shares) > 100
    assert sum(shares) / len(shares) >= 0.96


def test_sixteen_streams_and_one_long_prompt_share_each_step() -> None:
    rig = Rig(blocks=400, limits=SchedulerLimits(token_budget=64, max_running=17))
    for name in range(16):
        rig.submit(str(name), [name], 60)
    rig.loop.turn()
    rig.submit("long", range(1000), 1)
    rig.drain()
    gaps = [
        b.step - a.step
        for name in range(16)
        for a, b in zip(rig.outs(str(name)), rig.outs(str(name))[1:], strict=False)
    ]
    assert set(gaps) == {1}
    assert rig.outs("long")[0].step == 1 + -(-1000 // 48)


def test_an_overfull_queue_refuses_and_harms_nobody() -> None:
    rig = Rig(limits=SchedulerLimits(max_running=2, queue_limit=3))
    refused = 0
    for name in range(20):
        try:
            rig.submit(str(name), [name, name + 1], 2)
        except QueueFull:
            refused += 1
    rig.drain()
    assert refused == 15
    assert all(rig.tokens(str(n)) == expected([n, n + 1], 2) for n in range(5))


def test_a_sequence_dropped_while_its_step_is_computed_is_passed_over() -> None:
    class Leaving(HashModel):
        rig: Rig

        def execute(self, plan: StepPlan) -> StepResult:
            result = super().execute(plan)
            if len(self.plans) == 2:
                self.rig.loop.cancel("a")
            return result

    model = Leaving(64)
    rig = Rig(runner=model)
    model.rig = rig
    rig.submit("a", [1, 2], 9)
    rig.submit("b", [3, 4], 9)
    rig.drain()
    assert len(rig.tokens("a")) == 1
    assert rig.tokens("b") == expected([3, 4], 9)
