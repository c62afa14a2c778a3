"""A dialled link and the bare socket at its other end, in one thread and one loop: what a test
sends is in the kernel when the call returns."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from promptpath.model.rows import Arrival
from promptpath.probe.clock import RunClock
from promptpath.probe.dial import dial
from promptpath.probe.kernel_support import NO_SUPPORT, KernelSupport
from promptpath.probe.link import Chunk, Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.tcp import TcpLink

T = TypeVar("T")
PATIENCE_NS = 10_000_000_000
"""Far more than loopback takes; only a broken test waits so long."""


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    """Run a scenario on the loop the tool uses; nothing may be left behind."""

    async def main() -> T:
        result = await scenario()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, "tasks left behind"
        return result

    with asyncio.Runner(debug=False) as runner:
        return runner.run(main())


@dataclass
class Pair:
    """Both ends."""

    link: TcpLink
    peer: socket.socket
    recorder: Recorder

    @property
    def clock(self) -> RunClock:
        return self.recorder.clock

    @property
    def arrivals(self) -> list[Arrival]:
        return list(self.recorder.log.arrivals)

    def send(self, data: bytes) -> tuple[int, int]:
        """Send from the peer; the interval (run time) in which it arrived at the link's socket."""
        before_ns = self.clock.now_ns()
        self.peer.sendall(data)
        return before_ns, self.clock.now_ns()

    def reset(self) -> None:
        """RST from the peer."""
        self.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.close()

    async def receive(self) -> list[Chunk | Closed]:
        return await self.link.receive(self.clock.deadline(PATIENCE_NS))

    async def chunk(self) -> Chunk:
        """The one chunk that is there."""
        (item,) = await self.receive()
        assert isinstance(item, Chunk)
        return item

    async def end(self) -> tuple[bytes, Closed]:
        """Everything up to the end."""
        data = b""
        while True:
            for item in await self.receive():
                if isinstance(item, Closed):
                    return data, item
                data += item.data


@asynccontextmanager
async def pair(support: KernelSupport | None = None) -> AsyncIterator[Pair]:
    """A dialled link over loopback; `NO_SUPPORT` forces the user clock."""
    recorder = Recorder(RunClock.start(support=support))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = await dial(
            recorder, [listener.getsockname()], deadline_ns=recorder.clock.deadline(PATIENCE_NS)
        )
        peer = listener.accept()[0]
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with peer:
        yield Pair(link, peer, recorder)
        await link.close()


__all__ = ["NO_SUPPORT", "PATIENCE_NS", "Pair", "pair", "run"]
