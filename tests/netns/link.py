"""The link: one process that carries IP packets between two TUN devices, each in a namespace.

    python -m tests.netns.link CLIENT_NS SERVER_NS --delay-ms 20 --loss 0.02

It runs SCHED_FIFO where it may, which also takes the kernel's 50 us of timer slack away, so that
the delay is the link's and not the scheduler's. Order is kept at all times.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import gc
import os
import random
import select
import signal
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass, field

DEVICE = "pp0"
"""The TUN device's name in both namespaces."""
_CLONE_NEWNET = 0x40000000
_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PACKET_BYTES = 65536
_PRIORITY = 10
_NS_PER_MS = 1_000_000
_QUEUE_PACKETS = 10_000
"""A link drops what it cannot hold; so much is 15 MB a direction at full-size packets."""


def enter_namespace(path: str) -> None:
    """Move this thread into the network namespace at `path` (os.setns is Python 3.12's)."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(descriptor, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {path}")
    finally:
        os.close(descriptor)


def open_tun(namespace: str) -> int:
    """A TUN device in that namespace, its descriptor non-blocking; it goes with the descriptor."""
    enter_namespace(f"/run/netns/{namespace}")
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    request = struct.pack("16sH14x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI)
    fcntl.ioctl(descriptor, _TUNSETIFF, request)
    return descriptor


@dataclass(slots=True)
class Direction:
    """One way of the link: reads packets here, writes them there when they are due."""

    source: int
    target: int
    delay_ns: int
    jitter_ns: int
    loss: float
    bits_per_s: float
    dice: random.Random
    queue: deque[tuple[int, bytes]] = field(default_factory=deque)
    busy_until_ns: int = 0
    last_due_ns: int = 0

    def take(self, now_ns: int) -> None:
        """Read what is there; decide for each packet whether and when it comes out."""
        while True:
            try:
                packet = os.read(self.source, _PACKET_BYTES)
            except BlockingIOError:
                return
            if self.loss and self.dice.random() < self.loss:
                continue
            if len(self.queue) < _QUEUE_PACKETS:
                self.queue.append((self._due_ns(now_ns, len(packet)), packet))

    def _due_ns(self, now_ns: int, size: int) -> int:
        leaves_ns = now_ns
        if self.bits_per_s:
            leaves_ns = max(now_ns, self.busy_until_ns) + int(size * 8e9 / self.bits_per_s)
            self.busy_until_ns = leaves_ns
        jitter_ns = int(self.dice.random() * self.jitter_ns) if self.jitter_ns else 0
        self.last_due_ns = max(self.last_due_ns, leaves_ns + self.delay_ns + jitter_ns)
        return self.last_due_ns

    def give(self, now_ns: int) -> None:
        """Write the packets that are due."""
        while self.queue and self.queue[0][0] <= now_ns:
            _, packet = self.queue.popleft()
            with contextlib.suppress(OSError):  # the device is down, or its queue is full: lost
                os.write(self.target, packet)


def carry(directions: tuple[Direction, Direction]) -> None:
    """Run the link for ever."""
    sources = [direction.source for direction in directions]
    while True:
        due = [direction.queue[0][0] for direction in directions if direction.queue]
        wait_s = max(0, min(due) - time.monotonic_ns()) / 1e9 if due else None
        readable, _, _ = select.select(sources, (), (), wait_s)
        now_ns = time.monotonic_ns()
        for direction in directions:
            direction.give(now_ns)
            if direction.source in readable:
                direction.take(now_ns)


def main(arguments: list[str]) -> None:
    """Parse, open both devices, say "ready", carry."""
    parser = argparse.ArgumentParser(prog="tests.netns.link")
    parser.add_argument("client_namespace")
    parser.add_argument("server_namespace")
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--jitter-ms", type=float, default=0.0)
    parser.add_argument("--loss", type=float, default=0.0)
    parser.add_argument("--upload-loss", type=float, default=None)
    parser.add_argument("--rate-mbit", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    # No orphan may run SCHED_FIFO: SIGKILL when the parent dies (prctl(2), PR_SET_PDEATHSIG).
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    dice = random.Random(options.seed)
    client, server = open_tun(options.client_namespace), open_tun(options.server_namespace)

    def way(source: int, target: int, loss: float) -> Direction:
        return Direction(
            source=source,
            target=target,
            delay_ns=int(options.delay_ms * _NS_PER_MS),
            jitter_ns=int(options.jitter_ms * _NS_PER_MS),
            loss=loss,
            bits_per_s=options.rate_mbit * 1e6,
            dice=dice,
        )

    up = options.loss if options.upload_loss is None else options.upload_loss
    directions = (way(client, server, up), way(server, client, options.loss))
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    gc.disable()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    carry(directions)


if __name__ == "__main__":
    main(sys.argv[1:])
