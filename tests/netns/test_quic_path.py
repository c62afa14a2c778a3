"""HTTP/3 over a path of 40 ms: each round trip of the handshake is seen, named and counted."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import environment
from tests.e2e.trip import CHAT, Trip
from tests.netns.path import ShimPath, require_netns
from tests.peers.certs import Certificates
from tests.peers.process import START_S, running
from tests.peers.require import require

pytestmark = [pytest.mark.netns, pytest.mark.slow]
RTT_MS = 40.0
PORT = 8443


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_netns()


@contextmanager
def served(certs: Certificates, directory: Path, *options: str, **shim: Any) -> Iterator[ShimPath]:
    """The reference server at the far end of the path."""
    with ShimPath(delay_ms=RTT_MS / 2, **shim) as path:
        command = [sys.executable, "-m", "reference_server", "--host", path.server.address]
        command += ["--port", str(PORT), "--base-ms", "5", "--itl-ms", "5"]
        command += ["--cert", str(certs.good.chain), "--key", str(certs.good.key), *options]
        with running(path.server.command(*command), log=directory / "server.log"):
            wait_until_accepting(path)
            yield path


def wait_until_accepting(path: ShimPath, port: int = PORT) -> None:
    """It listens to UDP once it accepts over TCP."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with path.client.entered(), contextlib.suppress(OSError):
            socket.create_connection((path.server.address, port), timeout=2).close()
            return
        time.sleep(0.05)
    pytest.fail("the server does not accept")


def traced(
    path: ShimPath, certs: Certificates, *options: str, code: int = 0, port: int = PORT
) -> Trip:
    """One prompt from the client's end."""
    url = f"https://localhost:{port}{CHAT}"
    command = [sys.executable, "-m", "promptpath", "trace", url, "--json", "--http", "3"]
    command += ["--resolve", f"localhost:{port}:{path.server.address}", "--proxy", "none"]
    command += ["--cacert", str(certs.ca), "--model", "promptpath-paced", "--max-tokens", "4"]
    done = subprocess.run(  # a later --http wins
        path.client.command(*command, *options),
        capture_output=True,
        timeout=90,
        env=environment(),
    )
    assert done.returncode == code, done.stderr.decode()
    (run,) = json.loads(done.stdout)["runs"]
    return Trip(run["trace"], run["report"])


@pytest.mark.parametrize(
    ("options", "round_trips"),
    [((), 1), (("--quic-retry",), 2), (("--quic-fault", "version-negotiation"), 2)],
)
def test_round_trips_of_the_handshake(
    options: tuple[str, ...], round_trips: int, certs: Certificates, tmp_path: Path
) -> None:
    with served(certs, tmp_path, *options) as path:
        found = traced(path, certs)
    assert found.fact("quic.handshake")["round_trips"] == round_trips
    took = found.hop_ms("quic")
    assert round_trips * RTT_MS <= took < (round_trips + 1) * RTT_MS
    rtt = next(each for each in found.facts("quic.rtt") if each["conn"] == 1)
    assert RTT_MS <= rtt["min_ns"] / 1e6 < RTT_MS + 10


def test_early_data_saves_the_round_trip(certs: Certificates, tmp_path: Path) -> None:
    with served(certs, tmp_path) as path:
        found = traced(path, certs, "--early-data")
    early = found.fact("quic.early_data")
    assert early["accepted"] is True
    # The head comes after one round trip, where the handshake alone takes one.
    assert RTT_MS <= early["head_ns"] / 1e6 < 2 * RTT_MS
    assert early["saved_ns"] / 1e6 >= RTT_MS - 1


def test_loss_is_counted_and_the_answer_whole(certs: Certificates, tmp_path: Path) -> None:
    with served(certs, tmp_path, loss=0.05, seed=7) as path:
        found = traced(path, certs, "--max-tokens", "200", "--timeout", "60s")
    assert len(found.texts) == 200
    packets = next(each for each in found.facts("quic.packets") if each["conn"] == 1)
    lost = [m for m in found.marks("quic-packet") if m["detail"]["what"] == "lost"]
    assert len([m for m in lost if m["conn"] == 1]) == packets["lost"]


_CADDYFILE = """\
{{
    admin off
    auto_https off
}}
https://localhost:{port} {{
    bind {address}
    tls {chain} {key}
    reverse_proxy {upstream} {{
        transport http {{
            tls_insecure_skip_verify
        }}
    }}
}}
"""


@contextmanager
def caddy_there(certs: Certificates, directory: Path, path: ShimPath) -> Iterator[int]:
    """Caddy before our server, at the far end of the same path; its port."""
    program, port = require("caddy"), PORT + 1
    config = directory / "Caddyfile"
    config.write_text(
        _CADDYFILE.format(
            port=port,
            address=path.server.address,
            chain=certs.good.chain,
            key=certs.good.key,
            upstream=f"https://{path.server.address}:{PORT}",
        )
    )
    command = [program, "run", "--config", str(config), "--adapter", "caddyfile"]
    home = {"HOME": str(directory), "XDG_DATA_HOME": str(directory)}
    home["XDG_CONFIG_HOME"] = str(directory)
    log = directory / "caddy.log"
    with running(path.server.command(*command), log=log, environment=home):
        wait_until_accepting(path, port)
        yield port


def test_one_round_trip_to_caddy(certs: Certificates, tmp_path: Path) -> None:
    with served(certs, tmp_path) as path, caddy_there(certs, tmp_path, path) as port:
        found = traced(path, certs, port=port)
    assert found.fact("quic.handshake")["round_trips"] == 1
    assert RTT_MS <= found.hop_ms("quic") < 2 * RTT_MS
    assert "caddy" in found.headers.get("via", "").lower() + found.headers["server"].lower()


def compared(path: ShimPath, certs: Certificates, port: int) -> dict[str, dict[str, Any]]:
    """`matrix --vary http` from the client's end, by cell."""
    url = f"https://localhost:{port}{CHAT}"
    command = [sys.executable, "-m", "promptpath", "matrix", url, "--json", "--vary", "http"]
    command += ["--resolve", f"localhost:{port}:{path.server.address}", "--proxy", "none"]
    command += ["--cacert", str(certs.ca), "--model", "promptpath-paced", "--max-tokens", "4"]
    done = subprocess.run(
        path.client.command(*command, "--repeat", "4"),
        capture_output=True,
        timeout=120,
        env=environment(),
    )
    assert done.returncode == 0, done.stderr.decode()
    return {cell["name"]: cell for cell in json.loads(done.stdout)["cells"]}


def check_round_trips(cells: dict[str, dict[str, Any]]) -> None:
    """TCP and TLS take a round trip each, QUIC one for both."""
    for name, round_trips in (("http 1.1", 2), ("http 2", 2), ("http 3", 1)):
        cell = cells[name]
        assert [run["outcome"] for run in cell["runs"]] == ["ok"] * 4
        took = cell["medians"]["connect_ms"]
        assert round_trips * RTT_MS <= took < (round_trips + 1) * RTT_MS, name


def test_versions_side_by_side(certs: Certificates, tmp_path: Path) -> None:
    with served(certs, tmp_path) as path:
        check_round_trips(compared(path, certs, PORT))


def test_versions_side_by_side_through_caddy(certs: Certificates, tmp_path: Path) -> None:
    with served(certs, tmp_path) as path, caddy_there(certs, tmp_path, path) as port:
        check_round_trips(compared(path, certs, port))


def test_a_firewall_that_drops_udp_costs_the_race_its_head_start(
    certs: Certificates, tmp_path: Path
) -> None:
    require("nft")
    with served(certs, tmp_path) as path:
        for line in (
            "add table inet walls",
            "add chain inet walls in { type filter hook input priority 0; }",
            f"add rule inet walls in udp dport {PORT} drop",
        ):
            subprocess.run(path.server.command("nft", *line.split()), check=True)
        raced = traced(path, certs, "--http", "race")
        silent = traced(path, certs, "--connect-timeout", "1s", code=3)
        offered = traced(path, certs, "--http", "auto")
    assert raced.fact("quic.race")["winner"] == "tcp" and raced.hop_ms("quic") >= 249
    assert silent.fact("failure")["code"] == "udp-silent"
    assert offered.fact("quic.udp")["what"] == "silence" and "PP230" in offered.codes


def test_fragmented_datagrams_that_are_no_quic(certs: Certificates) -> None:
    """5,000 bytes do not fit the link's MTU: they come in fragments and are put together."""
    with ShimPath(delay_ms=RTT_MS / 2) as path:
        with path.server.entered():
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.bind((path.server.address, PORT))
        stop = threading.Event()

        def serve() -> None:
            sock.settimeout(0.1)
            while not stop.is_set():
                with contextlib.suppress(TimeoutError):
                    sock.sendto(b"\xc3" * 5000, sock.recvfrom(2000)[1])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            found = traced(path, certs, "--connect-timeout", "1s", code=3)
        finally:
            stop.set()
            thread.join()
            sock.close()
    assert found.fact("failure")["code"] == "not-quic" and "PP233" in found.codes
    assert {row["size"] for row in found.trace["arrivals"]} == {5000}
