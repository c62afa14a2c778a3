from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import socket
from collections.abc import Iterator

import pytest

from promptpath.errors import MeasureError
from promptpath.model.enums import Outcome, Stage
from promptpath.model.names import (
    SPAN_CONNECT,
    SPAN_DIAL,
    SPAN_PROXY_DIAL,
    TCP_INFO,
    TCP_LOCAL,
    TCP_PEER,
    TCP_RTT,
)
from promptpath.model.rows import Span
from promptpath.model.units import NS_PER_MS
from promptpath.probe import dial as dial_module
from promptpath.probe.clock import RunClock
from promptpath.probe.dial import ATTEMPT_DELAY_NS, dial, explain_errno, interleave
from promptpath.probe.recorder import Recorder
from tests.probe.loopback import PATIENCE_NS, pair, run

Address = tuple[str, int]


def recorder() -> Recorder:
    return Recorder(RunClock.start())


def attempts(of: Recorder) -> list[Span]:
    return [span for span in of.log.spans if span.name == SPAN_CONNECT]


def facts(of: Recorder) -> dict[str, object]:
    return {fact.key: fact.value for fact in of.log.facts}


@pytest.fixture
def listening() -> Iterator[Address]:
    """An address that answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


@pytest.fixture
def refusing() -> Address:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.2", 0)) as listener:
        host, port = listener.getsockname()
        return host, port


@pytest.fixture
def silent() -> Iterator[Address]:
    """An address that drops every SYN: the listener's backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.3", 0))
        listener.listen(0)
        for _ in range(3):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()


async def fail(of: Recorder, addresses: list[Address], **options: object) -> MeasureError:
    arguments = {"deadline_ns": of.clock.deadline(PATIENCE_NS), **options}
    with pytest.raises(MeasureError) as caught:
        await dial(of, addresses, **arguments)  # type: ignore[arg-type]
    return caught.value


def test_families_alternate_and_the_first_ones_family_leads() -> None:
    four = [(f"192.0.2.{n}", 443) for n in range(3)]
    six = [(f"2001:db8::{n}", 443) for n in range(2)]
    assert interleave([*six, *four]) == [six[0], four[0], six[1], four[1], four[2]]
    assert interleave([four[0], *six]) == [four[0], six[0], six[1]]
    assert interleave([]) == []


def test_a_connection_is_a_dial_span_around_one_attempt_with_its_facts(
    listening: Address,
) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(r, [listening], deadline_ns=r.clock.deadline(PATIENCE_NS))
        outer, attempt = r.log.spans
        assert (outer.stage, outer.name, outer.outcome) == (Stage.TCP, SPAN_DIAL, Outcome.OK)
        assert (attempt.parent, attempt.conn, attempt.outcome) == (outer.id, 1, Outcome.OK)
        assert outer.conn == link.conn == 1
        assert outer.start_ns <= attempt.start_ns
        assert attempt.end_ns == outer.end_ns
        known = facts(r)
        address, port = listening
        assert known[TCP_PEER] == {"address": address, "port": port, "family": "ipv4"}
        assert known[TCP_LOCAL] == dict(
            zip(("address", "port"), link._sock.getsockname(), strict=True)
        )
        info, rtt = known[TCP_INFO], known[TCP_RTT]
        assert isinstance(info, dict) and info["when"] == "connected" and info["state"] == 1
        assert isinstance(rtt, dict) and 0 < rtt["rtt_ns"] < attempt.end_ns
        await link.close()

    run(scenario)


def test_a_proxys_connection_is_named_so(listening: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(
            r, [listening], deadline_ns=r.clock.deadline(PATIENCE_NS), stage=Stage.PROXY
        )
        assert [(s.stage, s.name) for s in r.log.spans] == [
            (Stage.PROXY, SPAN_PROXY_DIAL),
            (Stage.PROXY, SPAN_CONNECT),
        ]
        await link.close()

    run(scenario)


def test_a_refused_address_costs_no_delay_when_another_one_is_left(
    refusing: Address, listening: Address
) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(r, [refusing, listening], deadline_ns=r.clock.deadline(PATIENCE_NS))
        lost, won = attempts(r)
        assert (lost.outcome, won.outcome) == (Outcome.FAILED, Outcome.OK)
        assert lost.error == f"127.0.0.2:{refusing[1]}: connection refused"
        assert (lost.conn, won.conn, link.conn) == (1, 2, 2)
        assert lost.end_ns is not None
        assert won.start_ns - lost.end_ns < ATTEMPT_DELAY_NS // 2
        await link.close()

    run(scenario)


def test_a_silent_address_is_overtaken_after_a_quarter_second_and_cancelled(
    silent: Address, listening: Address
) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(r, [silent, listening], deadline_ns=r.clock.deadline(PATIENCE_NS))
        lost, won = attempts(r)
        assert (lost.outcome, won.outcome) == (Outcome.CANCELLED, Outcome.OK)
        assert lost.error is not None and lost.error.endswith("another one won")
        assert won.start_ns - lost.start_ns >= ATTEMPT_DELAY_NS
        await link.close()

    run(scenario)


def test_a_silent_address_alone_times_out_at_the_deadline(silent: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        error = await fail(r, [silent], deadline_ns=r.clock.deadline(30 * NS_PER_MS))
        assert (error.stage, error.code) == ("tcp", "connect-timeout")
        assert error.where is not None and str(silent[1]) in error.where
        assert [s.outcome for s in r.log.spans] == [Outcome.TIMED_OUT, Outcome.TIMED_OUT]

    run(scenario)


def test_a_refused_address_alone_is_an_error_that_names_it(refusing: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        error = await fail(r, [refusing])
        assert (error.stage, error.code, error.what) == ("tcp", "refused", "connection refused")
        assert error.where == f"tcp, 127.0.0.2:{refusing[1]}: connection refused"
        assert error.hint
        assert [s.outcome for s in r.log.spans] == [Outcome.FAILED, Outcome.FAILED]

    run(scenario)


def test_when_all_fail_the_first_ones_reason_leads_and_all_are_named(refusing: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        second = ("127.0.0.4", refusing[1])
        error = await fail(r, [refusing, second], stage=Stage.PROXY)
        assert (error.stage, error.code) == ("proxy", "refused")
        assert error.what == "none of 2 addresses answered: connection refused"
        assert error.where is not None and "127.0.0.2" in error.where and "127.0.0.4" in error.where

    run(scenario)


def test_no_address_at_all_is_said_so() -> None:
    async def scenario() -> None:
        error = await fail(recorder(), [])
        assert error.code == "no-address"

    run(scenario)


def test_a_name_is_not_looked_up() -> None:
    async def scenario() -> None:
        error = await fail(recorder(), [("localhost", 80)])
        assert error.code == "connect-failed"

    run(scenario)


def test_the_source_address_is_used_and_a_foreign_one_explained(listening: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(
            r, [listening], deadline_ns=r.clock.deadline(PATIENCE_NS), source="127.0.0.9"
        )
        local = facts(r)[TCP_LOCAL]
        assert isinstance(local, dict) and local["address"] == "127.0.0.9"
        await link.close()
        for source in ("192.0.2.1", "::1"):
            error = await fail(recorder(), [listening], source=source)
            assert error.code == "source-address"
            assert error.what == f"cannot send from {source}"

    run(scenario)


def test_the_interface_is_used_and_a_missing_one_explained(listening: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        link = await dial(r, [listening], deadline_ns=r.clock.deadline(PATIENCE_NS), interface="lo")
        await link.close()
        error = await fail(recorder(), [listening], interface="nosuch0")
        assert (error.code, error.what) == ("interface", "no interface nosuch0")

    run(scenario)


def test_cancelling_a_dial_closes_its_sockets(silent: Address) -> None:
    async def scenario() -> None:
        r = recorder()
        before = len(os.listdir("/proc/self/fd"))
        task = asyncio.create_task(dial(r, [silent], deadline_ns=r.clock.deadline(PATIENCE_NS)))
        await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before
        assert [s.outcome for s in r.log.spans] == [Outcome.CANCELLED, Outcome.CANCELLED]

    run(scenario)


def test_a_connection_that_nobody_took_is_closed(
    listening: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise asyncio.CancelledError

    async def scenario() -> None:
        r = recorder()
        before = len(os.listdir("/proc/self/fd"))
        monkeypatch.setattr("promptpath.probe.dial._link", fails)
        with pytest.raises(asyncio.CancelledError):
            await dial(r, [listening], deadline_ns=r.clock.deadline(PATIENCE_NS))
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == before

    run(scenario)


def test_ipv6_is_dialled_as_well() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 on loopback; sysctl net.ipv6.conf.lo.disable_ipv6=0")

    async def scenario() -> None:
        r = recorder()
        port = listener.getsockname()[1]
        link = await dial(r, [("::1", port)], deadline_ns=r.clock.deadline(PATIENCE_NS))
        assert facts(r)[TCP_PEER] == {"address": "::1", "port": port, "family": "ipv6"}
        link.write(b"x", "mark")
        sent = await link.sent_wire("mark", r.clock.deadline(PATIENCE_NS))
        assert sent.wire and sent.wire.exact
        await link.close()

    with listener:
        run(scenario)


def test_a_socket_that_cannot_be_made_is_a_failed_attempt(
    listening: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_more(*args: object) -> socket.socket:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario() -> None:
        r = recorder()
        monkeypatch.setattr(socket, "socket", no_more)
        error = await fail(r, [listening])
        monkeypatch.undo()
        assert (error.code, error.what) == ("connect-failed", "too many open files")
        assert [s.outcome for s in attempts(r)] == [Outcome.FAILED]

    run(scenario)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ECONNREFUSED, "refused"),
        (errno.ENETUNREACH, "unreachable"),
        (errno.EHOSTUNREACH, "unreachable"),
        (errno.EADDRNOTAVAIL, "unreachable"),
        (errno.ETIMEDOUT, "connect-timeout"),
        (errno.ECONNRESET, "reset"),
        (errno.EACCES, "denied"),
        (errno.EPERM, "denied"),
        (errno.EIO, "connect-failed"),
    ],
)
def test_errors_of_connecting_are_told_apart(number: int, code: str) -> None:
    assert explain_errno(OSError(number, "x"), None, None)[0] == code


@pytest.mark.parametrize(
    ("info", "end_ns"),
    [
        ({"rtt_us": 40, "total_retrans": 0}, 50_000),
        ({"rtt_us": 40, "total_retrans": 1}, 900_000),  # Karn: no sample of a SYN sent twice
        ({"rtt_us": 0, "total_retrans": 0}, 900_000),
        ({"rtt_us": 5000, "total_retrans": 0}, 900_000),  # never later than we saw it
        (None, 900_000),
    ],
)
def test_a_connection_stood_when_the_kernel_says(info: dict[str, int] | None, end_ns: int) -> None:
    attempt = dial_module._Attempt("127.0.0.1", 1, 1, start_ns=10_000, end_ns=900_000, info=info)
    assert dial_module._established_ns(attempt) == end_ns


def test_the_span_of_an_attempt_is_the_kernels_round_trip() -> None:
    async def scenario() -> None:
        async with pair() as p:
            (rtt,) = [fact.value for fact in p.recorder.log.facts if fact.key == "tcp.rtt"]
            (span,) = [span for span in p.recorder.log.spans if span.name == "connect"]
            assert span.end_ns is not None
            # The SYN leaves a little after the span begins; when we saw its answer is no matter.
            assert 0 <= span.end_ns - span.start_ns - rtt["rtt_ns"] < 5 * NS_PER_MS

    run(scenario)
