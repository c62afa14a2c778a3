"""A model that is a hash: the next token is a function of the whole context, read from the pool.

It keeps token ids where a model keeps keys and values, in the blocks the plan names. What it reads
back is wrong as soon as the scheduler shares, frees or forgets a block wrongly.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from reference_server.engine.plan import (
    BLOCK_TOKENS,
    SampledToken,
    StepItem,
    StepPlan,
    StepResult,
)

VOCABULARY = 50


def next_token(context: Sequence[int]) -> int:
    """What the model says after `context`: 0..VOCABULARY-1."""
    return hashlib.sha256(array("I", context).tobytes()).digest()[0] % VOCABULARY


def expected(prompt: Sequence[int], tokens: int, stop_ids: Sequence[int] = ()) -> list[int]:
    """The answer, made without any engine."""
    context = list(prompt)
    while len(context) - len(prompt) < tokens:
        context.append(next_token(context))
        if context[-1] in stop_ids:
            break
    return context[len(prompt) :]


class HashModel:
    """A `ModelRunner`; each step takes `step_ns` of the clock it is given."""

    def __init__(self, block_count: int, step_ns: int = 1_000_000) -> None:
        self.block_count = block_count
        self.now_ns = 0
        self.plans: list[StepPlan] = []
        self._step_ns = step_ns
        self._slots = [[-1] * BLOCK_TOKENS for _ in range(block_count)]

    def now(self) -> int:
        """The clock: it stands still between two steps."""
        return self.now_ns

    def execute(self, plan: StepPlan) -> StepResult:
        """Write every item first, then sample, as a batched forward pass does layer by layer."""
        assert len({item.sequence_id for item in plan.items}) == len(plan.items)
        self.plans.append(plan)
        started_ns = self.now_ns
        self.now_ns += self._step_ns
        for item in plan.items:
            self._write(item)
        sampled = [
            SampledToken(item.sequence_id, next_token(self._read(item)))
            for item in plan.items
            if item.sample
        ]
        return StepResult(tuple(sampled), started_ns, self.now_ns)

    def _write(self, item: StepItem) -> None:
        assert item.token_ids, "an item without a token"
        for at, token in enumerate(item.token_ids, item.position):
            self._slots[item.block_table[at // BLOCK_TOKENS]][at % BLOCK_TOKENS] = token

    def _read(self, item: StepItem) -> list[int]:
        end = item.position + len(item.token_ids)
        context = [self._slots[b][s] for b in item.block_table for s in range(BLOCK_TOKENS)][:end]
        assert -1 not in context, "context that was never computed"
        return context
