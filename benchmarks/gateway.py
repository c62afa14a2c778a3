"""The gateway: its own time, limits under overload, and many streams at once.

Overhead: from the request's head to its admission (auth, read, validate, limits, session,
tokenize), as the server stamps it, with limits in memory and in Redis. Limits: ten times as many
requests as a key may make, through an edge over four replicas that share one Redis. Streams: 500
at once, a token each 100 ms, server on one core; lateness is the write's stamp less the designed
time. The client is asyncio on its own; every number comes from the server's stamps.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import Bar, machine, median, percentile, publish
from tests.peers.programs import find
from tests.peers.redis import redis_server

REQUESTS = 400
STREAMS = 500
TOKENS = 50
GAP_MS = 100
LIMIT = 120
"""Requests a minute in the overload."""
_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered request."""

    status: int
    events: list[dict[str, Any]]


@contextlib.contextmanager
def _server(*options: str, core: int | None = None) -> Iterator[int]:
    """A reference server with the paced engine; its port."""
    command = [sys.executable, "-m", "reference_server", "--engine", "paced", "--clear-text"]
    command += ["--announce", "--stop-with-stdin", "--prefill-ms-per-token", "0", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        port = int(json.loads(process.stdout.readline())["port"])
        if core is not None:
            os.sched_setaffinity(process.pid, {core})
        try:
            yield port
        finally:
            process.stdin.close()


async def _ask(port: int, tokens: int) -> Answer:
    """One stream on a connection of its own."""
    messages = [{"role": "user", "content": "Why does my BGP session keep flapping?"}]
    request = {"model": "promptpath-paced", "stream": True, "max_tokens": tokens}
    body = json.dumps({**request, "messages": messages}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"x-promptpath-timing: 1\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + body)
    data = await reader.read()
    writer.close()
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: {")]
    return Answer(int(data.split(b" ", 2)[1]), [json.loads(line[6:]) for line in lines])


def _timings(answer: Answer) -> dict[str, Any]:
    (found,) = [event["timings"] for event in answer.events if "timings" in event]
    timings: dict[str, Any] = found
    return timings


async def _overheads(port: int) -> list[float]:
    """From head to admission, ms, of requests one after the other; the first ones warm up."""
    found = []
    for number in range(REQUESTS + 20):
        timings = _timings(await _ask(port, 1))
        if number >= 20:
            found.append((timings["admitted_ns"] - timings["received_ns"]) / _NS_PER_MS)
    return found


def overhead(redis_port: int | None) -> list[float]:
    """With a limit that is never reached."""
    limits = ["--requests-per-minute", "1000000", "--tokens-per-minute", "1000000000"]
    if redis_port is not None:
        limits += ["--redis", f"redis://127.0.0.1:{redis_port}/1"]
    with _server("--base-ms", "0", "--itl-ms", "0", *limits) as port:
        return asyncio.run(_overheads(port))


async def _overload(port: int) -> tuple[int, int]:
    """Statuses 200 and 429 of ten times the limit, 16 at a time."""
    gate = asyncio.Semaphore(16)

    async def one() -> int:
        async with gate:
            return (await _ask(port, 1)).status

    statuses = await asyncio.gather(*(one() for _ in range(10 * LIMIT)))
    return statuses.count(200), statuses.count(429)


def overload(redis_port: int) -> dict[str, float]:
    """How many got through four replicas, and how many may have."""
    options = ["--edge", "--replicas", "4", "--base-ms", "0", "--itl-ms", "0"]
    options += ["--requests-per-minute", str(LIMIT), "--redis", f"redis://127.0.0.1:{redis_port}/2"]
    with _server(*options) as port:
        begun = time.monotonic()
        admitted, refused = asyncio.run(_overload(port))
        elapsed_s = time.monotonic() - begun
    allowed = LIMIT + LIMIT * elapsed_s / 60
    return {
        "admitted": admitted,
        "refused": refused,
        "allowed": allowed,
        "elapsed_s": elapsed_s,
    }


async def _streams(port: int) -> list[Answer]:
    """The streams, begun at chance instants within 2 s: begun together, all 500 would be due in the
    same instant of each 100 ms, and the last of them would wait for 499 others."""
    chance = random.Random(1)

    async def one(begins_s: float) -> Answer:
        await asyncio.sleep(begins_s)
        return await _ask(port, TOKENS)

    return list(await asyncio.gather(*(one(chance.uniform(0, 2)) for _ in range(STREAMS))))


def streams() -> tuple[list[float], int]:
    """Lateness of every write, ms, and tokens that never came."""
    options = ["--base-ms", str(GAP_MS), "--itl-ms", str(GAP_MS), "--slots", str(STREAMS)]
    with _server(*options, core=0) as port:
        os.sched_setaffinity(0, set(range(1, os.cpu_count() or 1)) or {0})
        answers = asyncio.run(_streams(port))
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
    late, lost = [], 0
    for answer in answers:
        tokens = [each["promptpath"] for each in answer.events if each["promptpath"]["step"]]
        lost += TOKENS - len(tokens)
        scheduled_ns = _timings(answer)["scheduled_ns"]
        for number, stamp in enumerate(tokens, 1):
            due_ns = scheduled_ns + number * GAP_MS * _NS_PER_MS
            late.append((stamp["sent_ns"] - due_ns) / _NS_PER_MS)
    return late, lost


def main() -> int:
    """Measure everything; 1 when a bar was missed."""
    before = machine()
    memory_ms = overhead(None)
    shared_ms: list[float] = []
    limits: dict[str, float] | None = None
    if find("redis-server") is not None:
        with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as redis_port:
            shared_ms = overhead(redis_port)
            limits = overload(redis_port)
    late_ms, lost = streams()
    over = None if limits is None else limits["admitted"] - limits["allowed"]
    under = None if limits is None else LIMIT - limits["admitted"]
    bars = [
        Bar(name="overhead, limits in memory, median", value=median(memory_ms), unit="ms", limit=1),
        Bar(name="overhead, limits in memory, p99", value=percentile(memory_ms, 99), unit="ms"),
        Bar(name="overhead, limits in Redis, median", value=median(shared_ms), unit="ms", limit=1),
        Bar(name="10x overload, 4 processes: above the limit", value=over, unit="", limit=0),
        Bar(name="10x overload, 4 processes: below the limit", value=under, unit="", limit=0),
        Bar(
            name=f"{STREAMS} streams on one core: write lateness p99",
            value=percentile(late_ms, 99),
            unit="ms",
            limit=20,
        ),
        Bar(name=f"{STREAMS} streams: lateness p50", value=median(late_ms), unit="ms"),
        Bar(name=f"{STREAMS} streams: tokens lost", value=lost, unit="", limit=0),
    ]
    runs = {"memory_ms": memory_ms, "redis_ms": shared_ms, "limits": limits}
    return publish("gateway", bars, runs, before)


if __name__ == "__main__":
    sys.exit(main())
