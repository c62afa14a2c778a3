"""Iteration-level scheduling: what each step computes, within one budget of tokens.

A step is decided anew each time (Orca, OSDI 2022): running sequences that wait for their next
token come first, one token each; then prompts go on in chunks; then new sequences are admitted. As
in vLLM's first engine version there is no prefill or decode phase: a step may hold both, and a
prompt is chunked because the budget ends. A sequence without room for its next token takes the
blocks of the one that came last, which is computed again later (recompute, no swap).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from reference_server.engine.blocks import BlockPool
from reference_server.engine.generation import FinishReason, GenerationRequest
from reference_server.engine.plan import (
    BLOCK_TOKENS,
    SampledToken,
    StepItem,
    StepPlan,
    StepResult,
)
from reference_server.engine.sequence import Sequence, State
from reference_server.engine.waiting import WaitingQueue


class PromptTooLarge(Exception):
    """The prompt leaves no room for one token of an answer; nothing was queued."""


@dataclass(frozen=True, slots=True)
class SchedulerLimits:
    """What the scheduler keeps to."""

    token_budget: int = 256
    """Tokens computed in one step. With 256, a 1,024-token prompt that joins 4 streams on 2 CPU
    cores held them up for 333 ms at most, unchunked 1,041 ms (measured)."""
    max_running: int = 16
    """Sequences in the batch; at most `token_budget`, so that each can decode in each step."""
    queue_limit: int = 64
    """Sequences that may wait for a place in the batch."""
    context_tokens: int = 8192
    """Longest prompt and answer together."""
    prefix_cache: bool = True
    """Whether a new sequence may use blocks that another has computed."""
    kv_cache: bool = True
    """False computes every token of a sequence again in each step, to show what the cache saves."""
    batching: Literal["continuous", "static"] = "continuous"
    """Static: a batch is filled once, decodes when all its prompts are computed, and computes the
    rows of ended sequences on (padding) until the longest has ended. Prompts are not padded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step's token for a sequence; the sequence's `finish_reason` says whether it has ended."""

    sequence: Sequence
    token: SampledToken


class Scheduler:
    """Pure policy: no clock, no model. `step`, compute, `on_step_done`, and again."""

    def __init__(self, limits: SchedulerLimits, pool: BlockPool) -> None:
        """Raises ValueError when the batch would not fit into the budget."""
        if not 1 <= limits.max_running <= limits.token_budget:
            raise ValueError("max_running must be from 1 to token_budget")
        self.limits = limits
        self.pool = pool
        self.preemptions = 0
        """Times that a sequence lost its blocks."""
        self.prefix_queries = 0
        """Prompt tokens looked up in the prefix cache."""
        self.prefix_hits = 0
        """Prompt tokens found there."""
        self._submitted = 0
        self._sequences: dict[int, Sequence] = {}
        self._waiting = WaitingQueue(limits.queue_limit)
        self._running: list[Sequence] = []
        """In order of priority, then arrival."""
        self._padding: list[Sequence] = []
        """Ended rows of a static batch, still computed."""
        self._planned: dict[Sequence, int] = {}
        self._budget = 0
        self._started: list[Sequence] = []

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue, preempted ones included."""
        return len(self._waiting)

    @property
    def started(self) -> list[Sequence]:
        """Those that the latest step has scheduled for the first time."""
        return self._started

    def live(self) -> Iterator[Sequence]:
        """Every sequence that has not ended."""
        yield from self._sequences.values()

    def submit(self, request: GenerationRequest) -> Sequence:
        """Queue a request; raises QueueFull, PromptTooLarge, or ValueError without a prompt."""
        prompt = len(request.prompt_ids)
        if not prompt:
            raise ValueError("a sequence needs at least one token")
        room = min(self.limits.context_tokens, self.pool.count * BLOCK_TOKENS) - prompt
        if room < 1:
            raise PromptTooLarge
        sequence = Sequence(
            self._submitted, request, BLOCK_TOKENS, max(1, min(request.max_tokens, room))
        )
        places = self.limits.max_running - len(self._running)
        self._waiting.add(sequence, places if self._open else 0)
        self._submitted += 1
        self._sequences[sequence.number] = sequence
        return sequence

    def expire(self, now_ns: int) -> list[Sequence]:
        """End those whose deadline has passed before they were scheduled; returns them."""
        late = self._waiting.expired(now_ns)
        for sequence in late:
            self.drop(sequence)
        return late

    def step(self, now_ns: int) -> StepPlan | None:
        """What to compute now; None when nothing can run."""
        self._budget = self.limits.token_budget
        self._planned = {}
        self._started = []
        preemptions = self.preemptions
        for sequence in self._turns():
            if sequence.state is State.RUNNING:
                self._plan(sequence)
        # What was just taken from a running sequence is not for a new one.
        if preemptions == self.preemptions and self._open:
            self._admit(now_ns)
        items = [self._item(sequence, count) for sequence, count in self._planned.items()]
        items += [self._padding_item(sequence) for sequence in self._padding]
        return StepPlan(tuple(items)) if self._planned else None

    def on_step_done(self, plan: StepPlan, result: StepResult) -> list[Outcome]:
        """Take in what a step gave: tokens, and blocks that others may now share.

        A sequence that was dropped while the step was computed is passed over.
        """
        sampled = {token.sequence_id: token for token in result.sampled}
        outcomes = []
        for item in plan.items:
            sequence = self._sequences.get(item.sequence_id)
            if sequence is None or sequence.state is not State.RUNNING:
                continue
            sequence.computed = item.position + len(item.token_ids)
            self._publish(sequence, item.position)
            if item.sample:
                token = sampled[item.sequence_id]
                self._take(sequence, token.token_id)
                outcomes.append(Outcome(sequence, token))
        return outcomes

    def finish(self, sequence: Sequence, reason: FinishReason) -> None:
        """The sequence's answer is complete."""
        sequence.finish_reason = reason
        self._end(sequence, pad=self.limits.batching == "static")

    def drop(self, sequence: Sequence) -> None:
        """End a sequence early, wherever it is; its place and its blocks are free at once."""
        if sequence.state is not State.ENDED:
            self._end(sequence, pad=False)

    @property
    def _open(self) -> bool:
        """Whether new sequences may join the batch; a static one is closed while it runs."""
        return self.limits.batching == "continuous" or not (self._running or self._padding)

    def _turns(self) -> list[Sequence]:
        """The running sequences: those that decode, then those with more to compute."""
        decoding = [sequence for sequence in self._running if sequence.pending == 1]
        filling = [sequence for sequence in self._running if sequence.pending > 1]
        if self.limits.batching == "static" and filling:
            decoding = [sequence for sequence in decoding if not sequence.output_count]
        return decoding + filling

    def _plan(self, sequence: Sequence) -> None:
        """Give the sequence a part of the step, if it gets its blocks and budget is left."""
        count = min(sequence.pending, self._budget)
        if not count:
            return
        missing = sequence.blocks_for(sequence.computed + count) - len(sequence.table)
        if missing > 0:
            if not self._make_room(sequence, missing):
                return
            sequence.table += self.pool.allocate(missing)
        self._planned[sequence] = count
        self._budget -= count

    def _make_room(self, sequence: Sequence, blocks: int) -> bool:
        """Free blocks, from the last in order; False when the sequence itself had to yield."""
        while self.pool.free < blocks:
            if self._padding:
                self._release(self._padding.pop())
                continue
            victim = self._running[-1]
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self._budget += self._planned.pop(sequence, 0)
        self._running.remove(sequence)
        self._release(sequence)
        sequence.state = State.WAITING
        sequence.preemptions += 1
        self.preemptions += 1
        self._waiting.put_back(sequence)

    def _admit(self, now_ns: int) -> None:
        """Let the first of the queue in while there is room; nobody overtakes the first."""
        static = self.limits.batching == "static"
        while len(self._waiting) and len(self._running) < self.limits.max_running:
            sequence = self._waiting.first
            hits = self._hits(sequence)
            missing = sequence.blocks_for(len(sequence.tokens)) - len(hits)
            if self._room() - self.pool.free_among(hits) < missing:
                return
            if not self._budget and not static:
                return
            self._enter(sequence, hits, now_ns)
            self._plan(sequence)

    def _room(self) -> int:
        """Free blocks that nobody in the batch has a claim on: prompts in the middle of their
        chunks will need theirs, and vLLM's watermark, 1 % of the pool, stays for the decoding."""
        if not self._running:
            return self.pool.free
        claims = sum(sequence.owed for sequence in self._running)
        return self.pool.free - claims - self.pool.count // 100

    def _enter(self, sequence: Sequence, hits: list[int], now_ns: int) -> None:
        self._waiting.remove(sequence)
        self.pool.share(hits)
        sequence.table = hits
        sequence.computed = len(hits) * BLOCK_TOKENS
        sequence.state = State.RUNNING
        insort(self._running, sequence, key=lambda each: each.order)
        if sequence.scheduled_ns is None:
            sequence.scheduled_ns = now_ns
            sequence.cached = sequence.computed
            self.prefix_queries += sequence.prompt_count
            self.prefix_hits += sequence.cached
            self._started.append(sequence)

    def _hits(self, sequence: Sequence) -> list[int]:
        """Cached blocks it may use: whole blocks, and never the last token, which has to be
        computed for the next to be sampled."""
        if not (self.limits.prefix_cache and self.limits.kv_cache):
            return []
        blocks = (len(sequence.tokens) - 1) // BLOCK_TOKENS
        return self.pool.match(sequence.hashes(blocks))

    def _item(self, sequence: Sequence, count: int) -> StepItem:
        end = sequence.computed + count
        last = end == len(sequence.tokens)
        return StepItem(
            sequence_id=sequence.number,
            token_ids=tuple(sequence.tokens[sequence.computed : end]),
            position=sequence.computed,
            block_table=tuple(sequence.table),
            sample=last,
            params=sequence.request.params if last else None,
        )

    def _padding_item(self, sequence: Sequence) -> StepItem:
        """The last computed token of an ended row once more: it costs a row and changes nothing."""
        at = sequence.computed - 1
        return StepItem(
            sequence.number, (sequence.tokens[at],), at, tuple(sequence.table), sample=False
        )

    def _publish(self, sequence: Sequence, position: int) -> None:
        """Let others find the blocks that have become full and computed."""
        if not (self.limits.prefix_cache and self.limits.kv_cache):
            return
        full = sequence.computed // BLOCK_TOKENS
        first = position // BLOCK_TOKENS
        if full > first:
            hashes = sequence.hashes(full)
            for at in range(first, full):
                self.pool.publish(sequence.table[at], hashes[at])

    def _take(self, sequence: Sequence, token_id: int) -> None:
        sequence.tokens.append(token_id)
        if not self.limits.kv_cache:
            sequence.computed = 0
        if token_id in sequence.request.stop_ids:
            self.finish(sequence, "stop")
        elif sequence.output_count >= sequence.limit:
            self.finish(sequence, "length")

    def _end(self, sequence: Sequence, pad: bool) -> None:
        if sequence.state is State.WAITING:
            self._waiting.remove(sequence)
        elif sequence.state is State.RUNNING:
            self._running.remove(sequence)
        sequence.state = State.ENDED
        del self._sequences[sequence.number]
        if pad and sequence.computed:
            self._padding.append(sequence)
        else:
            self._release(sequence)
        if not self._running:
            while self._padding:
                self._release(self._padding.pop())

    def _release(self, sequence: Sequence) -> None:
        """Give its blocks back; it would have to be computed from the start."""
        self.pool.release(sequence.table)
        sequence.table = []
        sequence.computed = 0
