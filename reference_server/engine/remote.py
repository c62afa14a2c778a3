"""The real engine as the API sees it: an `Engine` whose model computes in a process of its own.

When that process dies, its requests fail, new ones are refused for the time being, and another is
started: a fault of the model never takes the gateway down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from reference_server.engine.frames import Cancel, Load, Ready, Start, Submit, Turn
from reference_server.engine.generation import (
    CacheStats,
    EngineStartError,
    EngineUnavailable,
    FailureCode,
    Generation,
    GenerationRequest,
    PrefillChunk,
    Stages,
    Step,
    TokenLogprob,
)
from reference_server.engine.loop import Computed, TokenOut
from reference_server.engine.slots import QueueFull
from reference_server.engine.worker_process import WorkerProcess
from reference_server.settings import EngineSettings

_LOG = logging.getLogger("reference_server")

_FIRST_RESTART_S = 1.0
_LONGEST_RESTART_S = 30.0
"""Wait before a restart, doubled each time until the process has become ready. A choice."""


class RemoteEngine:
    """An `engine.generation.Engine`; call `start` before the first request."""

    gives_logprobs = True

    def __init__(
        self, start: Start, limits: EngineSettings, token_bytes: Callable[[int], bytes]
    ) -> None:
        """`token_bytes` gives the text of a token, for log probabilities."""
        self._start = start
        self._limits = limits
        self._token_bytes = token_bytes
        self._generations: dict[str, Generation] = {}
        self._load = Load(0, 0, CacheStats(0, start.model.kv_blocks, 0, 0, 0))
        self._worker: WorkerProcess | None = None
        self._supervisor: asyncio.Task[None] | None = None

    @property
    def running(self) -> int:
        """Requests that hold a place in the batch."""
        return len(self._generations) - self.waiting

    @property
    def waiting(self) -> int:
        """Requests in the queue, those included that the engine has not seen yet."""
        return sum(each.stages.scheduled_ns is None for each in self._generations.values())

    @property
    def cache(self) -> CacheStats:
        """The KV pool after the latest step."""
        return self._load.cache

    @property
    def available(self) -> bool:
        """Whether the model is in memory."""
        return self._worker is not None

    async def start(self) -> str:
        """Start the process, wait for the model. Raises EngineStartError."""
        worker = self._worker = await WorkerProcess.start(self._start)
        self._supervisor = asyncio.get_running_loop().create_task(self._supervise(worker))
        return _described(worker.ready)

    def submit(self, request: GenerationRequest, admitted_ns: int) -> Generation:
        """Queue a request; raises QueueFull, or EngineUnavailable while there is no process."""
        if self._worker is None:
            raise EngineUnavailable
        if len(self._generations) >= self._limits.slots + self._limits.queue_limit:
            raise QueueFull
        if request.deadline_ns is None:
            patience_ns = round(self._limits.queue_timeout_ms * 1e6)
            request = replace(request, deadline_ns=admitted_ns + patience_ns)
        generation = Generation(
            request,
            Stages(admitted_ns, prompt_tokens=request.prompt_tokens),
            self._limits.backlog_steps,
            on_cancel=lambda: self._give_up(request.request_id, "cancelled"),
        )
        self._generations[request.request_id] = generation
        self._worker.send(Submit(request))
        return generation

    async def close(self) -> None:
        """Stop every request; readers get GenerationFailed("engine_stopped"). Ends the process."""
        self._fail_all("engine_stopped")
        worker, self._worker = self._worker, None
        if self._supervisor is not None:
            self._supervisor.cancel()
            with suppress(asyncio.CancelledError):
                await self._supervisor
        if worker is not None:
            await worker.end()

    async def _supervise(self, worker: WorkerProcess) -> None:
        """Take what the process says; when it ends, start another."""
        while True:
            try:
                async for frame in worker.frames():
                    if isinstance(frame, Turn):
                        self._take(frame)
            except Exception:  # Nobody else would see it, and every request would wait for ever.
                _LOG.exception("what the engine's process says cannot be understood")
            self._worker = None
            self._fail_all("engine_error")
            _LOG.error("the engine's process has ended; starting another")
            await worker.end()
            worker = self._worker = await self._restarted()

    async def _restarted(self) -> WorkerProcess:
        wait_s = _FIRST_RESTART_S
        while True:
            await asyncio.sleep(wait_s)
            try:
                return await WorkerProcess.start(self._start)
            except (EngineStartError, OSError) as error:
                wait_s = min(2 * wait_s, _LONGEST_RESTART_S)
                _LOG.error("the engine does not start: %s; next try in %g s", error, wait_s)

    def _take(self, turn: Turn) -> None:
        self._load = turn.load
        for started in turn.started:
            if (generation := self._generations.get(started.request_id)) is not None:
                generation.stages.scheduled_ns = started.scheduled_ns
                generation.stages.cached_tokens = started.cached_tokens
        for computed in turn.computed:
            self._note_chunk(computed)
        for token in turn.tokens:
            self._hand_over(token)
        for failed in turn.failed:
            if (generation := self._generations.pop(failed.request_id, None)) is not None:
                generation.fail(failed.code)

    def _note_chunk(self, computed: Computed) -> None:
        generation = self._generations.get(computed.request_id)
        if generation is None or generation.stages.first_token_ns is not None:
            return
        generation.stages.prefill_chunks.append(
            PrefillChunk(
                step=computed.step,
                batch=computed.batch,
                position=computed.position,
                tokens=computed.tokens,
                started_ns=computed.started_ns,
                ended_ns=computed.ended_ns,
            )
        )

    def _hand_over(self, token: TokenOut) -> None:
        generation = self._generations.get(token.request_id)
        if generation is None:
            return
        step = Step(
            text=token.text,
            tokens=1,
            step=token.step,
            batch=token.batch,
            sampled_ns=token.sampled_ns,
            logprobs=self._logprobs(token),
        )
        if not generation.put(step):
            self._give_up(token.request_id, "slow_reader")
        elif token.finish is not None:
            del self._generations[token.request_id]
            generation.finish(token.finish, token.stop_text)

    def _logprobs(self, token: TokenOut) -> tuple[TokenLogprob, ...]:
        if token.logprob is None:
            return ()
        top = tuple((self._token_bytes(each), logprob) for each, logprob in token.top_logprobs)
        return (TokenLogprob(self._token_bytes(token.token_id), token.logprob, top),)

    def _give_up(self, request_id: str, code: FailureCode) -> None:
        generation = self._generations.pop(request_id, None)
        if generation is None:
            return
        generation.fail(code)
        if self._worker is not None:
            self._worker.send(Cancel(request_id, code))

    def _fail_all(self, code: FailureCode) -> None:
        generations = list(self._generations.values())
        self._generations.clear()
        for generation in generations:
            generation.fail(code)


def _described(ready: Ready) -> str:
    return f"{ready.kernels}; {ready.threads}; loaded in {ready.load_ms / 1e3:.1f} s"
