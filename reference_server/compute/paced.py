"""The paced engine: no model, only time. It says a fixed text with a given TTFT and cadence.

Every request goes at its own pace, whatever else runs: a step of one request never delays that of
another. What is real is the queue: a request without a slot waits until one is free.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice

from reference_server.clock import Now, monotonic_ns, sleep_until
from reference_server.engine.generation import (
    FailureCode,
    FinishReason,
    Generation,
    GenerationRequest,
    PrefillChunk,
    Stages,
    Step,
)
from reference_server.engine.slots import SlotScheduler
from reference_server.settings import EngineSettings, PaceSettings
from reference_server.text.pieces import split_pieces
from reference_server.text.stops import StopTexts

_CATCH_UP_NS = 20_000_000
"""Steps that come later than this move the schedule; smaller lateness is caught up, so that timers
which round up to 1 ms (see `clock.sleep_until`) do not lower the rate. A choice, not a measurement.
"""


class _SlowReader(Exception):
    """The client reads more slowly than its request generates, and the backlog is full."""


@dataclass(slots=True)
class _Job:
    """A request inside the engine."""

    generation: Generation
    number: int
    task: asyncio.Task[None] | None = None
    timeout: asyncio.TimerHandle | None = field(default=None, repr=False)


class PacedEngine:
    """An `engine.generation.Engine` that spends the time it is told to."""

    def __init__(self, pace: PaceSettings, limits: EngineSettings, now: Now = monotonic_ns) -> None:
        """Raises ValueError when the text holds no token or a number is out of its range."""
        self._pieces = split_pieces(pace.text)
        if not self._pieces or pace.tokens_per_step < 1 or not 0 <= pace.jitter <= 1:
            raise ValueError("the paced engine needs a text, tokens_per_step >= 1, jitter in 0..1")
        self._pace = pace
        self._limits = limits
        self._now = now
        self._slots = SlotScheduler(limits.slots, limits.queue_limit)
        self._jobs: dict[str, _Job] = {}
        self._steps = 0
        self._submitted = 0

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._slots.running

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return self._slots.waiting

    @property
    def available(self) -> bool:
        """Always."""
        return True

    @property
    def gives_logprobs(self) -> bool:
        """False: no model, no probabilities."""
        return False

    @property
    def cache(self) -> None:
        """No model, no KV pool."""
        return None

    async def start(self) -> str:
        """There is nothing to get ready."""
        return "paced: it says a fixed text in the time it is told"

    def submit(self, request: GenerationRequest, admitted_ns: int) -> Generation:
        """Queue a request; raises QueueFull. Needs a running event loop."""
        self._slots.submit(request.request_id)
        generation = Generation(
            request,
            Stages(admitted_ns, prompt_tokens=request.prompt_tokens),
            self._limits.backlog_steps,
            on_cancel=lambda: self._give_up(request.request_id, "cancelled"),
        )
        job = _Job(generation, self._submitted)
        self._submitted += 1
        self._jobs[request.request_id] = job
        job.timeout = asyncio.get_running_loop().call_later(
            self._limits.queue_timeout_ms / 1e3,
            self._give_up,
            request.request_id,
            "queue_timeout",
        )
        self._start_ready()
        return generation

    async def close(self) -> None:
        """Stop every request; their readers get GenerationFailed("engine_stopped")."""
        tasks = [job.task for job in self._jobs.values() if job.task is not None]
        for request_id in list(self._jobs):
            self._give_up(request_id, "engine_stopped", start_next=False)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start_ready(self) -> None:
        for request_id in self._slots.start_ready():
            job = self._jobs[request_id]
            if job.timeout is not None:
                job.timeout.cancel()
            job.generation.stages.scheduled_ns = self._now()
            job.task = asyncio.get_running_loop().create_task(self._run(request_id, job))

    def _give_up(self, request_id: str, code: FailureCode, start_next: bool = True) -> None:
        """End a request early, wherever it is; its slot is free when this returns."""
        job = self._jobs.pop(request_id, None)
        if job is None:
            return
        if job.timeout is not None:
            job.timeout.cancel()
        job.generation.fail(code)
        self._slots.release(request_id)
        if job.task is not None:
            job.task.cancel()
        if start_next:
            self._start_ready()

    async def _run(self, request_id: str, job: _Job) -> None:
        try:
            reason, stop_text = await self._generate(job)
        except _SlowReader:
            self._give_up(request_id, "slow_reader")
            return
        except Exception:
            self._give_up(request_id, "engine_error")
            raise
        self._jobs.pop(request_id, None)
        job.generation.finish(reason, stop_text)
        self._slots.release(request_id)
        self._start_ready()

    async def _generate(self, job: _Job) -> tuple[FinishReason, str | None]:
        request, stages = job.generation.request, job.generation.stages
        waits = self._waits_ns(request.prompt_tokens, job.number)
        due_ns = stages.scheduled_ns if stages.scheduled_ns is not None else self._now()
        pieces = cycle(self._pieces)
        answer = self._pace.answer_tokens
        total = request.max_tokens if answer is None else min(answer, request.max_tokens)
        stops = StopTexts(request.stop)
        while (left := total - stages.output_tokens) > 0:
            due_ns = max(due_ns + next(waits), self._now() - _CATCH_UP_NS)
            await sleep_until(due_ns, self._now)
            self._steps += 1
            said = list(islice(pieces, min(left, self._pace.tokens_per_step)))
            text = stops.push("".join(said))
            if left == len(said):
                text += stops.end()
            step = Step(text, len(said), self._steps, self._slots.running, self._now())
            if stages.scheduled_ns is not None and not stages.prefill_chunks:
                stages.prefill_chunks.append(_whole_prompt(request, stages.scheduled_ns, step))
            if not job.generation.put(step):
                raise _SlowReader
            if stops.stop_text is not None:
                return "stop", stops.stop_text
        return ("length" if answer is None or answer > request.max_tokens else "stop"), None

    def _waits_ns(self, prompt_tokens: int, number: int) -> Iterator[int]:
        """The prefill time, then the time of each decode step, ns."""
        pace = self._pace
        rng = random.Random(f"{pace.seed}/{number}")

        def wait(ms: float) -> int:
            return round(ms * 1e6 * (1 + pace.jitter * rng.uniform(-1, 1)))

        yield wait(pace.base_ms + pace.prefill_ms_per_token * prompt_tokens)
        while True:
            yield wait(pace.itl_ms)


def _whole_prompt(request: GenerationRequest, started_ns: int, first: Step) -> PrefillChunk:
    """The paced prefill, as the one chunk that it is."""
    return PrefillChunk(
        step=first.step,
        batch=first.batch,
        position=0,
        tokens=request.prompt_tokens,
        started_ns=started_ns,
        ended_ns=first.sampled_ns,
    )
