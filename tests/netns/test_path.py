"""The link does what it says: delay, loss, rate, and nothing stays behind."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import threading
import time

import pytest

from tests.netns.path import ShimPath, require_netns

pytestmark = [pytest.mark.netns, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    require_netns()


def udp_round_trips_ms(path: ShimPath, count: int, gap_s: float = 0.005) -> list[float | None]:
    """Round-trip times of numbered datagrams, None for those that did not come back."""
    with path.server.entered():
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind((path.server.address, 0))
    with path.client.entered():
        client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        client.connect(server.getsockname())
    sent_ns: list[int] = []
    trips: list[float | None] = [None] * count

    def echo() -> None:
        while data := server.recvfrom(100):
            if data[0] == b"stop":
                return
            server.sendto(*data)

    def receive() -> None:
        client.settimeout(0.5)
        try:
            while True:
                number = int(client.recv(100))
                trips[number] = (time.monotonic_ns() - sent_ns[number]) / 1e6
        except TimeoutError:
            return

    threads = [threading.Thread(target=echo), threading.Thread(target=receive)]
    for thread in threads:
        thread.start()
    for number in range(count):
        sent_ns.append(time.monotonic_ns())
        client.send(str(number).encode())
        time.sleep(gap_s)
    threads[1].join()
    with path.server.entered():
        server.sendto(b"stop", server.getsockname())
    threads[0].join()
    server.close()
    client.close()
    return trips


def test_delay_is_added_each_way() -> None:
    with ShimPath(delay_ms=20) as path:
        trips = [trip for trip in udp_round_trips_ms(path, 40) if trip is not None]
    assert len(trips) == 40
    assert min(trips) >= 40.0
    assert statistics.median(trips) < 45.0  # 40.2 on an idle machine; room for a busy one


def test_loss_is_as_asked() -> None:
    with ShimPath(loss=0.3, upload_loss=0.0) as path:
        lost = udp_round_trips_ms(path, 400, gap_s=0.0005).count(None)
    # Binomial, n = 400, p = 0.3: mean 120, sigma 9.2; the dice have a fixed seed.
    assert 80 <= lost <= 160


def test_tcp_takes_both_families_and_the_rate() -> None:
    with ShimPath(delay_ms=1, rate_mbit=8) as path:
        for address, family in (
            (path.server.address, socket.AF_INET),
            (path.server.address6, socket.AF_INET6),
        ):
            with path.server.entered():
                listener = socket.create_server((address, 0), family=family)
            with path.client.entered():
                client = socket.create_connection(listener.getsockname()[:2], timeout=5)
            server, _ = listener.accept()
            started_s = time.monotonic()
            threading.Thread(target=server.sendall, args=(bytes(200_000),)).start()
            left = 200_000
            while left:
                left -= len(client.recv(65536))
            # 200 kB at 8 Mbit/s are 200 ms on the wire; the first window leaves at once.
            assert 0.19 <= time.monotonic() - started_s < 1.0
            for sock in (client, server, listener):
                sock.close()


def test_namespaces_are_gone_afterwards_and_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), ShimPath() as path:
        listed = subprocess.run(path.client.command("ip", "-br", "link"), capture_output=True)
        assert b"pp0" in listed.stdout
        raise ZeroDivisionError
    assert not {path.client.name, path.server.name} & set(os.listdir("/run/netns"))


def test_two_paths_live_side_by_side() -> None:
    with ShimPath(delay_ms=1) as first, ShimPath(delay_ms=1) as second:
        assert None not in udp_round_trips_ms(first, 3)
        assert None not in udp_round_trips_ms(second, 3)
