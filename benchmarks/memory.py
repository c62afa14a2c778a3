"""Does a long stream stay small? Ten minutes at 1,000 events/s, time-compressed.

The origin sends 600,000 events over TLS, one record each, four times as fast as in life; the
measuring process must stay under 200 MB and lose nothing. Faster would be easier on memory: reads
join, and each read is a row of the log; so the reads are stated. Peak memory is the kernel's
high-water mark of the process (VmHWM), read until it ends.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import tool
from benchmarks.harness import Bar, machine, publish
from tests.peers.certs import make_certificates

EVENTS = 600_000
PEAK_MB = 200.0
"""The bar of the founding issue."""
RUN_S = 900.0
GAP_MS = 0.25
_TEXT = re.compile(rb'"kind":"text"')
_BLOCK_BYTES = 1 << 20


def high_water_mb(process_id: int) -> float | None:
    """VmHWM in MB (10^6); None when the process is gone."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(match[1]) * 1024 / 1e6 if match else None


def watch(process: subprocess.Popen[bytes], log: Path) -> tuple[float | None, float | None]:
    """The peak of a process until the origin logged that it sent everything, and until it ended."""
    streaming = peak = None
    deadline = time.monotonic() + RUN_S
    while process.poll() is None:
        peak = high_water_mb(process.pid) or peak
        if not log.stat().st_size:
            streaming = peak
        if time.monotonic() > deadline:
            process.kill()
        time.sleep(0.02)
    return streaming, peak


def count(path: Path, pattern: re.Pattern[bytes], overlap: int = 32) -> int:
    """How often the pattern is in a file that is too long to read whole."""
    found, rest = 0, b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            data = rest + block
            matches = list(pattern.finditer(data))
            found += len(matches)
            rest = data[max(matches[-1].end() if matches else 0, len(data) - overlap) :]
    return found


def one_run(events: int, scratch: Path) -> dict[str, Any]:
    """Trace so many events; the peak, and what is in the document."""
    certs = make_certificates(scratch)
    output = scratch / "trace.json"
    with tool.origin(
        scratch / "origin.ndjson", tls=certs.good, events=events, gap_ms=GAP_MS, ttft_ms=0
    ) as origin:
        line = tool.command(origin.url, "--cacert", str(certs.ca), "--max-bytes", "4GiB")
        started = time.monotonic()
        with (scratch / "said").open("wb") as said:
            process = subprocess.Popen(
                [*line, "-o", str(output)], stdout=said, stderr=said, cwd=tool.ROOT
            )
            streaming_mb, peak_mb = watch(process, origin.log)
        elapsed_s = time.monotonic() - started
    if not output.exists():
        raise tool.ToolFailedError((scratch / "said").read_text()[-3000:])
    return {
        "events": events,
        "streaming_mb": streaming_mb,
        "peak_mb": peak_mb,
        "elapsed_s": elapsed_s,
        "document_mb": output.stat().st_size / 1e6,
        "text_events": count(output, _TEXT),
        "reads": count(output, re.compile(rb'"layer":"segment-read"')),
        "records": count(output, re.compile(rb'"layer":"tls-record"')),
    }


def main(arguments: list[str]) -> int:
    """Run, publish, judge."""
    events = int(arguments[0]) if arguments else EVENTS
    before = machine()
    with tempfile.TemporaryDirectory() as scratch:
        run = one_run(events, Path(scratch))
    missing = events - run["text_events"]
    bars = [
        Bar(name=f"peak with {events} events", value=run["peak_mb"], unit="MB", limit=PEAK_MB),
        Bar(name="of it while the stream ran", value=run["streaming_mb"], unit="MB"),
        Bar(name="events missing", value=missing, unit="", limit=0),
        Bar(name="events a second", value=events / run["elapsed_s"], unit="/s"),
        Bar(name="reads from the kernel", value=run["reads"], unit=""),
        Bar(name="TLS records", value=run["records"], unit=""),
    ]
    return publish("memory", bars, run, before)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
