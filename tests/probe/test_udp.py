from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from promptpath.model.enums import Clock, Layer
from promptpath.model.units import NS_PER_MS
from promptpath.probe.clock import RunClock
from promptpath.probe.kernel_support import KernelSupport
from promptpath.probe.link import Chunk, Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.udp import INBOX_BYTES, UdpLink
from tests.probe.loopback import NO_SUPPORT, PATIENCE_NS, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")


@asynccontextmanager
async def pair(
    support: KernelSupport | None = None,
) -> AsyncIterator[tuple[UdpLink, socket.socket, Recorder]]:
    recorder = Recorder(RunClock.start(support=support))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.bind(("127.0.0.1", 0))
        link = UdpLink.open(recorder, peer.getsockname(), span=7)
        peer.connect(link._sock.getsockname())
        yield link, peer, recorder
        link.close()


async def receive(link: UdpLink, recorder: Recorder) -> list[Chunk | Closed]:
    return await link.receive(recorder.clock.deadline(PATIENCE_NS))


def test_datagrams_read_late_still_have_each_its_own_exact_stamp() -> None:
    async def scenario() -> None:
        async with pair() as (link, peer, recorder):
            clock = recorder.clock
            sent = []
            for index in range(5):
                before_ns = clock.now_ns()
                peer.send(bytes([index]) * 10)
                sent.append((before_ns, clock.now_ns()))
                while clock.now_ns() < before_ns + NS_PER_MS:
                    pass
            items = await receive(link, recorder)
            assert len(items) == 5
            for item, (before_ns, after_ns) in zip(items, sent, strict=True):
                assert item.stamp.exact and item.stamp.clock is Clock.KERNEL
                assert before_ns <= item.stamp.hi_ns and item.stamp.lo_ns <= after_ns
            rows = [(a.layer, a.span, a.offset, a.size) for a in recorder.log.arrivals]
            assert rows == [(Layer.DATAGRAM, 7, 10 * index, 10) for index in range(5)]

    run(scenario)


def test_the_wire_stamp_of_each_marked_datagram_is_exact() -> None:
    async def scenario() -> None:
        async with pair() as (link, _peer, recorder):
            for name in ("first", "second"):
                before_ns = recorder.now_ns()
                link.send(b"query", name)
                sent = link.sent(name)
                assert sent.written and sent.wire and sent.acked is None
                assert sent.wire.exact
                assert before_ns <= sent.wire.hi_ns and sent.wire.lo_ns <= recorder.now_ns()
            assert link.sent("first").wire != link.sent("second").wire

    run(scenario)


def test_without_kernel_support_a_datagram_is_an_interval_on_the_user_clock() -> None:
    async def scenario() -> None:
        async with pair(NO_SUPPORT) as (link, peer, recorder):
            for _ in range(2):
                before_ns = recorder.now_ns()
                peer.send(b"answer")
                after_ns = recorder.now_ns()
                (item,) = await receive(link, recorder)
                assert item.stamp.clock is Clock.USER and not item.stamp.exact
                assert item.stamp.lo_ns <= before_ns and after_ns <= item.stamp.hi_ns
            assert item.stamp.lo_ns > 0, "since the queue was last empty"
            link.send(b"query", "query")
            assert link.sent("query").wire is None

    run(scenario)


def test_a_closed_port_answers_with_an_error_and_no_exception() -> None:
    async def scenario() -> None:
        async with pair() as (link, peer, recorder):
            peer.close()
            link.send(b"query", "query")
            (item,) = await receive(link, recorder)
            assert isinstance(item, Closed)
            assert (item.how, item.detail) == ("error", "Connection refused")

    run(scenario)


def test_an_answer_that_never_comes_is_a_timeout() -> None:
    async def scenario() -> None:
        async with pair() as (link, _peer, recorder):
            with pytest.raises(TimeoutError):
                await link.receive(recorder.clock.deadline(5 * NS_PER_MS))

    run(scenario)


def test_a_stranger_is_not_heard() -> None:
    async def scenario() -> None:
        async with pair() as (link, peer, recorder):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(b"forged", link._sock.getsockname())
            peer.send(b"answer")
            (item,) = await receive(link, recorder)
            assert isinstance(item, Chunk) and item.data == b"answer"

    run(scenario)


def test_closing_wakes_whoever_waits() -> None:
    async def scenario() -> None:
        async with pair() as (link, _peer, _recorder):
            waiting = asyncio.create_task(link.receive())
            await asyncio.sleep(0)
            link.close()
            (item,) = await waiting
            assert isinstance(item, Closed)
            link.send(b"too late")

    run(scenario)


def test_a_flood_that_nobody_reads_is_bounded() -> None:
    async def scenario() -> None:
        async with pair() as (link, peer, recorder):
            for _ in range(200):
                for _ in range(3):
                    peer.send(b"x" * 60_000)
                await asyncio.sleep(0)
            assert link._inbox_bytes <= INBOX_BYTES + 65_535 + 64
            assert not link._reading
            await receive(link, recorder)
            assert link._reading

    run(scenario)


def test_an_address_of_no_use_raises_and_leaves_no_socket() -> None:
    async def scenario() -> None:
        recorder = Recorder(RunClock.start())
        with pytest.raises(OSError):
            UdpLink.open(recorder, ("127.0.0.1", 53), source="192.0.2.1")

    run(scenario)


def test_datagrams_are_counted_by_their_ecn_codepoint() -> None:
    """RFC 3168, section 5: not-ECT 0, ECT(1) 1, ECT(0) 2, CE 3."""

    async def scenario() -> None:
        async with pair() as (link, peer, recorder):
            for codepoint in (0, 2, 2, 3):
                peer.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, codepoint)
                peer.send(b"x")
            seen = 0
            while seen < 4:
                seen += len(await receive(link, recorder))
            assert link.ecn == [1, 0, 2, 1]

    run(scenario)
