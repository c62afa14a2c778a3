"""The engine's process: `python -m reference_server.compute.worker FD`, FD a connected socket.

It loads the model that the first frame names, then takes requests and computes steps until the
gateway closes the socket. Signals are the gateway's business: it drains, then closes.
"""

from __future__ import annotations

import select
import signal
import socket
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from reference_server.clock import monotonic_ns
from reference_server.compute.threads import prepare_threads
from reference_server.engine.blocks import BlockPool
from reference_server.engine.frames import (
    HEAD_BYTES,
    Cancel,
    FromEngine,
    Load,
    NotReady,
    Ready,
    Start,
    Submit,
    ToEngine,
    Turn,
    encode,
    length_of,
    to_engine,
)
from reference_server.engine.generation import CacheStats, GenerationRequest
from reference_server.engine.loop import (
    AnswerText,
    Computed,
    EngineLoop,
    Event,
    Failed,
    Started,
    TokenOut,
)
from reference_server.engine.plan import ModelRunner
from reference_server.engine.scheduler import PromptTooLarge, Scheduler
from reference_server.engine.slots import QueueFull

_READ_BYTES = 1 << 16


class Channel:
    """Frames over a blocking socket."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._buffer = bytearray()
        self.closed = False
        """The gateway has closed its end."""

    def send(self, frame: FromEngine) -> None:
        """Send all of it; waits while the gateway does not read."""
        try:
            self._link.sendall(encode(frame))
        except OSError:
            self.closed = True

    def frames(self, wait: bool) -> list[ToEngine]:
        """What has come; with `wait` at least one, unless the gateway has closed."""
        found = self._decoded()
        while not self.closed:
            timeout_s = None if wait and not found else 0.0
            if not select.select([self._link], [], [], timeout_s)[0]:
                break
            self._receive()
            found += self._decoded()
        return found

    def _receive(self) -> None:
        try:
            data = self._link.recv(_READ_BYTES)
        except OSError:
            data = b""
        self.closed = not data
        self._buffer += data

    def _decoded(self) -> list[ToEngine]:
        found: list[ToEngine] = []
        while len(self._buffer) >= HEAD_BYTES:
            end = HEAD_BYTES + length_of(bytes(self._buffer[:HEAD_BYTES]))
            if len(self._buffer) < end:
                break
            found.append(to_engine.decode(bytes(self._buffer[HEAD_BYTES:end])))
            del self._buffer[:end]
        return found


class Engine:
    """The loop between the channel and the model."""

    def __init__(
        self,
        channel: Channel,
        scheduler: Scheduler,
        runner: ModelRunner,
        new_text: Callable[[GenerationRequest], AnswerText],
    ) -> None:
        self._channel = channel
        self._events: list[Event] = []
        self._loop = EngineLoop(scheduler, runner, new_text, monotonic_ns, self._events.append)

    def serve(self) -> None:
        """Compute until the gateway closes. What the model raises ends the process, after the
        requests' failures have been told."""
        while not self._channel.closed:
            for frame in self._channel.frames(wait=self._loop.idle):
                self._handle(frame)
            try:
                self._loop.turn()
            finally:
                self._tell()

    def _handle(self, frame: ToEngine) -> None:
        if isinstance(frame, Cancel):
            self._loop.cancel(frame.request_id, frame.code)
        elif isinstance(frame, Submit):
            try:
                self._loop.submit(frame.request)
            except (QueueFull, PromptTooLarge, ValueError):
                # The gateway checks both before: it and we do not agree, which is a bug.
                self._events.append(Failed(frame.request.request_id, "engine_error"))

    def _tell(self) -> None:
        if not self._events:
            return
        events = self._events
        turn = Turn(
            load=self._load(),
            started=[event for event in events if isinstance(event, Started)],
            computed=[event for event in events if isinstance(event, Computed)],
            tokens=[event for event in events if isinstance(event, TokenOut)],
            failed=[event for event in events if isinstance(event, Failed)],
        )
        events.clear()
        self._channel.send(turn)

    def _load(self) -> Load:
        scheduler = self._loop.scheduler
        cache = CacheStats(
            blocks_used=scheduler.pool.used,
            blocks_total=scheduler.pool.count,
            preemptions=scheduler.preemptions,
            prefix_queries=scheduler.prefix_queries,
            prefix_hits=scheduler.prefix_hits,
        )
        return Load(scheduler.running, scheduler.waiting, cache)


def main(arguments: list[str]) -> int:
    """Serve the gateway at the other end of the socket; returns the exit code."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    with socket.socket(fileno=int(arguments[0])) as link:
        channel = Channel(link)
        first = channel.frames(wait=True)
        if not first or not isinstance(first[0], Start):
            return 1
        engine = _load_engine(channel, first[0])
        if engine is None:
            return 1
        engine.serve()
    return 0


def _load_engine(channel: Channel, start: Start) -> Engine | None:
    began = time.monotonic()
    threads = prepare_threads(start.model.threads)
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # not needed, not had
    try:
        from reference_server.compute.loading import LoadError, load
    except ImportError as error:
        channel.send(NotReady(f"torch cannot be imported: {error}"))
        return None
    try:
        loaded = load(start.model, threads)
    except LoadError as error:
        channel.send(NotReady(str(error)))
        return None
    limits = replace(start.limits, context_tokens=loaded.context_tokens)
    scheduler = Scheduler(limits, BlockPool(loaded.runner.block_count))
    channel.send(
        Ready(
            context_tokens=loaded.context_tokens,
            kv_blocks=loaded.runner.block_count,
            load_ms=(time.monotonic() - began) * 1e3,
            threads=str(threads),
            kernels=loaded.kernels,
        )
    )
    text = loaded.text
    return Engine(channel, scheduler, loaded.runner, lambda asked: text.answer(asked.stop))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
