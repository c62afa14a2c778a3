"""Do connect, TLS and headers agree with curl? 30 interleaved runs over TLS through the link, 20 ms
each way, alternating who goes first. Needs root.

Both run SCHED_FIFO where that is allowed, which stands for an idle machine: on a busy one the
larger program waits longer for the processor, and that is not a difference in measuring.
curl's times count from its start of the transfer, ours from t0, the first DNS action; the host is
an address, so neither resolves a name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import tool
from benchmarks.harness import Bar, machine, median, publish, run_first
from tests.netns.path import ShimPath
from tests.peers.capture import can_capture
from tests.peers.certs import make_certificates
from tests.peers.programs import find

ROUNDS = 30
WITHIN_MS = 0.2
"""The bar of the founding issue."""
DELAY_MS = 20.0
PHASES = {
    "connect": "time_connect",
    "TLS": "time_appconnect",
    "headers_ms": "time_starttransfer",
}
_FORMAT = json.dumps({phase: f"%{{{name}}}" for phase, name in PHASES.items()})


def curl_ms(path: ShimPath, url: str, ca: Path) -> dict[str, float]:
    """One run of curl."""
    line = [find("curl") or "curl", "-sS", "-N", "-o", "/dev/null", "--http1.1", "--noproxy", "*"]
    line += ["--cacert", str(ca), "-H", "content-type: application/json", "-d", "{}"]
    done = subprocess.run(
        path.client.command(*line, "-w", _FORMAT, url), capture_output=True, check=True, timeout=60
    )
    return {phase: float(value) * 1e3 for phase, value in json.loads(done.stdout).items()}


def ours_ms(path: ShimPath, url: str, ca: Path, scratch: Path) -> dict[str, float]:
    """One run of the tool."""
    document = tool.trace(
        url, scratch, "--cacert", str(ca), "--http", "1.1", prefix=path.client.prefix()
    )
    run = document["runs"][0]
    return {
        "connect": end_ms(run, "tcp"),
        "TLS": end_ms(run, "tls"),
        "headers_ms": run["report"]["latency"]["headers_ms"],
    }


def end_ms(run: dict[str, Any], stage: str) -> float:
    """When the first connection's span of that stage ended, from t0, the first DNS action."""
    ends = [
        span["end_ns"]
        for span in run["trace"]["spans"]
        if span["stage"] == stage and span["outcome"] == "ok" and span["end_ns"] is not None
    ]
    t0_ns = min(span["start_ns"] for span in run["trace"]["spans"])
    return float(min(ends) - t0_ns) / 1e6


def main() -> int:
    """Run, publish, judge."""
    if not can_capture():
        print("curl_phases: left out, namespaces need root", file=sys.stderr)
        return 0
    before = machine()
    fifo = run_first()
    runs: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory() as name, ShimPath(DELAY_MS) as path:
        scratch = Path(name)
        certs = make_certificates(scratch, extra_names=(path.server.address,))
        with tool.origin(
            scratch / "origin.ndjson",
            host=path.server.address,
            prefix=path.server.prefix(),
            tls=certs.good,
            events=5,
            gap_ms=5,
            ttft_ms=50,
        ) as origin:
            for number in range(ROUNDS + 1):
                made: dict[str, dict[str, float]] = {}
                for who in ("curl", "promptpath")[:: 1 if number % 2 else -1]:
                    if who == "curl":
                        made[who] = curl_ms(path, origin.url, certs.ca)
                    else:
                        made[who] = ours_ms(path, origin.url, certs.ca, scratch)
                if number:  # the first pair warms the caches of the disk
                    runs.append(made)
    bars = []
    for phase in PHASES:
        theirs, mine = ([run[who][phase] for run in runs] for who in ("curl", "promptpath"))
        difference = (median(mine) or 0.0) - (median(theirs) or 0.0)
        bars.append(Bar(name=f"{phase}: curl's median", value=median(theirs), unit="ms"))
        bars.append(Bar(name=f"{phase}: ours - curl's", value=difference, unit="ms"))
        bars.append(
            Bar(name=f"{phase}: |difference|", value=abs(difference), unit="ms", limit=WITHIN_MS)
        )
    return publish("curl_phases", bars, {"fifo": fifo, "runs": runs}, before)


if __name__ == "__main__":
    sys.exit(main())
