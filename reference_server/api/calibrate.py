"""`GET /promptpath/calibrate`: a stream with designed sizes and gaps, numbered and stamped.

On a stream of equal events and gaps a buffer of so many bytes and a timer of so many milliseconds
look the same; with varied ones they do not. The first event is the plan, so that a client knows
what should come when.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from math import exp, log

from reference_server.api.errors import ApiError
from reference_server.api.knobs import Knobs
from reference_server.api.service import Service, new_id, stream_headers
from reference_server.asgi import Exchange, Header
from reference_server.clock import sleep_until
from reference_server.sendlog import SendLog

MIN_EVENT_BYTES = 192
"""The smallest size that always holds the event's own fields."""
CONTENT_TYPES = (
    "text/event-stream",
    "application/x-ndjson",
    "application/octet-stream",
    "text/plain",
)
"""What the stream may call itself, whatever its format: boxes treat types by rules of their own."""
_PAD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" * 4
"""What random bytes become: six of their eight bits."""


@dataclass(frozen=True, slots=True)
class CalibrationPlan:
    """What is asked for. Sizes are whole SSE events in bytes, gaps lie before each event."""

    events: int
    min_bytes: int
    max_bytes: int
    min_gap_ms: float
    max_gap_ms: float
    preamble_bytes: int
    format: str
    seed: int

    def draw(self) -> list[tuple[int, float]]:
        """(size in bytes, gap in ms) of each event; sizes and gaps are log-uniform."""
        rng = random.Random(self.seed)
        return [
            (
                round(_log_uniform(rng, self.min_bytes, self.max_bytes)),
                _log_uniform(rng, self.min_gap_ms, self.max_gap_ms),
            )
            for _ in range(self.events)
        ]


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    if low == high:
        return low
    floor = max(low, 0.001)
    return min(high, max(low, exp(rng.uniform(log(floor), log(high)))))


def read_plan(exchange: Exchange) -> tuple[CalibrationPlan, list[Header]]:
    """The plan in the query and the response headers to go with it. Raises ApiError 400."""
    knobs = Knobs(exchange)
    plan = CalibrationPlan(
        events=knobs.count("events", 48, 1, 20_000),
        min_bytes=knobs.count("min_bytes", 256, MIN_EVENT_BYTES, 1_048_576),
        max_bytes=knobs.count("max_bytes", 2048, MIN_EVENT_BYTES, 1_048_576),
        min_gap_ms=knobs.number("min_gap_ms", 5, 0, 600_000),
        max_gap_ms=knobs.number("max_gap_ms", 120, 0, 600_000),
        preamble_bytes=knobs.count("preamble_bytes", 0, 0, 1_048_576),
        format=knobs.word("format", "sse", ("sse", "ndjson")),
        seed=knobs.count("seed", 1, 0, 2**31),
    )
    usual = "text/event-stream" if plan.format == "sse" else "application/x-ndjson"
    content_type = knobs.word("content_type", usual, CONTENT_TYPES)
    if content_type == "text/event-stream":
        content_type += "; charset=utf-8"
    headers = stream_headers(content_type.encode())
    dropped = {
        b"x-accel-buffering": knobs.word("no_buffering_header", "1", ("0", "1")) == "0",
        b"cache-control": knobs.word("no_transform_header", "1", ("0", "1")) == "0",
    }
    knobs.finish()
    if plan.min_bytes > plan.max_bytes or plan.min_gap_ms > plan.max_gap_ms:
        raise ApiError(400, "invalid_value", "A minimum is larger than its maximum.")
    return plan, [each for each in headers if not dropped.get(each[0], False)]


async def calibrate(service: Service, exchange: Exchange) -> None:
    """Send the calibration stream. Raises ApiError 400 and 429, ClientGone."""
    plan, headers = read_plan(exchange)
    size_bytes = plan.preamble_bytes + plan.events * plan.max_bytes
    service.streams.check(size_bytes=size_bytes, duration_ms=plan.events * plan.max_gap_ms)
    await exchange.read_body(service.settings.max_body_bytes)
    try:
        with service.streams.stream():
            await exchange.start(200, headers)
            await exchange.while_connected(_send(plan, exchange, service.send_log))
    finally:
        if service.send_log is not None:
            service.send_log.flush()


async def _send(plan: CalibrationPlan, exchange: Exchange, send_log: SendLog | None) -> None:
    stream = _Stream(plan, exchange, send_log)
    if plan.preamble_bytes:
        await stream.preamble(plan.preamble_bytes)
    drawn = plan.draw()
    events = [{"size": size, "gap_ms": gap} for size, gap in drawn]
    await stream.event("plan", {"plan": asdict(plan), "events": events})
    due_ns = exchange.now()
    for size, gap_ms in drawn:
        due_ns += round(gap_ms * 1e6)
        await sleep_until(due_ns, exchange.now)
        await stream.event("tick", {"due_ns": due_ns}, size)
    await stream.event("end", {"sent": len(drawn)})
    await exchange.end()


class _Stream:
    """Events of an exact size, in SSE or NDJSON."""

    def __init__(self, plan: CalibrationPlan, exchange: Exchange, send_log: SendLog | None) -> None:
        self._sse = plan.format == "sse"
        self._exchange = exchange
        self._send_log = send_log
        self._request_id = new_id("cal_")
        self._padding = random.Random(f"pad/{plan.seed}")
        self._seq = 0

    async def preamble(self, size: int) -> None:
        """`size` bytes that mean nothing: a comment, or white space before the first line."""
        data = b":" + b" " * (size - 3) + b"\n\n" if self._sse else b" " * (size - 1) + b"\n"
        await self._exchange.write(lambda sent_ns: data[-size:])

    async def event(self, kind: str, fields: dict[str, object], size: int | None = None) -> None:
        """One event; padded with incompressible text to `size` bytes as a whole."""
        seq = self._seq
        self._seq += 1
        pad = self._padding.randbytes(size).translate(_PAD) if size else b""

        def render(sent_ns: int) -> bytes:
            stamp = {"seq": seq, "sent_ns": sent_ns, "step": None, "batch": None}
            document = {"kind": kind, **fields, "promptpath": stamp}
            if size is not None:
                document["pad"] = ""
            data = self._frame(kind, document)
            if size is not None:
                # Into the empty string at the end, before its quotation mark.
                after = len(b'"}\n\n' if self._sse else b'"}\n')
                data = data[:-after] + pad[: size - len(data)] + data[-after:]
            if self._send_log is not None:
                self._send_log.note(self._request_id, kind, seq, sent_ns, len(data))
            return data

        await self._exchange.write(render)

    def _frame(self, kind: str, document: dict[str, object]) -> bytes:
        line = json.dumps(document, separators=(",", ":")).encode()
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), line) if self._sse else line + b"\n"
