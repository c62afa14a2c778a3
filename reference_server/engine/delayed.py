"""An engine whose answers come later by a known time: `--delay queue=...,prefill=...`.

Every instant of the engine is moved, none is stretched: being scheduled comes later by the queue's
delay, every token by both together. So queue and prefill are longer by exactly what was asked for,
and the decode steps keep their gaps. The slot of the engine within is free that much earlier.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from reference_server.clock import Now, sleep_until
from reference_server.engine.generation import (
    CacheStats,
    Engine,
    Generation,
    GenerationFailed,
    GenerationRequest,
    Stages,
    Step,
)


class DelayedEngine:
    """An `engine.generation.Engine` around another."""

    def __init__(
        self, inner: Engine, queue_ns: int, prefill_ns: int, backlog_steps: int, now: Now
    ) -> None:
        """Delays of at least 0; `backlog_steps` as in `Generation`."""
        self._inner = inner
        self._queue_ns = queue_ns
        self._shift_ns = queue_ns + prefill_ns
        self._backlog_steps = backlog_steps
        self._now = now
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """Requests that hold a slot of the engine within."""
        return self._inner.running

    @property
    def waiting(self) -> int:
        """Requests in its queue."""
        return self._inner.waiting

    @property
    def available(self) -> bool:
        """Whether the engine within can take a request."""
        return self._inner.available

    @property
    def gives_logprobs(self) -> bool:
        """Whether it has probabilities to report."""
        return self._inner.gives_logprobs

    @property
    def cache(self) -> CacheStats | None:
        """Its KV pool."""
        return self._inner.cache

    async def start(self) -> str:
        """Start the engine within."""
        return await self._inner.start()

    def submit(self, request: GenerationRequest, admitted_ns: int) -> Generation:
        """Queue a request; raises QueueFull at once."""
        inner = self._inner.submit(request, admitted_ns)
        stages = Stages(admitted_ns, prompt_tokens=request.prompt_tokens)
        outer = Generation(request, stages, self._backlog_steps, on_cancel=lambda: stop())
        task = asyncio.get_running_loop().create_task(self._relay(inner, outer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

        def stop() -> None:
            inner.cancel()
            outer.fail("cancelled")
            task.cancel()

        return outer

    async def close(self) -> None:
        """Stop every request."""
        await self._inner.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _relay(self, inner: Generation, outer: Generation) -> None:
        try:
            while (step := await inner.next_step()) is not None:
                await self._pass_on(inner, outer, step)
        except GenerationFailed as failure:
            outer.fail(failure.code)
            return
        if outer.ended:
            return
        outer.finish(inner.finish_reason or "stop", inner.stop_text)

    async def _pass_on(self, inner: Generation, outer: Generation, step: Step) -> None:
        due_ns = step.sampled_ns + self._shift_ns
        await sleep_until(due_ns, self._now)
        stages = outer.stages
        if stages.scheduled_ns is None and inner.stages.scheduled_ns is not None:
            stages.scheduled_ns = inner.stages.scheduled_ns + self._queue_ns
            stages.cached_tokens = inner.stages.cached_tokens
            for chunk in inner.stages.prefill_chunks:
                moved = replace(
                    chunk,
                    started_ns=chunk.started_ns + self._queue_ns,
                    ended_ns=chunk.ended_ns + self._shift_ns,
                )
                stages.prefill_chunks.append(moved)
        if not outer.put(replace(step, sampled_ns=due_ns)):
            inner.cancel()
            raise GenerationFailed("slow_reader")
