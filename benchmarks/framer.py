"""Is the SSE framer fast, stamps and payloads included, and linear?

Two sets of events of about 200 bytes (a chat completion's delta), fed 1 KB at a time, against
httpx-sse in the same run, alternating; one event of 8 MiB against one of 4 MiB; and one event of
40,000 data lines against one of 20,000.
"""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
from httpx_sse import EventSource

from benchmarks.harness import Bar, machine, publish, run_first
from promptpath.model.stamp import user_stamp
from promptpath.wire.frame import Frame
from promptpath.wire.sse import SseFramer

FEED_BYTES = 1024
EVENTS = 20_000
ROUNDS = 15
RATIO = 2.0
DOUBLING = 2.5
"""Twice the size may cost so many times: 2 is linear, 4 is quadratic; the rest is noise."""
_MIB = 1_048_576
_TAIL = (
    '"object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o-mini",'
    '"choices":[{"index":0,"delta":{"content":" t%06d"},"finish_reason":null}]}'
)


def stream() -> bytes:
    """EVENTS events."""
    return b"".join(
        f'data: {{"id":"chatcmpl-{index:08d}",{_TAIL % index}\n\n'.encode()
        for index in range(EVENTS)
    )


def feeds(data: bytes) -> list[bytes]:
    """The data as a socket gives it."""
    return [data[at : at + FEED_BYTES] for at in range(0, len(data), FEED_BYTES)]


STAMPS = [user_stamp(at_ns) for at_ns in range(16 * _MIB // FEED_BYTES)]
"""One for each feed, made beforehand: in the tool the clock makes them, framer or not."""


def ours(pieces: list[bytes]) -> int:
    """Payload bytes by our framer; every frame carries the stamps of its first and last byte."""
    framer, total = SseFramer(), 0
    for piece, stamp in zip(pieces, STAMPS, strict=False):
        frames: list[Frame] = framer.feed(piece, stamp)
        for frame in frames:
            total += len(frame.data)
    return total


class _Lean(httpx.Response):
    """A response that only decodes UTF-8: httpx-sse without what httpx adds."""

    pieces: list[bytes]

    def iter_text(self, chunk_size: int | None = None) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8")()
        return (decoder.decode(piece) for piece in self.pieces)


def httpx_sse_lean(pieces: list[bytes]) -> int:
    """Payload characters by httpx-sse, fed by the least there is."""
    response = _Lean(200, headers={"content-type": "text/event-stream"})
    response.pieces = pieces
    return sum(len(event.data) for event in EventSource(response).iter_sse())


def httpx_sse(pieces: list[bytes]) -> int:
    """Payload characters by httpx-sse on a plain httpx response."""
    headers = {"content-type": "text/event-stream"}
    response = httpx.Response(200, headers=headers, content=iter(pieces))
    return sum(len(event.data) for event in EventSource(response).iter_sse())


def seconds(work: Callable[[list[bytes]], int], pieces: list[bytes]) -> float:
    """How long one pass takes."""
    started = time.perf_counter()
    work(pieces)
    return time.perf_counter() - started


def one_event_seconds(lines: int, line_bytes: int) -> float:
    """One event of so many data lines in 1 KB feeds, the best of five."""
    pieces = feeds((b"data: " + b"x" * line_bytes + b"\n") * lines + b"\n")
    return min(seconds(ours, pieces) for _ in range(5))


def main() -> int:
    """Run, publish, judge."""
    before = machine()
    fifo = run_first()
    pieces = feeds(stream())
    contenders = {"promptpath": ours, "httpx-sse": httpx_sse, "httpx-sse, lean": httpx_sse_lean}
    sizes = {name: work(pieces) for name, work in contenders.items()}
    if len(set(sizes.values())) != 1:
        raise RuntimeError(f"the contenders disagree on the payload: {sizes}")
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            times[name].append(seconds(work, pieces))
    best = {name: min(values) for name, values in times.items()}
    four, eight = one_event_seconds(1, 4 * _MIB), one_event_seconds(1, 8 * _MIB)
    lines, twice_lines = one_event_seconds(20_000, 20), one_event_seconds(40_000, 20)
    bars = [
        Bar(
            name="times as fast as httpx-sse (lean)",
            value=best["httpx-sse, lean"] / best["promptpath"],
            unit="x",
            limit=RATIO,
            better=">=",
        ),
        Bar(
            name="times httpx-sse as shipped",
            value=best["httpx-sse"] / best["promptpath"],
            unit="x",
        ),
        Bar(name="an event", value=best["promptpath"] / EVENTS * 1e6, unit="us"),
        Bar(name="one 8 MiB event / one 4 MiB event", value=eight / four, unit="x", limit=DOUBLING),
        Bar(name="one 8 MiB event", value=eight * 1e3, unit="ms"),
        Bar(
            name="40,000 data lines / 20,000 data lines",
            value=twice_lines / lines,
            unit="x",
            limit=DOUBLING,
        ),
        Bar(name="one event of 20,000 data lines", value=lines * 1e3, unit="ms"),
    ]
    runs: dict[str, Any] = {
        "seconds": times,
        "fifo": fifo,
        "one_event_s": {"4 MiB": four, "8 MiB": eight},
        "lines_s": {"20000": lines, "40000": twice_lines},
    }
    return publish("framer", bars, runs, before)


if __name__ == "__main__":
    sys.exit(main())
