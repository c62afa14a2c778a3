"""The model runner: computes a step's plan and chooses the next tokens."""

from __future__ import annotations

import torch

from reference_server.clock import Now
from reference_server.compute.attention import Attention, GatherAttention
from reference_server.compute.exact_attention import ExactAttention
from reference_server.compute.kv import KvPool
from reference_server.compute.model import Llama
from reference_server.compute.sampler import sample
from reference_server.compute.threads import NARROW_ROWS, Threads
from reference_server.engine.plan import (
    BLOCK_TOKENS,
    ModelRunner,
    SamplingParams,
    StepItem,
    StepPlan,
    StepResult,
)


class TorchRunner:
    """An `engine.plan.ModelRunner` on torch."""

    def __init__(
        self,
        model: Llama,
        pool: KvPool,
        attention: Attention,
        now: Now,
        threads: Threads | None = None,
    ) -> None:
        """`threads` None leaves torch's number of threads alone."""
        self._model = model
        self._pool = pool
        self._attention = attention
        self._now = now
        self._threads = threads

    @property
    def block_count(self) -> int:
        """Blocks in the KV pool."""
        return self._pool.blocks

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute the step. Items of one token go first, so that they are attended in one call."""
        started_ns = self._now()
        items = sorted(plan.items, key=lambda item: len(item.token_ids) > 1)
        with torch.inference_mode():
            tokens = torch.tensor([token for item in items for token in item.token_ids])
            positions = torch.tensor([place for item in items for place in _places(item)])
            self._attention.begin(tuple(items))
            self._use_threads(narrow=len(tokens) <= NARROW_ROWS)
            stream = self._model.forward(tokens, positions, self._attention)
            chosen, rows = _last_rows(items)
            if not chosen:
                return StepResult((), started_ns, self._now())
            self._use_threads(narrow=False)
            logits = self._model.logits(stream[torch.tensor(rows)])
            sampled = {token.sequence_id: token for token in sample(logits, chosen)}
        in_order = tuple(sampled[item.sequence_id] for item in plan.items if item.sample)
        return StepResult(in_order, started_ns, self._now())

    def _use_threads(self, narrow: bool) -> None:
        if self._threads is not None and self._threads.narrow != self._threads.wide:
            torch.set_num_threads(self._threads.narrow if narrow else self._threads.wide)


def make_runner(
    model: Llama, blocks: int, now: Now, exact: bool, threads: Threads | None = None
) -> TorchRunner:
    """A runner with a pool of `blocks` blocks. Raises MemoryError."""
    pool = KvPool(model.config, blocks, model.dtype)
    attention = ExactAttention(pool) if exact else GatherAttention(pool)
    return TorchRunner(model, pool, attention, now, threads)


def warm_up(runner: ModelRunner) -> None:
    """Compute for each kind of kernel once: the first use builds it, which no request should pay.

    Writes into block 0, before anybody has blocks.
    """
    for count in (BLOCK_TOKENS, 1):
        item = StepItem(0, (0,) * count, 0, (0,), True, SamplingParams())
        runner.execute(StepPlan((item,)))


def _places(item: StepItem) -> range:
    return range(item.position, item.position + len(item.token_ids))


def _last_rows(items: list[StepItem]) -> tuple[list[StepItem], list[int]]:
    """The items that sample, and the row of the last token of each."""
    chosen: list[StepItem] = []
    rows: list[int] = []
    row = -1
    for item in items:
        row += len(item.token_ids)
        if item.sample:
            chosen.append(item)
            rows.append(row)
    return chosen, rows
