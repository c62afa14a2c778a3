"""One request between the engine, which makes tokens, and the API, which sends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from reference_server.engine.plan import SamplingParams

FinishReason = Literal["stop", "length"]
FailureCode = Literal["queue_timeout", "slow_reader", "engine_stopped", "cancelled", "engine_error"]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """What an engine needs to know. The prompt is token ids; its text is not part of it."""

    request_id: str
    prompt_tokens: int
    max_tokens: int
    """The most tokens to generate, at least 1."""
    prompt_ids: tuple[int, ...] = ()
    """The prompt's tokens; empty for the paced engine, which only counts them."""
    params: SamplingParams = field(default_factory=SamplingParams)
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    stop_ids: tuple[int, ...] = ()
    """Tokens that end the answer (end of turn, end of text); they have no text."""
    cache_salt: str = ""
    """Requests share cached prefixes only with requests of the same salt."""
    priority: int = 0
    """Lower runs first; equal ones in the order in which they came."""
    deadline_ns: int | None = None
    """Fail with "queue_timeout" when not scheduled by then, server clock; None waits on."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token and how likely the model found it."""

    token: bytes
    logprob: float
    """Natural logarithm of the probability at temperature 1."""
    top: tuple[tuple[bytes, float], ...] = ()
    """The most likely tokens in its place, the most likely first."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one engine step gave to one request."""

    text: str
    """Empty while the token's text is held back: half a character, or the start of a stop text."""
    tokens: int
    """Tokens in `text`, at least 1."""
    step: int
    """The engine's step counter, rising over all requests."""
    batch: int
    """Requests that held a slot during the step, this one included."""
    sampled_ns: int
    logprobs: tuple[TokenLogprob, ...] = ()
    """One for each token, when asked for."""


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """The part of one request's prompt that was computed in one engine step."""

    step: int
    batch: int
    """Requests in the step, this one included."""
    position: int
    """Where the first token of the part stands in the prompt."""
    tokens: int
    started_ns: int
    ended_ns: int


@dataclass(slots=True)
class Stages:
    """When the engine's stages began and ended, ns of the server's clock; None: not reached.

    Queue is admitted to scheduled, prefill scheduled to first token, decode first to last token.
    """

    admitted_ns: int
    scheduled_ns: int | None = None
    first_token_ns: int | None = None
    last_token_ns: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    prefill_chunks: list[PrefillChunk] = field(default_factory=list)
    """In the order in which they were computed; for the request's timeline."""

    @property
    def queue_ns(self) -> int | None:
        """Admitted to first scheduled."""
        return None if self.scheduled_ns is None else self.scheduled_ns - self.admitted_ns

    @property
    def prefill_ns(self) -> int | None:
        """First scheduled to first sampled token."""
        if self.scheduled_ns is None or self.first_token_ns is None:
            return None
        return self.first_token_ns - self.scheduled_ns

    @property
    def decode_ns(self) -> int | None:
        """First to last sampled token; 0 when there was one token only."""
        if self.first_token_ns is None or self.last_token_ns is None:
            return None
        return self.last_token_ns - self.first_token_ns


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The KV pool of an engine that has one; counters since its start."""

    blocks_used: int
    """Blocks that running requests hold."""
    blocks_total: int
    preemptions: int
    prefix_queries: int
    """Prompt tokens looked up in the prefix cache."""
    prefix_hits: int
    """Of these, found."""


class EngineStartError(Exception):
    """The engine did not become ready; the text says why, for a person."""


class EngineUnavailable(Exception):
    """The engine cannot take requests now, its process is being started again."""


class GenerationFailed(Exception):
    """The engine gave up on a request; `code` says why."""

    def __init__(self, code: FailureCode) -> None:
        super().__init__(code)
        self.code = code


class Generation:
    """A bounded hand-over of steps; the engine puts, one reader takes."""

    def __init__(
        self,
        request: GenerationRequest,
        stages: Stages,
        backlog_steps: int,
        on_cancel: Callable[[], None],
    ) -> None:
        self.request = request
        self.stages = stages
        self.finish_reason: FinishReason | None = None
        self.stop_text: str | None = None
        """The stop text that ended the answer; None when it ended otherwise."""
        self._steps: deque[Step] = deque()
        self._backlog_steps = backlog_steps
        self._on_cancel = on_cancel
        self._failure: FailureCode | None = None
        self._wake = asyncio.Event()

    @property
    def failure(self) -> FailureCode | None:
        """Why it was given up; None when it runs or ended well."""
        return self._failure

    @property
    def ended(self) -> bool:
        """The engine will put no further step."""
        return self.finish_reason is not None or self._failure is not None

    def put(self, step: Step) -> bool:
        """Hand over a step and note its time; False when the reader is too far behind."""
        if len(self._steps) >= self._backlog_steps:
            return False
        if self.stages.first_token_ns is None:
            self.stages.first_token_ns = step.sampled_ns
        self.stages.last_token_ns = step.sampled_ns
        self.stages.output_tokens += step.tokens
        self._steps.append(step)
        self._wake.set()
        return True

    def finish(self, reason: FinishReason, stop_text: str | None = None) -> None:
        """No more steps; all went well. `stop_text` is the one that ended the answer."""
        self.finish_reason = reason
        self.stop_text = stop_text
        self._wake.set()

    def fail(self, code: FailureCode) -> None:
        """No more steps; the reader gets GenerationFailed after those already handed over."""
        if not self.ended:
            self._failure = code
        self._wake.set()

    def cancel(self) -> None:
        """The reader has gone: free the slot now. Harmless after the end."""
        if not self.ended:
            self._on_cancel()

    async def next_step(self) -> Step | None:
        """The next step; None at the end. Raises GenerationFailed. May be cancelled safely."""
        while not self._steps:
            if self._failure is not None:
                raise GenerationFailed(self._failure)
            if self.finish_reason is not None:
                return None
            self._wake.clear()
            await self._wake.wait()
        return self._steps.popleft()


class Engine(Protocol):
    """What the API needs from an engine, paced or real."""

    @property
    def running(self) -> int:
        """Requests that hold a slot."""

    @property
    def waiting(self) -> int:
        """Requests in the queue."""

    @property
    def available(self) -> bool:
        """Whether it can take a request now; False while its process is being started."""

    @property
    def gives_logprobs(self) -> bool:
        """Whether it has probabilities to report."""

    @property
    def cache(self) -> CacheStats | None:
        """The KV pool now; None for an engine without one."""

    async def start(self) -> str:
        """Get ready, before the first request; says what computes, for a person."""

    def submit(self, request: GenerationRequest, admitted_ns: int) -> Generation:
        """Queue a request; raises `slots.QueueFull` at once instead of waiting without bound, and
        EngineUnavailable."""

    async def close(self) -> None:
        """Stop every request; each reader gets GenerationFailed("engine_stopped")."""
