"""An engine loop over the hash model, and requests for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reference_server.engine.blocks import BlockPool
from reference_server.engine.generation import GenerationRequest
from reference_server.engine.loop import EngineLoop, Event, Failed, TokenOut
from reference_server.engine.plan import ModelRunner
from reference_server.engine.scheduler import Scheduler, SchedulerLimits
from tests.reference_server.engine.fake_model import HashModel


class Words:
    """An `AnswerText` that writes a token as its number; `stop` ends it."""

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self._stop = stop
        self.stop_text: str | None = None

    def push(self, token_id: int) -> str:
        if str(token_id) in self._stop:
            self.stop_text = str(token_id)
            return ""
        return f"{token_id} "

    def end(self) -> str:
        return "."


def request(name: str, prompt: Sequence[int], max_tokens: int, **more: Any) -> GenerationRequest:
    """A request for `max_tokens` after `prompt`."""
    return GenerationRequest(name, len(prompt), max_tokens, tuple(prompt), **more)


@dataclass
class Rig:
    """The loop, its parts and what it has said."""

    blocks: int = 64
    limits: SchedulerLimits = field(default_factory=SchedulerLimits)
    runner: ModelRunner | None = None
    events: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = HashModel(self.blocks)
        self.pool = BlockPool(self.blocks)
        self.scheduler = Scheduler(self.limits, self.pool)
        self.loop = EngineLoop(
            self.scheduler,
            self.runner or self.model,
            lambda asked: Words(asked.stop),
            self.model.now,
            self.events.append,
        )

    def submit(self, name: str, prompt: Sequence[int], max_tokens: int = 4, **more: Any) -> None:
        """Queue a request."""
        self.loop.submit(request(name, prompt, max_tokens, **more))

    def drain(self, most: int = 10_000) -> int:
        """Turn until nothing is left; how many turns it took."""
        for turns in range(most):
            if not self.loop.turn():
                assert self.loop.idle
                return turns
        raise AssertionError("the loop does not come to an end")

    def tokens(self, name: str) -> list[int]:
        """The tokens of a request, so far."""
        return [e.token_id for e in self.outs(name)]

    def outs(self, name: str) -> list[TokenOut]:
        """The token events of a request."""
        return [e for e in self.events if isinstance(e, TokenOut) and e.request_id == name]

    def failures(self) -> dict[str, str]:
        """Request to the code of its failure."""
        return {e.request_id: e.code for e in self.events if isinstance(e, Failed)}
