from __future__ import annotations

import socket
import struct

import pytest

from promptpath.probe import kernel_stamps
from promptpath.probe.kernel_stamps import SendKind, receive_stamp, send_report

SOL = socket.SOL_SOCKET


def timespecs(seconds: int, nanoseconds: int) -> bytes:
    return struct.pack("=qqqqqq", seconds, nanoseconds, 0, 0, 0, 0)


def extended(origin: int, info: int, identifier: int) -> bytes:
    return struct.pack("=IBBBBII", 42, origin, 0, 0, 0, info, identifier) + bytes(16)


@pytest.mark.parametrize("kind", [37, 65])
def test_the_software_stamp_is_read_in_its_old_and_new_form(kind: int) -> None:
    assert receive_stamp([(SOL, kind, timespecs(1_790_000_000, 5))]) == 1_790_000_000_000_000_005


@pytest.mark.parametrize(
    "ancillary",
    [[], [(SOL, 37, b"short")], [(SOL, 37, timespecs(0, 0))], [(SOL, 1, timespecs(1, 1))]],
)
def test_a_read_without_a_stamp_has_none(ancillary: list[tuple[int, int, bytes]]) -> None:
    assert receive_stamp(ancillary) is None


@pytest.mark.parametrize(("level", "kind"), [(0, 11), (41, 25)])
def test_a_send_report_names_kind_byte_and_instant(level: int, kind: int) -> None:
    ancillary = [(SOL, 37, timespecs(1, 2)), (level, kind, extended(4, 2, 99))]
    assert send_report(ancillary) == (SendKind.ACKED, 99, 1_000_000_002)


@pytest.mark.parametrize(
    "entry",
    [
        extended(2, 0, 99),  # ICMP
        extended(4, 1, 99),  # SCHED, not asked for
        b"short",
    ],
)
def test_other_error_queue_entries_are_no_report(entry: bytes) -> None:
    assert send_report([(SOL, 37, timespecs(1, 2)), (0, 11, entry)]) is None
    assert send_report([(0, 11, extended(4, 0, 99))]) is None, "no stamp"


def test_elsewhere_nothing_is_asked_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_stamps, "LINUX", False)
    with socket.socket() as sock:
        assert not kernel_stamps.enable_receive(sock)
        assert not kernel_stamps.enable_send(sock)
        assert list(kernel_stamps.read_error_queue(sock)) == []


def test_a_closed_socket_has_no_reports() -> None:
    sock = socket.socket()
    sock.close()
    assert list(kernel_stamps.read_error_queue(sock)) == []
