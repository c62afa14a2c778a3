"""The reference servers behind the edge, as processes of their own; one that ends is started anew.

They hold their ports: the edge knows them by these, and by nothing else.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress

from reference_server.edge.balance import Backend

_LOG = logging.getLogger("reference_server")
_START_S = 300.0
"""A replica may load a model of gigabytes first. A choice."""
_STOP_S = 10.0
_PAUSE_S = 1.0
"""Before one that ended is started again, so that one which cannot start does not spin. A choice.
"""


class ReplicaError(Exception):
    """A replica did not start; what it said is on standard error."""


class Replicas:
    """Starts `python -m reference_server` once for each backend, and again when it ends."""

    def __init__(self, arguments: Sequence[str], host: str = "127.0.0.1") -> None:
        """`arguments` are a replica's own options."""
        self._command = [sys.executable, "-P", "-m", "reference_server", *arguments]
        self._command += ["--host", host, "--clear-text", "--announce", "--stop-with-stdin"]
        self._processes: dict[Backend, asyncio.subprocess.Process] = {}
        self._keepers: list[asyncio.Task[None]] = []
        self.model = "unknown"

    async def start(self, backends: Sequence[Backend]) -> None:
        """Start all at once; returns when all listen. Raises ReplicaError."""
        starts = (self._start(backend) for backend in backends)
        for result in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(result, BaseException):
                await self.stop()
                raise result
        loop = asyncio.get_running_loop()
        self._keepers = [loop.create_task(self._keep(backend)) for backend in backends]

    async def stop(self) -> None:
        """Close their standard input, which ends them; kill who stays."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for process in self._processes.values():
            try:
                async with asyncio.timeout(_STOP_S):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()

    def process_of(self, backend: Backend) -> int:
        """Its process id."""
        return self._processes[backend].pid

    async def _start(self, backend: Backend) -> None:
        pipe = asyncio.subprocess.PIPE
        command = [*self._command, "--port", str(backend.port)]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, start_new_session=True
        )
        self._processes[backend] = process
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_START_S):
                line = await process.stdout.readline()
            said = json.loads(line)
            backend.port, self.model = int(said["port"]), str(said["model"])
        except (TimeoutError, ValueError, KeyError, TypeError):
            with suppress(ProcessLookupError):
                process.kill()
            raise ReplicaError(f"{backend.name} did not start") from None

    async def _keep(self, backend: Backend) -> None:
        while True:
            code = await self._processes[backend].wait()
            backend.healthy = False
            backend.memory.forget()
            _LOG.warning("%s ended with code %s and is started again", backend.name, code)
            await asyncio.sleep(_PAUSE_S)
            with suppress(ReplicaError):
                await self._start(backend)
