"""What does the tool add to one TTFT? Fresh process, one request, loopback, the origin's log.

Error = reported TTFT - (first event sent - request whole at the origin): it holds everything the
client adds in both directions, the connection included. In the same measure httpx adds 22 ms,
aiohttp 1.3, a raw socket 0.5; as there, the client runs SCHED_FIFO where that is allowed, which
stands for an idle machine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import tool
from benchmarks.harness import Bar, machine, median, percentile, publish, run_first

ROUNDS = 21
EVENTS = 20
MEDIAN_MS = 0.6
"""The bar of the founding issue."""


def one_run(origin: tool.Origin, scratch: Path) -> dict[str, Any]:
    """One fresh process against the origin."""
    document = tool.trace(origin.url, scratch)
    record = origin.records()[-1]
    run = document["runs"][0]
    latency = run["report"]["latency"]
    sent_ms = (record["events"][0][0] - record["request_ns"]) / 1e6
    first = tool.content_events(document)[0]
    arrived_ns = run["trace"]["clock"]["epoch_monotonic_ns"] + first["at_ns"]
    return {
        "origin_ttft_ms": sent_ms,
        "ttft_ms": latency["ttft_ms"],
        "error_ms": latency["ttft_ms"] - sent_ms,
        "ttft_request_error_ms": latency["ttft_request_ms"] - sent_ms,
        "one_way_us": (arrived_ns - record["events"][0][0]) / 1e3,
        "exact": first["exact"],
    }


def main() -> int:
    """Run, publish, judge."""
    before = machine()
    fifo = run_first()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        with tool.origin(scratch / "origin.ndjson", events=EVENTS, gap_ms=5) as origin:
            one_run(origin, scratch)
            runs = [one_run(origin, scratch) for _ in range(ROUNDS)]
    errors = [run["error_ms"] for run in runs]
    bars = [
        Bar(name="TTFT error, median of 21", value=median(errors), unit="ms", limit=MEDIAN_MS),
        Bar(name="TTFT error, p90", value=percentile(errors, 90), unit="ms"),
        Bar(
            name="TTFT from the last request byte, median error",
            value=median([run["ttft_request_error_ms"] for run in runs]),
            unit="ms",
        ),
        Bar(
            name="first event, stamp - send",
            value=median([run["one_way_us"] for run in runs]),
            unit="us",
        ),
    ]
    return publish("oneshot", bars, {"fifo": fifo, "runs": runs}, before)


if __name__ == "__main__":
    sys.exit(main())
