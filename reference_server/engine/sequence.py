"""One request inside the scheduler: its tokens, its blocks and how far it has been computed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from reference_server.engine.blocks import chain, root
from reference_server.engine.generation import FinishReason, GenerationRequest


class State(Enum):
    """Where a sequence is."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(slots=True, eq=False)
class Sequence:
    """A request on its way. Only the scheduler changes it."""

    number: int
    """Its id in step plans; rises with arrival."""
    request: GenerationRequest
    block_tokens: int
    limit: int
    """Most tokens to generate: the request's, or what KV pool and context leave room for."""
    tokens: list[int] = field(init=False)
    """Prompt and answer so far."""
    computed: int = 0
    """So many of `tokens` have their keys and values in the blocks."""
    table: list[int] = field(default_factory=list)
    """Its KV blocks in order."""
    cached: int = 0
    """Prompt tokens found in the prefix cache when it was first scheduled."""
    preemptions: int = 0
    """How often its blocks were taken away."""
    state: State = State.WAITING
    scheduled_ns: int | None = None
    """When it was first given a place in a step."""
    finish_reason: FinishReason | None = None
    _hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt_ids)

    @property
    def prompt_count(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.prompt_ids)

    @property
    def output_count(self) -> int:
        """Tokens generated."""
        return len(self.tokens) - self.prompt_count

    @property
    def pending(self) -> int:
        """Tokens that are known and not computed."""
        return len(self.tokens) - self.computed

    @property
    def order(self) -> tuple[int, int]:
        """Who goes first: priority, then arrival. A preempted sequence keeps its place."""
        return self.request.priority, self.number

    def blocks_for(self, tokens: int) -> int:
        """How many blocks so many tokens take."""
        return -(-tokens // self.block_tokens)

    @property
    def owed(self) -> int:
        """Blocks that its known tokens still need."""
        return self.blocks_for(len(self.tokens)) - len(self.table)

    def hashes(self, blocks: int) -> list[bytes]:
        """The chained hashes of the first `blocks` blocks; they must be full of known tokens."""
        size = self.block_tokens
        while len(self._hashes) < blocks:
            at = len(self._hashes)
            parent = self._hashes[-1] if at else root(self.request.cache_salt)
            self._hashes.append(chain(parent, self.tokens[at * size : (at + 1) * size]))
        return self._hashes[:blocks]
