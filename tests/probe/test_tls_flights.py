from __future__ import annotations

from promptpath.model.enums import Stage
from promptpath.model.stamp import Stamp, user_stamp
from promptpath.probe.link import Sent
from promptpath.probe.tls_flights import Flights
from promptpath.probe.tls_observer import HandshakeObserver
from tests.probe.tls_client import Client

FINISHED = b"\x14\0\0\0"


class SlowKernel:
    """Of a link, what a flight needs: send stamps that become known one by one."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, str | None]] = []
        self.wire: Stamp | None = None
        self.acked: Stamp | None = None

    def write(self, data: bytes, mark: str | None = None) -> None:
        self.written.append((data, mark))

    def sent(self, mark: str) -> Sent:
        return Sent(user_stamp(3), self.wire, self.acked)


def flights() -> tuple[Client, SlowKernel, HandshakeObserver, Flights]:
    client, kernel = Client(), SlowKernel()
    observer = HandshakeObserver(client.recorder, stage=Stage.TLS, prefix="tls.", conn=1)
    return client, kernel, observer, Flights(kernel, observer, "tls.")  # type: ignore[arg-type]


def times(client: Client, name: str) -> list[int]:
    return [mark.at_ns for mark in client.marks(name)]


def test_each_stamp_is_recorded_once_when_it_is_known() -> None:
    client, kernel, observer, under_test = flights()
    observer.message(True, 22, FINISHED)
    under_test.write(b"flight", None, client.recorder.clock)
    observer.settle()
    assert kernel.written == [(b"flight", "tls.flight-1")]
    assert times(client, "message") == [3]
    under_test.note()
    assert times(client, "flight-wire") == []
    kernel.wire = user_stamp(5)
    under_test.note()
    under_test.note()
    assert (times(client, "flight-wire"), times(client, "flight-acked")) == ([5], [])
    kernel.acked = user_stamp(9)
    under_test.note()
    under_test.note()
    assert (times(client, "flight-wire"), times(client, "flight-acked")) == ([5], [9])


def test_the_callers_mark_keeps_its_stamps() -> None:
    client, kernel, observer, under_test = flights()
    kernel.wire = kernel.acked = user_stamp(5)
    observer.message(True, 22, FINISHED)
    under_test.write(b"request", "request", client.recorder.clock)
    under_test.note()
    observer.settle()
    assert kernel.written == [(b"request", "request")]
    assert times(client, "message") == [3]
    assert times(client, "flight-wire") == []


def test_what_is_forgotten_is_not_asked_for() -> None:
    client, kernel, observer, under_test = flights()
    observer.message(True, 22, FINISHED)
    under_test.write(b"flight", None, client.recorder.clock)
    under_test.forget()
    kernel.wire = user_stamp(5)
    under_test.note()
    assert times(client, "flight-wire") == []
