"""The engine's loop: schedule, compute, tell. It runs in the worker process beside the model.

It does not wait and holds no socket: whoever owns it hands in requests between two turns and takes
the events. `turn` blocks for as long as the model computes one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from reference_server.clock import Now
from reference_server.engine.generation import FailureCode, FinishReason, GenerationRequest
from reference_server.engine.plan import ModelRunner, StepPlan, StepResult
from reference_server.engine.scheduler import Outcome, Scheduler
from reference_server.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Started:
    """A request got its place in the batch."""

    request_id: str
    scheduled_ns: int
    cached_tokens: int
    """Prompt tokens that need not be computed."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A step's work for a request: a chunk of its prompt, or the token before the next."""

    request_id: str
    step: int
    batch: int
    """Rows of the step: requests and, with static batching, ended ones as padding."""
    position: int
    tokens: int
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class TokenOut:
    """A token of a request."""

    request_id: str
    step: int
    batch: int
    token_id: int
    text: str
    """Empty for a token whose text is held back; the last one brings all that was held back."""
    sampled_ns: int
    logprob: float | None
    top_logprobs: tuple[tuple[int, float], ...]
    finish: FinishReason | None
    """Set on the request's last token."""
    stop_text: str | None = None
    """The stop text that has ended the answer."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A request has ended without an answer."""

    request_id: str
    code: FailureCode


Event = Started | Computed | TokenOut | Failed


class AnswerText(Protocol):
    """The text of one answer as its tokens come."""

    @property
    def stop_text(self) -> str | None:
        """The stop text that has come; what follows is not part of the answer."""

    def push(self, token_id: int) -> str:
        """The text that is certain now."""

    def end(self) -> str:
        """What was held back, when no token follows."""


@dataclass(slots=True)
class _Request:
    sequence: Sequence
    text: AnswerText


class EngineLoop:
    """Requests by their id; every change is an event."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: ModelRunner,
        new_text: Callable[[GenerationRequest], AnswerText],
        now: Now,
        emit: Callable[[Event], None],
    ) -> None:
        self.scheduler = scheduler
        self.steps = 0
        """Steps computed since the start."""
        self._runner = runner
        self._new_text = new_text
        self._now = now
        self._emit = emit
        self._requests: dict[str, _Request] = {}
        self._names: dict[int, str] = {}

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._requests

    def submit(self, request: GenerationRequest) -> None:
        """Queue a request; raises QueueFull or PromptTooLarge."""
        sequence = self.scheduler.submit(request)
        self._requests[request.request_id] = _Request(sequence, self._new_text(request))
        self._names[sequence.number] = request.request_id

    def cancel(self, request_id: str, code: FailureCode = "cancelled") -> None:
        """Its place and blocks are free for the next turn; an unknown or ended one is no error."""
        request = self._requests.get(request_id)
        if request is not None:
            self.scheduler.drop(request.sequence)
            self._forget(request.sequence)
            self._emit(Failed(request_id, code))

    def fail_all(self, code: FailureCode) -> None:
        """End every request."""
        for request_id in list(self._requests):
            self.cancel(request_id, code)

    def turn(self) -> bool:
        """One step; False when there was nothing to compute.

        What the model raises goes on to the caller, after every request has failed: no request
        may go on from a step that is half done.
        """
        now_ns = self._now()
        for sequence in self.scheduler.expire(now_ns):
            name = sequence.request.request_id
            self._forget(sequence)
            self._emit(Failed(name, "queue_timeout"))
        plan = self.scheduler.step(now_ns)
        if plan is None:
            return False
        self._tell_started()
        try:
            result = self._runner.execute(plan)
        except Exception:
            self.fail_all("engine_error")
            raise
        self.steps += 1
        self._tell_computed(plan, result)
        for outcome in self.scheduler.on_step_done(plan, result):
            self._tell_token(outcome, len(plan.items), result.ended_ns)
        return True

    def _tell_started(self) -> None:
        for sequence in self.scheduler.started:
            if sequence.scheduled_ns is not None:
                name = sequence.request.request_id
                self._emit(Started(name, sequence.scheduled_ns, sequence.cached))

    def _tell_computed(self, plan: StepPlan, result: StepResult) -> None:
        for item in plan.items:
            name = self._names.get(item.sequence_id)
            if name is not None:
                event = Computed(
                    name,
                    self.steps,
                    len(plan.items),
                    item.position,
                    len(item.token_ids),
                    result.started_ns,
                    result.ended_ns,
                )
                self._emit(event)

    def _tell_token(self, outcome: Outcome, batch: int, sampled_ns: int) -> None:
        sequence, token = outcome.sequence, outcome.token
        name = sequence.request.request_id
        if (request := self._requests.get(name)) is None:  # Cancelled by who took an event.
            return
        text = request.text
        ended_by_id = token.token_id in sequence.request.stop_ids
        piece = "" if ended_by_id else text.push(token.token_id)
        if text.stop_text is not None:
            if sequence.finish_reason is None:
                self.scheduler.finish(sequence, "stop")
            sequence.finish_reason = "stop"
        elif sequence.finish_reason is not None:
            piece += text.end()
        event = TokenOut(
            request_id=name,
            step=self.steps,
            batch=batch,
            token_id=token.token_id,
            text=piece,
            sampled_ns=sampled_ns,
            logprob=token.logprob,
            top_logprobs=token.top_logprobs,
            finish=sequence.finish_reason,
            stop_text=text.stop_text,
        )
        if sequence.finish_reason is not None:
            self._forget(sequence)
        self._emit(event)

    def _forget(self, sequence: Sequence) -> None:
        self._requests.pop(sequence.request.request_id, None)
        self._names.pop(sequence.number, None)
