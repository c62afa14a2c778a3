"""Waking to the microsecond on Linux: asyncio's own timers round up to whole milliseconds.

A designed gap of 1 ms would otherwise become one of 2 ms or two events at once, and the tool would
measure our timer instead of the path.
"""

from __future__ import annotations

import asyncio
import ctypes
import heapq
import os
import time
import weakref
from collections.abc import Callable
from functools import cache
from itertools import count

_ABSTIME = 1  # TFD_TIMER_ABSTIME, timerfd_create(2)
_SECOND = 1_000_000_000
CROWD = 64
"""Waits at once from which on the timer fires on whole milliseconds only. Hundreds of streams wake
us thousands of times a second otherwise, each for one event and one datagram of its own (measured:
164 us of processor an event at 200 HTTP/3 streams of 20 events/s). An event goes up to 1 ms later
then, and its stamp says so, for it is taken when it goes."""
GRID_NS = 1_000_000


class FineTimer:
    """A timerfd of one event loop. Raises OSError where there is none (see `fine_timer`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._descriptor = _create()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = count()
        weakref.finalize(loop, os.close, self._descriptor)
        loop.add_reader(self._descriptor, self._fired)

    async def sleep_until(self, at_ns: int) -> None:
        """Return at CLOCK_MONOTONIC `at_ns`. A cancelled wait is kept until then: keep it short."""
        loop = self._loop()
        assert loop is not None
        future: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (at_ns, next(self._numbers), future))
        if self._waiting[0][2] is future:
            self._arm_next()
        await future

    def _arm_next(self) -> None:
        at_ns = self._waiting[0][0]
        if len(self._waiting) > CROWD:
            at_ns = -(-at_ns // GRID_NS) * GRID_NS
        _arm(self._descriptor, at_ns)

    def _fired(self) -> None:
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return  # Armed anew between the wake-up and this call.
        while self._waiting and self._waiting[0][0] <= time.monotonic_ns():
            future = heapq.heappop(self._waiting)[2]
            if not future.done():
                future.set_result(None)
        if self._waiting:
            self._arm_next()


_TIMERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FineTimer | None] = (
    weakref.WeakKeyDictionary()
)


def fine_timer() -> FineTimer | None:
    """The running loop's timer; None where the system or the loop has none."""
    loop = asyncio.get_running_loop()
    if loop not in _TIMERS:
        try:
            _TIMERS[loop] = FineTimer(loop)
        except (OSError, AttributeError, NotImplementedError):
            _TIMERS[loop] = None
    return _TIMERS[loop]


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _libc_call(name: str, *arguments: object) -> int:
    """Call into libc (os.timerfd_* exist from Python 3.13 on only)."""
    function: Callable[..., int] = getattr(_libc(), name)
    result = function(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _create() -> int:
    flags = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are the same numbers
    return _libc_call("timerfd_create", time.CLOCK_MONOTONIC, flags)


def _arm(descriptor: int, at_ns: int) -> None:
    # A time of 0 would switch the timer off.
    value = _Timespec(*divmod(max(at_ns, 1), _SECOND))
    spec = _Itimerspec(_Timespec(0, 0), value)
    _libc_call("timerfd_settime", descriptor, _ABSTIME, ctypes.byref(spec), None)
