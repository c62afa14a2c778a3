"""The UDP endpoint: Retry, versions, resets, early data, and datagrams that are none of these."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import struct

import pytest
from aioquic.quic.packet import QuicErrorCode, QuicProtocolVersion
from aioquic.tls import SessionTicket

from reference_server.asgi import Receive, Scope, Send
from reference_server.listen import quic
from reference_server.listen.early_data import Tickets, may_be_early
from tests.peers.certs import Certificates
from tests.peers.h3_client import GET, H3Client, h3_client
from tests.reference_server.harness import Served, in_loop, serving


def _initial(version: int, size: int = 1200, seed: int = 1) -> bytes:
    """A long header with random connection IDs and a payload that nobody can read."""
    dice = random.Random(seed)
    head = b"\xc0" + struct.pack(">I", version) + b"\x08" + dice.randbytes(8)
    head += b"\x08" + dice.randbytes(8) + b"\x00"
    length = size - len(head) - 2
    return head + struct.pack(">H", length | 0x4000) + dice.randbytes(length)


async def _answers(port: int, *datagrams: bytes, wait_s: float = 0.05) -> list[bytes]:
    """What comes back within a moment."""
    loop = asyncio.get_running_loop()
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect(("127.0.0.1", port))
        for each in datagrams:
            await loop.sock_sendall(sock, each)
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    found.append(await loop.sock_recv(sock, 65_535))
        except TimeoutError:
            return found


async def _ticket(served: Served, certs: Certificates) -> SessionTicket:
    async with h3_client(served.port, certs.ca) as client:
        await client.until_ended(client.ask(*GET))
        await client.until(lambda: client.tickets)
        return client.tickets[0]


@in_loop
async def test_a_retry_proves_the_address_and_the_handshake_goes_on(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True, quic_retry=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        assert client.datagrams[0][0] >> 4 & 3 == 3  # Retry, RFC 9000 section 17.2.5
        assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_version_2_is_spoken(certs: Certificates) -> None:
    versions = [QuicProtocolVersion.VERSION_2]
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca, supported_versions=versions) as client,
    ):
        assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_an_unknown_version_is_negotiated_and_a_short_one_left_alone(
    certs: Certificates,
) -> None:
    async with serving(leaf=certs.good, http3=True) as served:
        asked = _initial(0x1A2A3A4A)
        (answer,) = await _answers(served.port, asked)
        assert answer[0] & 0x80 and answer[1:5] == bytes(4)
        assert answer[6:14] == asked[15:23] and answer[15:23] == asked[6:14]  # IDs swapped
        assert answer[23:] == struct.pack(
            ">II", QuicProtocolVersion.VERSION_1, QuicProtocolVersion.VERSION_2
        )
        assert await _answers(served.port, _initial(0x1A2A3A4A, 600)) == []
        negotiation = _initial(0)
        assert await _answers(served.port, negotiation) == []


@in_loop
async def test_a_packet_of_nobody_gets_a_shorter_stateless_reset(certs: Certificates) -> None:
    async with serving(leaf=certs.good, http3=True) as served:
        packet = b"\x40" + os.urandom(40)
        (answer,) = await _answers(served.port, packet)
        assert 21 <= len(answer) < len(packet) and answer[0] >> 6 == 1
        (again,) = await _answers(served.port, packet)
        assert again[-16:] == answer[-16:]
        assert await _answers(served.port, b"\x40" + os.urandom(20)) == []
        flood = await _answers(served.port, *[packet] * 400)
        assert len(flood) <= 2 * quic._RESETS_PER_S


@in_loop
async def test_garbage_leaves_nothing_behind(
    certs: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    dice = random.Random(7)
    async with serving(leaf=certs.good, http3=True) as served:
        garbage = [dice.randbytes(dice.randrange(1, 1500)) for _ in range(300)]
        garbage += [_initial(1, seed=number) for number in range(50)]
        garbage += [b"", _initial(1)[:30], b"\xc0", b"\xff" * 1200, bytes(1200)]
        await _answers(served.port, *garbage)
        async with h3_client(served.port, certs.ca) as client:
            assert (await client.until_ended(client.ask(*GET))).status == 200
            (endpoint,) = served.listener._endpoints
            assert len(endpoint._ids) == 1
    assert not [record for record in caplog.records if record.name == "reference_server"]


@in_loop
async def test_cut_and_changed_packets_of_a_real_client_do_no_harm(certs: Certificates) -> None:
    dice = random.Random(3)
    async with serving(leaf=certs.good, http3=True) as served:
        async with h3_client(served.port, certs.ca, wait=False) as client:
            sent = [data for data, _ in client.quic.datagrams_to_send(0.0)]
        for _ in range(100):
            broken = bytearray(dice.choice(sent))
            broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
            await _answers(served.port, bytes(broken), wait_s=0.001)
        async with h3_client(served.port, certs.ca) as client:
            assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_many_handshakes_that_do_not_end_make_it_ask_for_proof(
    certs: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quic, "_STRANGERS", 3)
    async with serving(leaf=certs.good, http3=True) as served:
        for _ in range(3):
            async with h3_client(served.port, certs.ca, wait=False) as client:
                client.reading = False
                client.flush()
                await client.until(lambda: client.datagrams)
                client.quic._close_event = None
                client.closed = True  # type: ignore[assignment]
        async with h3_client(served.port, certs.ca) as client:
            assert client.datagrams[0][0] >> 4 & 3 == 3
            assert (await client.until_ended(client.ask(*GET))).status == 200


async def _early(
    served: Served,
    certs: Certificates,
    ticket: SessionTicket,
    method: bytes,
    path: bytes,
    body: bytes = b"",
) -> tuple[H3Client, int]:
    """A request that leaves with the first datagram."""
    async with h3_client(served.port, certs.ca, wait=False, session_ticket=ticket) as client:
        stream = client.ask(method, path, body)
        await client.until_ended(stream)
        return client, stream


@in_loop
async def test_a_safe_request_is_answered_from_early_data(certs: Certificates) -> None:
    async with serving(leaf=certs.good, http3=True) as served:
        ticket = await _ticket(served, certs)
        client, stream = await _early(served, certs, ticket, *GET)
        assert client.answers[stream].status == 200
        assert client.handshake is not None and client.handshake.early_data_accepted


@in_loop
async def test_a_prompt_in_early_data_gets_425_and_an_early_head_is_marked(
    certs: Certificates,
) -> None:
    seen: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(dict(scope["headers"]).get(b"early-data", b""))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app=app, leaf=certs.good, http3=True) as served:
        ticket = await _ticket(served, certs)
        client, stream = await _early(served, certs, ticket, b"POST", b"/v1/messages", b"{}")
        assert client.answers[stream].status == 425
        again = await _ticket(served, certs)
        client, stream = await _early(served, certs, again, *GET)
        assert client.answers[stream].status == 204
    assert seen == [b"", b"", b"1"]


@in_loop
async def test_a_ticket_is_good_once(certs: Certificates) -> None:
    async with serving(leaf=certs.good, http3=True) as served:
        ticket = await _ticket(served, certs)
        await _early(served, certs, ticket, *GET)
        async with h3_client(served.port, certs.ca, session_ticket=ticket) as client:
            assert client.handshake is not None
            assert not client.handshake.session_resumed
            assert not client.handshake.early_data_accepted


@pytest.mark.parametrize(
    ("method", "target", "early"),
    [
        (b"GET", b"/healthz", True),
        (b"HEAD", b"/promptpath/clock?x=1", True),
        (b"POST", b"/healthz", False),
        (b"GET", b"/v1/messages", False),
        (b"GET", b"/promptpath/silence", False),
        (b"GET", b"", False),
    ],
)
def test_what_may_be_early(method: bytes, target: bytes, early: bool) -> None:
    assert may_be_early(method, target) is early


def test_tickets_are_bounded() -> None:
    tickets = Tickets()

    class Ticket:
        def __init__(self, number: int) -> None:
            self.ticket = str(number).encode()

    for number in range(10_001):
        tickets.add(Ticket(number))  # type: ignore[arg-type]
    assert tickets.take(b"0") is None
    assert tickets.take(b"10000") is not None
    assert tickets.take(b"10000") is None


@in_loop
async def test_a_client_may_move_to_another_port(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        await client.until_ended(client.ask(*GET))
        loop = asyncio.get_running_loop()
        old = client._transport
        await loop.create_datagram_endpoint(lambda: client, remote_addr=("127.0.0.1", served.port))
        assert client._transport is not old
        client.quic.change_connection_id()
        assert (await client.until_ended(client.ask(*GET))).status == 200
        client.quic.request_key_update()
        assert (await client.until_ended(client.ask(*GET))).status == 200
        assert old is not None and client._transport is not None
        old.close()
        client._transport.close()


@in_loop
async def test_a_udp_port_that_is_taken_is_an_oserror(certs: Certificates) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            async with serving(leaf=certs.good, http3=True, port=port):
                pass
    async with serving(leaf=certs.good, http3=True, port=port) as served:
        assert served.port == port


@pytest.mark.parametrize(("listen", "host"), [("::1", "::1"), ("0.0.0.0", "127.0.0.1")])
@in_loop
async def test_other_addresses(certs: Certificates, listen: str, host: str) -> None:
    for retry in (False, True):
        async with (
            serving(leaf=certs.good, http3=True, host=listen, quic_retry=retry) as served,
            h3_client(served.port, certs.ca, host=host) as client,
        ):
            assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_a_connection_that_comes_during_the_stop_is_refused(certs: Certificates) -> None:
    async with (
        serving(leaf=certs.good, http3=True) as served,
        h3_client(served.port, certs.ca) as running,
    ):
        stream = running.ask(b"GET", b"/promptpath/silence?silence_ms=60000")
        running.flush()
        await running.until(lambda: running.answers[stream].pieces)
        stopping = asyncio.ensure_future(served.listener.stop(grace_s=1))
        await asyncio.sleep(0)
        async with h3_client(served.port, certs.ca) as late:
            assert late.closed is not None
            assert late.closed.error_code == QuicErrorCode.CONNECTION_REFUSED
        await stopping
