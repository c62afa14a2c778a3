"""QUIC's client: are datagram stamps exact, and what does a handshake cost us?

    python -m benchmarks.quic

The reference server streams over HTTP/3 through the user-space link, 20 ms each way; tcpdump in the
client's namespace judges every datagram that came in, with the live view on and with a process that
never sleeps beside the client. Needs root. Then the processor time of a handshake, in this process,
against a server on loopback; and exec to first datagram of `trace --http 3`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import tool
from benchmarks.accuracy import DELAY_MS, hog
from benchmarks.harness import Bar, machine, median, percentile, publish, run_first
from benchmarks.judge import ClockLine, realtime_offset_ns
from tests.netns.link import DEVICE
from tests.netns.path import ShimPath
from tests.peers.capture import can_capture, capture, dropped, read_pcap
from tests.peers.certs import Certificates, make_certificates
from tests.peers.process import running

PORT = 8443
EVENTS = 400
GAP_MS = 5
ROUNDS = 20
WORST_US = 5.0
HANDSHAKE_MS = 10.0
FIRST_PACKET_MS = 350.0
"""The bars of the issue."""
_UDP = 17
_LEAST_INITIAL = 1200
"""RFC 9000, 14.1."""


def arrivals_of(pcap: Path) -> list[tuple[int, int]]:
    """(CLOCK_REALTIME ns, payload bytes) of each IPv4 datagram from the server, in order."""
    found = []
    for at_ns, _, packet in read_pcap(pcap.read_bytes()):
        header = (packet[0] & 15) * 4
        if packet[0] >> 4 != 4 or packet[9] != _UDP or len(packet) < header + 8:
            continue
        source, _, length = struct.unpack_from("!HHH", packet, header)
        if source == PORT:
            found.append((at_ns, length - 8))
    return found


@contextlib.contextmanager
def served(path: ShimPath, certs: Certificates, scratch: Path) -> Iterator[None]:
    """The reference server at the far end."""
    command = [sys.executable, "-m", "reference_server", "--engine", "paced"]
    command += ["--host", path.server.address, "--port", str(PORT), "--base-ms", "20"]
    command += ["--cert", str(certs.good.chain), "--key", str(certs.good.key)]
    command += ["--itl-ms", str(GAP_MS)]
    with running(path.server.command(*command), log=scratch / "server.log"):
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with path.client.entered(), contextlib.suppress(OSError):
                socket.create_connection((path.server.address, PORT), 1).close()
                break
            time.sleep(0.05)
        yield


def stamps(busy: bool, certs: Certificates, scratch: Path) -> dict[str, Any]:
    """The errors of all datagram stamps of a trace, ns."""
    url = f"https://localhost:{PORT}/v1/chat/completions"
    before = realtime_offset_ns()
    with ShimPath(DELAY_MS) as path, served(path, certs, scratch):
        with (
            capture(
                scratch / "judge.pcap",
                DEVICE,
                f"udp port {PORT}",
                prefix=path.client.prefix(),
                snap_bytes=96,
                immediate=False,
            ) as pcap,
            hog(busy),
        ):
            more = ["--http", "3", "--cacert", str(certs.ca), "--max-tokens", str(EVENTS)]
            more += ["--model", "promptpath-paced"]
            more += ["--resolve", f"localhost:{PORT}:{path.server.address}"]
            document = tool.trace(url, scratch, *more, prefix=path.client.prefix(), live=True)
    line = ClockLine(before, realtime_offset_ns())
    trace = document["runs"][0]["trace"]
    t0_ns = trace["clock"]["epoch_monotonic_ns"]
    seen = [row for row in trace["arrivals"] if row["layer"] == "datagram"]
    truth = arrivals_of(pcap)
    # What came after we closed is in the capture alone.
    pairs = list(zip(seen, truth, strict=False))
    return {
        "busy": busy,
        "traced": len(seen),
        "captured": len(truth),
        "sizes_agree": all(row["size"] == size for row, (_, size) in pairs),
        "kernel": sum(row["clock"] == "kernel" for row in seen),
        "texts": sum(event["kind"] == "text" for event in trace["events"]),
        "capture_dropped": dropped(pcap),
        "errors_ns": [row["at_ns"] + t0_ns - line.monotonic(at_ns) for row, (at_ns, _) in pairs],
    }


def handshakes(certs: Certificates, scratch: Path) -> list[float]:
    """Processor time of this process from the first datagram to the certificate judged, ms."""
    from promptpath.model.plan import HttpChoice, Plan, Target
    from promptpath.probe.clock import RunClock
    from promptpath.probe.connect import open_connection, prepare, ready_for
    from promptpath.probe.recorder import Recorder

    async def once(plan: Plan) -> float:
        ready = ready_for(plan)
        recorder = Recorder(RunClock.start())
        begun_ns = time.process_time_ns()
        connection = await open_connection(recorder, plan, plan.limits.connect_ns, ready)
        took_ns = time.process_time_ns() - begun_ns
        await connection.link.close()
        return took_ns / 1e6

    command = [sys.executable, "-m", "reference_server", "--engine", "paced", "--host", "127.0.0.1"]
    command += ["--port", str(PORT), "--cert", str(certs.good.chain)]
    command += ["--key", str(certs.good.key)]
    target = Target(scheme="https", host="127.0.0.1", port=PORT, path="/")
    plan = Plan(target=target, http=HttpChoice.H3, ca_file=str(certs.ca))
    with running(command, log=scratch / "loopback.log", port=PORT):
        prepare(plan)
        return [asyncio.run(once(plan)) for _ in range(ROUNDS)]


def first_datagram_ms() -> float:
    """One start of `promptpath trace --http 3` until its Initial is here."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.settimeout(20)
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/v1/chat/completions"
        started_ns = time.monotonic_ns()
        process = subprocess.Popen(
            tool.command(url, "--http", "3"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=tool.ROOT,
        )
        try:
            data = listener.recv(65_535)
            elapsed_ns = time.monotonic_ns() - started_ns
        finally:
            process.kill()
            process.wait()
    assert len(data) >= _LEAST_INITIAL
    return elapsed_ns / 1e6


def main() -> int:
    """Measure everything; 1 when a bar was missed."""
    if not can_capture():
        raise SystemExit("needs root: namespaces and tcpdump")
    before = machine()
    runs: dict[str, Any] = {}
    bars: list[Bar] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        certs = make_certificates(scratch)
        for name, busy in (("idle", False), ("CPU hog", True)):
            run = runs[name] = stamps(busy, certs, scratch)
            errors_us = [abs(error) / 1e3 for error in run["errors_ns"]]
            whole = run["texts"] == EVENTS and run["sizes_agree"]
            whole = whole and run["kernel"] == run["traced"] > EVENTS / 2
            bars += [
                Bar(
                    name=f"{name}: every datagram stamped and found",
                    value=float(whole),
                    unit="",
                    limit=1,
                    better=">=",
                ),
                Bar(
                    name=f"{name}: stamps, median error",
                    value=median(errors_us),
                    unit="us",
                    limit=0.5,
                ),
                Bar(
                    name=f"{name}: stamps, worst error",
                    value=max(errors_us),
                    unit="us",
                    limit=WORST_US,
                ),
            ]
        runs["fifo"] = run_first()
        cpu = runs["handshake_ms"] = handshakes(certs, scratch)
        starts = runs["first_datagram_ms"] = [first_datagram_ms() for _ in range(ROUNDS)]
    bars += [
        Bar(
            name="handshake, our processor time, median",
            value=median(cpu),
            unit="ms",
            limit=HANDSHAKE_MS,
        ),
        Bar(name="handshake, our processor time, p90", value=percentile(cpu, 90), unit="ms"),
        Bar(
            name="exec to first datagram, minimum of 20",
            value=min(starts),
            unit="ms",
            limit=FIRST_PACKET_MS,
        ),
        Bar(name="exec to first datagram, median", value=median(starts), unit="ms"),
    ]
    return publish("quic", bars, runs, before)


if __name__ == "__main__":
    sys.exit(main())
