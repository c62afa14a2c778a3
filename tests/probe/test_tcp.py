from __future__ import annotations

import asyncio
import socket
import sys
import threading

import pytest

from promptpath.errors import MeasureError
from promptpath.model.enums import Clock, Layer
from promptpath.model.units import NS_PER_MS
from promptpath.probe import tcp
from promptpath.probe.clock import RunClock
from promptpath.probe.link import Chunk, Closed, Sent
from promptpath.probe.recorder import Recorder
from promptpath.probe.sockets import prepare
from promptpath.probe.tcp import INBOX_BYTES, READ_BYTES, TcpLink
from tests.probe.loopback import NO_SUPPORT, PATIENCE_NS, Pair, pair, run

kernel = pytest.mark.skipif(sys.platform != "linux", reason="kernel stamps are Linux's")
pytestmark = kernel
UPLOAD_BYTES = 2_000_000


def swallow(peer: socket.socket, size: int) -> threading.Thread:
    """Read so many bytes at the peer, in a thread."""

    def read() -> None:
        left = size
        while left > 0 and (data := peer.recv(65536)):
            left -= len(data)

    thread = threading.Thread(target=read)
    thread.start()
    return thread


# -- receive stamps --------------------------------------------------------------------------------


def test_segments_one_at_a_time_are_exact_and_right() -> None:
    async def scenario() -> None:
        async with pair() as p:
            for size in [100] * 50:
                before_ns, after_ns = p.send(b"x" * size)
                stamp = (await p.chunk()).stamp
                assert stamp.exact and stamp.clock is Clock.KERNEL
                assert stamp.lo_ns <= after_ns and before_ns <= stamp.hi_ns
                assert stamp.error_ns <= 1_000

    run(scenario)


def test_the_first_segment_is_exact_even_if_it_came_before_the_link_was_made() -> None:
    async def scenario() -> None:
        recorder = Recorder(RunClock.start())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            sock = socket.socket()
            prepare(sock, stamps=True)
            sock.connect_ex(listener.getsockname())
            with listener.accept()[0] as peer:
                peer.send(b"220 ready")
                link = TcpLink(sock, recorder, conn=1, since_ns=0)
                p = Pair(link, peer, recorder)
                assert (await p.chunk()).stamp.exact
                await link.close()

    run(scenario)


def test_a_coalesced_read_is_an_interval_that_holds_every_arrival() -> None:
    async def scenario() -> None:
        async with pair() as p:
            first = p.send(b"0" * 100)
            await p.chunk()
            sent = [p.send(bytes([65 + index]) * 100) for index in range(5)]
            chunk = await p.chunk()
            assert len(chunk.data) == 500
            assert not chunk.stamp.exact and chunk.stamp.clock is Clock.KERNEL
            assert chunk.stamp.lo_ns <= first[1]
            assert chunk.stamp.lo_ns <= sent[0][0] and sent[-1][0] <= chunk.stamp.hi_ns
            assert sent[-1][0] <= chunk.stamp.at_ns <= sent[-1][1]
            assert [arrival.segments for arrival in p.arrivals] == [1, 5]

    run(scenario)


def test_after_a_coalesced_read_segments_are_exact_again() -> None:
    async def scenario() -> None:
        async with pair() as p:
            for _ in range(3):
                p.send(b"a" * 10)
            assert not (await p.chunk()).stamp.exact
            p.send(b"b" * 10)
            assert (await p.chunk()).stamp.exact

    run(scenario)


def test_one_read_takes_a_burst_and_a_larger_one_is_split_without_loss() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"x" * 60_000)
            assert len((await p.chunk()).data) == 60_000
            peer_buffer = 4 * READ_BYTES
            p.peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, peer_buffer)
            data = bytes(range(256)) * (3 * READ_BYTES // 256)
            writer = threading.Thread(target=p.peer.sendall, args=(data,))
            writer.start()
            got = b""
            while len(got) < len(data):
                for item in await p.receive():
                    assert isinstance(item, Chunk)
                    got += item.data
            writer.join()
            assert got == data

    run(scenario)


def test_every_read_is_an_arrival_of_the_span_in_charge() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"x" * 10)
            await p.chunk()
            p.link.set_span(42)
            p.send(b"y" * 20)
            await p.chunk()
            rows = [(a.layer, a.offset, a.size, a.segments, a.ooo) for a in p.arrivals]
            assert rows == [
                (Layer.SEGMENT_READ, 0, 10, 1, 0),
                (Layer.SEGMENT_READ, 10, 20, 1, 0),
            ]
            assert p.arrivals[1].span == 42

    run(scenario)


def test_without_kernel_support_stamps_are_intervals_on_the_user_clock() -> None:
    async def scenario() -> None:
        async with pair(NO_SUPPORT) as p:
            for _ in range(3):
                before_ns, after_ns = p.send(b"x" * 100)
                stamp = (await p.chunk()).stamp
                assert stamp.clock is Clock.USER and not stamp.exact
                assert stamp.lo_ns <= before_ns and after_ns <= stamp.hi_ns
            assert [a.segments for a in p.arrivals] == [None] * 3
            p.link.write(b"hello", "request")
            sent = await p.link.sent_wire("request", p.clock.deadline(PATIENCE_NS))
            assert sent.written is not None
            assert sent.wire is None and sent.acked is None

    run(scenario)


# -- the end ---------------------------------------------------------------------------------------


def test_a_fin_after_data_closes_and_says_when() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"bye")
            p.peer.close()
            after_ns = p.clock.now_ns()
            data, closed = await p.end()
            assert (data, closed.how) == (b"bye", "fin")
            assert closed.stamp.lo_ns <= after_ns <= closed.stamp.hi_ns
            assert await p.receive() == [closed]

    run(scenario)


def test_data_read_together_with_a_fin_is_not_certified_because_it_carries_the_fins_stamp() -> None:
    async def scenario() -> None:
        async with pair() as p:
            before_ns, after_ns = p.send(b"bye")
            await_ns = after_ns + 3 * NS_PER_MS
            while p.clock.now_ns() < await_ns:
                pass
            p.peer.close()
            items = await p.receive()
            stamp = items[0].stamp
            assert not stamp.exact and stamp.at_ns >= await_ns
            assert stamp.lo_ns <= before_ns and after_ns <= stamp.hi_ns

    run(scenario)


def test_a_fin_long_after_the_last_data_is_known_to_the_kernels_tick() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"data")
            await p.chunk()
            await asyncio.sleep(0.06)
            before_ns = p.clock.now_ns()
            p.peer.close()
            _, closed = await p.end()
            assert closed.stamp.lo_ns <= before_ns <= closed.stamp.at_ns
            assert closed.stamp.error_ns <= 30 * NS_PER_MS

    run(scenario)


def test_a_reset_is_told_apart_from_a_fin() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"half")
            assert (await p.chunk()).data == b"half"
            before_ns = p.clock.now_ns()
            p.reset()
            data, closed = await p.end()
            assert (data, closed.how) == (b"", "rst")
            assert closed.detail == "Connection reset by peer"
            assert closed.stamp.lo_ns <= before_ns <= closed.stamp.hi_ns

    run(scenario)


def test_waiting_past_the_deadline_is_a_timeout_and_leaves_the_link_usable() -> None:
    async def scenario() -> None:
        async with pair() as p:
            with pytest.raises(TimeoutError):
                await p.link.receive(p.clock.deadline(5 * NS_PER_MS))
            p.send(b"late")
            assert (await p.chunk()).data == b"late"

    run(scenario)


def test_a_cancelled_receive_loses_nothing() -> None:
    async def scenario() -> None:
        async with pair() as p:
            waiting = asyncio.create_task(p.link.receive())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            p.send(b"kept")
            assert (await p.chunk()).data == b"kept"

    run(scenario)


@pytest.mark.parametrize("how", ["close", "abort"])
def test_closing_wakes_whoever_waits_and_releases_the_socket(how: str) -> None:
    async def scenario() -> None:
        async with pair() as p:
            waiting = asyncio.create_task(p.link.receive())
            await asyncio.sleep(0)
            if how == "close":
                await p.link.close()
            else:
                p.link.abort()
            (item,) = await waiting
            assert isinstance(item, Closed) and item.how == "error"
            assert p.link.info() is None
            p.link.write(b"too late", "late")
            with pytest.raises(MeasureError):
                await p.link.drain()
            await p.link.close()
            p.peer.settimeout(10)
            if how == "close":
                assert p.peer.recv(10) == b""
            else:
                with pytest.raises(ConnectionResetError):
                    p.peer.recv(10)

    run(scenario)


# -- sending ---------------------------------------------------------------------------------------


def test_the_wire_and_ack_stamps_of_a_small_request_are_exact() -> None:
    async def scenario() -> None:
        async with pair() as p:
            before_ns = p.clock.now_ns()
            p.link.write(b"GET / HTTP/1.1\r\n\r\n", "request")
            assert p.peer.recv(100)
            p.send(b"HTTP/1.1 200 OK\r\n\r\n")
            await p.chunk()
            sent = p.link.sent("request")
            assert sent.written and sent.wire and sent.acked
            assert sent.wire.exact and sent.acked.exact
            assert before_ns <= sent.wire.hi_ns
            assert sent.wire.at_ns <= sent.acked.at_ns <= p.clock.now_ns()

    run(scenario)


def test_a_large_upload_is_on_the_wire_after_it_began_and_acknowledged_later() -> None:
    async def scenario() -> None:
        async with pair() as p:
            reader = swallow(p.peer, UPLOAD_BYTES)
            started_ns = p.clock.now_ns()
            p.link.write(b"h" * 1_000, "head")
            p.link.write(b"x" * (UPLOAD_BYTES - 1_000), "body")
            sent = await p.link.sent_wire("body", p.clock.deadline(PATIENCE_NS))
            await p.link.drain()
            reader.join()
            while p.link.sent("body").acked is None:
                assert p.clock.now_ns() < PATIENCE_NS, "the ACK's report never came"
                await asyncio.sleep(0.001)
            head, sent = p.link.sent("head"), p.link.sent("body")
            assert head.wire and sent.written and sent.wire and sent.acked
            assert started_ns <= head.wire.at_ns < sent.wire.at_ns < sent.acked.at_ns

    run(scenario)


def test_a_mark_whose_bytes_wait_in_our_queue_is_not_written() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.link.write(b"x" * 30_000_000, "body")
            assert p.link.sent("body") == Sent(None, None, None)
            early = await p.link.sent_wire("body", p.clock.deadline(NS_PER_MS))
            assert early.wire is None, "the deadline passed"
            reader = swallow(p.peer, 30_000_000)
            sent = await p.link.sent_wire("body", p.clock.deadline(PATIENCE_NS))
            assert sent.written and sent.wire
            reader.join()

    run(scenario)


def test_writing_to_a_closed_connection_fails_in_drain_and_not_in_write() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.reset()
            await p.end()
            p.link.write(b"x" * 100, "request")
            p.link.write(b"x" * 100)
            with pytest.raises(MeasureError) as caught:
                await p.link.drain()
            assert (caught.value.stage, caught.value.code) == ("tcp", "reset")
            sent = await p.link.sent_wire("request", p.clock.deadline(PATIENCE_NS))
            assert sent.written is None

    run(scenario)


def test_send_stamps_alone_do_not_keep_the_loop_busy() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.link.write(b"request", "request")
            await p.link.sent_wire("request", p.clock.deadline(PATIENCE_NS))
            turns = 0

            on_readable = p.link._on_readable

            def count() -> None:
                nonlocal turns
                turns += 1
                on_readable()

            asyncio.get_running_loop().add_reader(p.link._sock.fileno(), count)
            p.peer.recv(100)
            await asyncio.sleep(0.08)
            assert turns <= 2, "at most the ACK's report"

    run(scenario)


# -- bounds and reuse ------------------------------------------------------------------------------


def test_an_endless_sender_is_slowed_down_when_nobody_reads_the_link() -> None:
    async def scenario() -> None:
        async with pair() as p:
            total = 5 * INBOX_BYTES
            p.link.write(b"request")
            writer = threading.Thread(target=p.peer.sendall, args=(b"z" * total,))
            writer.start()
            while not p.link.pauses:
                assert p.clock.now_ns() < PATIENCE_NS, "reading never paused"
                await asyncio.sleep(0.001)
            assert INBOX_BYTES <= p.link._inbox_bytes <= INBOX_BYTES + READ_BYTES + 256
            got = 0
            while got < total:
                for item in await p.receive():
                    assert isinstance(item, Chunk)
                    got += len(item.data)
            writer.join()
            assert got == total

    run(scenario)


def test_a_flood_of_one_byte_segments_is_bounded_by_what_they_take_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp, "INBOX_BYTES", 256 * 1000)

    async def scenario() -> None:
        async with pair() as p:
            sent = 0
            while not p.link.pauses:
                p.send(b".")
                sent += 1
                p.link._on_readable()
            assert sent < 1000
            items = await p.receive()
            assert [item.data for item in items if isinstance(item, Chunk)] == [b"."] * sent

    run(scenario)


def test_a_link_goes_on_in_the_next_run_with_its_clock_and_no_marks() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.link.write(b"one", "request")
            p.send(b"answer")
            await p.chunk()
            following = Recorder(p.clock.restarted())
            p.link.rebind(following)
            assert p.link.conn == 1
            assert p.link.sent("request") == Sent(None, None, None)
            q = Pair(p.link, p.peer, following)
            before_ns, after_ns = q.send(b"again")
            stamp = (await q.chunk()).stamp
            assert stamp.exact
            assert stamp.lo_ns <= after_ns and before_ns <= stamp.hi_ns
            assert [a.offset for a in q.arrivals] == [6]
            p.link.write(b"two", "request")
            sent = await p.link.sent_wire("request", q.clock.deadline(PATIENCE_NS))
            assert sent.wire and sent.wire.exact and 0 <= sent.wire.at_ns <= q.clock.now_ns()

    run(scenario)


def test_bytes_that_came_between_two_runs_lie_before_the_new_start() -> None:
    async def scenario() -> None:
        async with pair() as p:
            p.send(b"early")
            await asyncio.sleep(0.001)
            following = Recorder(p.clock.restarted())
            p.link.rebind(following)
            (item,) = await p.link.receive(following.clock.deadline(PATIENCE_NS))
            assert isinstance(item, Chunk)
            assert item.data == b"early" and item.stamp.at_ns < 0

    run(scenario)
