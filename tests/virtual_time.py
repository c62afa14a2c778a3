"""An asyncio loop whose time is a number: it jumps to the next timer when nothing else is to do, so
that a test of a 60 s idle time-out takes a millisecond and always ends the same way.

    result, elapsed_ns = run(scenario)

Such a loop and real sockets or threads would race (time jumps while a packet is under way), so the
loop refuses both.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")
NS_PER_S = 1_000_000_000


class VirtualTimeError(RuntimeError):
    """The code under test did what cannot be done in virtual time."""


class _Selector(selectors.BaseSelector):
    """Never waits: moves the clock by what it was told to wait."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._keys: dict[int, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise VirtualTimeError("deadlock: every task waits, and no timer is set")
        # Rounded up, so that the timer asyncio waits for is due after the jump.
        self.now_ns += max(0, -int(-timeout * NS_PER_S // 1))
        return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        if self._keys:
            # The first one is the loop's own self-pipe.
            raise VirtualTimeError("a real socket in virtual time; use a fake link")
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = selectors.SelectorKey(fileobj, descriptor, events, data)
        self._keys[descriptor] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        descriptor = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        return self._keys.pop(descriptor)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`loop.time()` starts at 0 and moves only by jumps."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual.now_ns / NS_PER_S

    def now_ns(self) -> int:
        """Virtual nanoseconds since the loop was made; what a clock of the code under test gets."""
        return self._virtual.now_ns

    def run_in_executor(self, *args: Any) -> NoReturn:  # type: ignore[override]
        """Refused: time would jump while the thread works."""
        raise VirtualTimeError("a thread in virtual time (getaddrinfo, to_thread ...)")

    def call_soon_threadsafe(  # type: ignore[override]
        self, *args: Any, **kwargs: Any
    ) -> NoReturn:
        """Refused, as threads are."""
        raise VirtualTimeError("a call from another thread in virtual time")


def run(scenario: Callable[[VirtualTimeLoop], Awaitable[T]]) -> tuple[T, int]:
    """Run `scenario(loop)` to its end; its result, and how many virtual ns it took."""
    loop = VirtualTimeLoop()

    async def main() -> T:
        return await scenario(loop)

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        result = runner.run(main())
        return result, loop.now_ns()
