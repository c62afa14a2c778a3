"""How soon does the command answer? `--help`, and from exec to the first packet of `trace`.

The first packet is the SYN to a listening loopback socket (an IP literal: no name resolution); its
accept is the later end, so the value errs against us by the wake-up of this process.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time

from benchmarks import tool
from benchmarks.harness import Bar, machine, median, publish, run_first

ROUNDS = 20
HELP_MS = 150.0
FIRST_PACKET_MS = 300.0
"""The bars of the founding issue: minimum of 20."""
_PROMPTPATH = [sys.executable, "-m", "promptpath"]


def help_ms() -> float:
    """One run of `promptpath --help`."""
    started_ns = time.monotonic_ns()
    done = subprocess.run([*_PROMPTPATH, "--help"], capture_output=True, cwd=tool.ROOT)
    elapsed_ns = time.monotonic_ns() - started_ns
    if done.returncode or b"trace" not in done.stdout:
        raise RuntimeError(f"--help failed: {done.stderr.decode(errors='replace')}")
    return elapsed_ns / 1e6


def first_packet_ms() -> float:
    """One start of `promptpath trace`, until its connection is accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(
            tool.command(url), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tool.ROOT
        )
        try:
            client, _ = listener.accept()
            elapsed_ns = time.monotonic_ns() - started_ns
            client.close()
        finally:
            process.kill()
            process.wait()
    return elapsed_ns / 1e6


def main() -> int:
    """Run, publish, judge."""
    before = machine()
    fifo = run_first()
    help_ms()  # the first one writes the byte code
    helps, packets = [], []
    for _ in range(ROUNDS):
        helps.append(help_ms())
        packets.append(first_packet_ms())
    bars = [
        Bar(name="--help, minimum of 20", value=min(helps), unit="ms", limit=HELP_MS),
        Bar(name="--help, median", value=median(helps), unit="ms"),
        Bar(
            name="exec to first packet, minimum of 20",
            value=min(packets),
            unit="ms",
            limit=FIRST_PACKET_MS,
        ),
        Bar(name="exec to first packet, median", value=median(packets), unit="ms"),
    ]
    runs = {"fifo": fifo, "help_ms": helps, "first_packet_ms": packets}
    return publish("startup", bars, runs, before)


if __name__ == "__main__":
    sys.exit(main())
