"""What the scheduler asks of the model in one step, and what the model answers. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

BLOCK_TOKENS = 16
"""Tokens in one KV block. Simulated use of the memory with chats of about 340 tokens: 97.8 % with
blocks of 16 tokens, 72.3 % with blocks of 256."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen from the model's distribution. The defaults are greedy."""

    temperature: float = 0.0
    """0 takes the most likely token; the others then have no effect."""
    top_p: float = 1.0
    """Keep the smallest set of tokens whose probabilities reach this, 0 < top_p <= 1."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    seed: int = 0
    """Token number n of a request is drawn from (seed, n) alone, so it does not depend on what
    else runs. Whoever makes the request draws a seed when the client names none. 0..2**63-1."""
    top_logprobs: int | None = None
    """Report the log probability of the chosen token and of so many alternatives; None: of none."""


@dataclass(frozen=True, slots=True)
class StepItem:
    """The part of one sequence that is computed in a step: a piece of its prompt, or one token."""

    sequence_id: int
    token_ids: tuple[int, ...]
    """The tokens to compute now, at least one."""
    position: int
    """Where the first of them stands in the sequence. The KV of all before it is in the blocks."""
    block_table: tuple[int, ...]
    """The blocks of the sequence in order; they hold at least position + len(token_ids) tokens."""
    sample: bool
    """Whether these are the last tokens known, so that the next one is to be chosen."""
    params: SamplingParams | None = None
    """How to choose it; None when `sample` is false."""


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step: at most one item a sequence, at least one item."""

    items: tuple[StepItem, ...]


@dataclass(frozen=True, slots=True)
class SampledToken:
    """The token that was chosen for a sequence."""

    sequence_id: int
    token_id: int
    logprob: float | None = None
    """Natural logarithm of its probability at temperature 1; None when not asked for."""
    top_logprobs: tuple[tuple[int, float], ...] = ()
    """The most likely tokens and their log probabilities, the most likely first."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step gave."""

    sampled: tuple[SampledToken, ...]
    """One for each item with `sample`, in the plan's order."""
    started_ns: int
    """When the step's computing began, server clock."""
    ended_ns: int
    """When its tokens were known."""


class ModelRunner(Protocol):
    """What the engine loop needs of the model. Blocking: it runs where nothing else waits."""

    @property
    def block_count(self) -> int:
        """Blocks in the KV pool; tables hold numbers from 0 to this less 1."""

    def execute(self, plan: StepPlan) -> StepResult:
        """Compute the step: write the KV of every item, choose a token for those that sample."""
