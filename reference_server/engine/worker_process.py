"""The engine's process as the gateway sees it: started, spoken to over a socket, ended."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator

from reference_server.engine.frames import (
    HEAD_BYTES,
    FromEngine,
    NotReady,
    Ready,
    Start,
    ToEngine,
    encode,
    from_engine,
    length_of,
)
from reference_server.engine.generation import EngineStartError

_END_S = 5.0
"""Grace for the process after its socket was closed: a step of 256 tokens takes 0.3 s on two CPU
cores. A choice."""


class WorkerProcess:
    """One process. `start` it, then send frames and iterate over what comes back."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.ready: Ready
        """What it said when the model was in memory."""

    @classmethod
    async def start(cls, start: Start) -> WorkerProcess:
        """Start it and wait until the model is in memory. Raises EngineStartError."""
        ours, theirs = socket.socketpair()
        with theirs:
            command = ("-P", "-m", "reference_server.compute.worker", str(theirs.fileno()))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        reader, writer = await asyncio.open_connection(sock=ours)
        worker = cls(process, reader, writer)
        try:
            worker.send(start)
            worker.ready = await worker._first()
        except BaseException:
            await worker.end()
            raise
        return worker

    async def _first(self) -> Ready:
        try:
            frame = await self._frame()
        except (OSError, asyncio.IncompleteReadError):
            code = await self._process.wait()
            raise EngineStartError(f"the engine's process ended with status {code}") from None
        if isinstance(frame, NotReady):
            raise EngineStartError(frame.problem)
        if not isinstance(frame, Ready):
            raise EngineStartError("the engine's process began with a wrong frame")
        return frame

    def send(self, frame: ToEngine) -> None:
        """Hand over a frame; one for a process that has ended is lost."""
        if not self._writer.is_closing():
            self._writer.write(encode(frame))

    async def frames(self) -> AsyncIterator[FromEngine]:
        """What it says, until it has ended."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                yield await self._frame()

    async def _frame(self) -> FromEngine:
        head = await self._reader.readexactly(HEAD_BYTES)
        return from_engine.decode(await self._reader.readexactly(length_of(head)))

    async def end(self) -> None:
        """Close the socket, at whose end the process stops; kill it when it does not."""
        self._writer.close()
        try:
            async with asyncio.timeout(_END_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
