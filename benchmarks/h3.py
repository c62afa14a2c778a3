"""HTTP/3: 200 streams at once on one connection, 20 events/s each, one core each side.

Lateness is an event's arrival at the client (read from its socket, CLOCK_MONOTONIC) less its
designed time, which it carries; both processes are on this host. CPU is the server process's, from
the first request to the last event, by /proc. The start is the longest time from a request to its
first event: a server that lets 128 streams run makes the 129th wait for the first to end.

`own` is our listener and `hypercorn` is hypercorn with the same application (benchmarks.h3_app),
in alternating runs. There all streams tick together, so that five events share a datagram.
`calibrate` is the reference server as it is, with its calibration stream: a plan of 2 KiB a stream
at the start, which spreads the streams. Its timer then fires on whole milliseconds (finetimer), so
that events share turns of the loop and datagrams.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from aioquic.h3.events import DataReceived, H3Event

from benchmarks.harness import Bar, machine, median, percentile, publish, run_first
from tests.peers.certs import Certificates, make_certificates
from tests.peers.h3_client import H3Client, client_configuration

STREAMS = 200
EVENTS = 60
GAP_MS = 50
RUNS = 3
_NS_PER_MS = 1e6
_TICKS = os.sysconf("SC_CLK_TCK")
CALIBRATE = (
    f"/promptpath/calibrate?events={EVENTS}&min_gap_ms={GAP_MS}&max_gap_ms={GAP_MS}"
    "&min_bytes=192&max_bytes=192"
)
TICKS = f"/{EVENTS}/{GAP_MS}"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave."""

    server: str
    events: int
    lateness_ms: dict[str, float | None]
    cpu_us_per_event: float
    start_ms: float
    wall_s: float


class _Stamping(H3Client):
    """Keeps the time of each piece."""

    def connection_made(self, transport: object) -> None:
        super().connection_made(transport)
        self.at: dict[int, list[int]] = {}
        self.left = STREAMS
        self.all_ended = asyncio.Event()

    def _handle_http(self, event: H3Event) -> None:
        if isinstance(event, DataReceived):
            self.at.setdefault(event.stream_id, []).append(time.monotonic_ns())
            self.left -= event.stream_ended
            if not self.left:
                self.all_ended.set()
        super()._handle_http(event)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _streams(port: int, certs: Certificates, pid: int, name: str) -> Run:
    loop = asyncio.get_running_loop()
    configuration = client_configuration(certs.ca)
    address = ("127.0.0.1", port)
    transport, client = await loop.create_datagram_endpoint(
        lambda: _Stamping(configuration, address), remote_addr=address
    )
    client.connect()
    client.flush()
    await client.until(lambda: client.handshake or client.closed)
    cpu, began_ns = _cpu_s(pid), time.monotonic_ns()
    path = CALIBRATE if name == "calibrate" else TICKS
    ids = [client.ask(b"GET", path.encode()) for _ in range(STREAMS)]
    client.flush()
    await asyncio.wait_for(client.all_ended.wait(), 60)
    wall_ns = time.monotonic_ns() - began_ns
    cpu = _cpu_s(pid) - cpu
    late = [ms for each in ids for ms in _lateness(client, each)]
    client.quic.close()
    client.flush()
    client.leave()
    transport.close()
    start_ms = max(client.at[each][0] - began_ns for each in ids) / _NS_PER_MS
    shares = {f"p{p}": percentile(late, p) for p in (50, 99)} | {"max": max(late)}
    return Run(name, len(late), shares, cpu / len(late) * 1e6, start_ms, wall_ns / 1e9)


def _lateness(client: _Stamping, stream_id: int) -> list[float]:
    """Of each event, ms. An event that came in two pieces counts when its end came."""
    found, text = [], b""
    for at_ns, piece in zip(client.at[stream_id], client.answers[stream_id].pieces, strict=True):
        text += piece
        while b"\n\n" in text:
            event, _, text = text.partition(b"\n\n")
            if event.startswith(b"event: tick"):
                fields = json.loads(event.partition(b"data: ")[2])
                found.append((at_ns - fields["due_ns"]) / _NS_PER_MS)
    assert len(found) == EVENTS, "an event is missing"
    return found


@contextlib.contextmanager
def _calibrate(certs: Certificates) -> Iterator[tuple[int, int]]:
    command = [sys.executable, "-m", "reference_server", "--engine", "none", "--announce"]
    command += ["--stop-with-stdin", "--test-streams", "1000"]
    command += ["--cert", str(certs.good.chain), "--key", str(certs.good.key)]
    with _announced(command) as found:
        yield found


@contextlib.contextmanager
def _own(certs: Certificates) -> Iterator[tuple[int, int]]:
    files = [str(certs.good.chain), str(certs.good.key)]
    with _announced([sys.executable, "-m", "benchmarks.h3_app", *files]) as found:
        yield found


@contextlib.contextmanager
def _announced(command: list[str]) -> Iterator[tuple[int, int]]:
    """A server that says its port and ends with its standard input: port and process."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield int(json.loads(process.stdout.readline())["port"]), process.pid
        finally:
            process.stdin.close()


@contextlib.contextmanager
def _hypercorn(certs: Certificates) -> Iterator[tuple[int, int]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "hypercorn.toml"
        settings.write_text(
            f'bind = ["127.0.0.1:{port}"]\nquic_bind = ["127.0.0.1:{port}"]\nworkers = 0\n'
            f'certfile = "{certs.good.chain}"\nkeyfile = "{certs.good.key}"\n'
        )
        command = [sys.executable, "-m", "hypercorn", "-c", str(settings), "benchmarks.h3_app:app"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                for line in process.stderr:
                    if "QUIC" in line or "quic" in line:
                        break
                yield port, process.pid
            finally:
                process.terminate()


SERVERS = {"own": _own, "hypercorn": _hypercorn, "calibrate": _calibrate}


def measure(name: str, certs: Certificates) -> Run:
    """One run against one server; the server has core 0, the client the last."""
    with SERVERS[name](certs) as (port, pid):
        os.sched_setaffinity(pid, {0})
        os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
        gc.collect()
        gc.disable()
        try:
            return asyncio.run(_streams(port, certs, pid, name))
        finally:
            gc.enable()
            os.sched_setaffinity(0, range(os.cpu_count() or 1))


def _p99(runs: list[Run]) -> list[float]:
    return [p99 for run in runs if (p99 := run.lateness_ms["p99"]) is not None]


def main() -> int:
    """Measure and publish; 1 when a bar was missed."""
    before = machine()
    first = run_first()
    with tempfile.TemporaryDirectory() as folder:
        certs = make_certificates(Path(folder))
        runs = [measure(name, certs) for _ in range(RUNS) for name in SERVERS]
    bars = []
    for name in SERVERS:
        mine = [run for run in runs if run.server == name]
        values = {
            "lateness p99": (median(_p99(mine)), "ms", 50.0),
            "server CPU per event": (median([run.cpu_us_per_event for run in mine]), "us", 150.0),
            "longest start of a stream": (median([run.start_ms for run in mine]), "ms", 1000.0),
        }
        for what, (value, unit, limit) in values.items():
            judged = name != "hypercorn"
            bars.append(
                Bar(name=f"{name}: {what}", value=value, unit=unit, limit=limit if judged else None)
            )
    runs_json = {"sched_fifo": first, "runs": [asdict(run) for run in runs]}
    for run in runs:
        print(run)
    return publish("h3", bars, runs_json, before)


if __name__ == "__main__":
    sys.exit(main())
