"""Each fault of the HTTP/3 listener, as a client sees it."""

from __future__ import annotations

import pytest
from aioquic.quic.events import StopSendingReceived
from aioquic.quic.packet import QuicProtocolVersion

from reference_server.listen.quic_faults import FaultError, QuicFaults, read_faults
from reference_server.options import parse_options
from tests.peers.certs import Certificates
from tests.peers.h3_client import GET, H3Client, h3_client
from tests.reference_server.harness import in_loop, serving

STREAM = (b"GET", b"/promptpath/calibrate?events=40&max_gap_ms=6")


def _long_header_types(client: H3Client) -> list[int]:
    """Of the datagrams so far, in version 1: 0 is Initial, 3 is Retry (RFC 9000 section 17.2)."""
    return [
        each[0] >> 4 & 3 for each in client.datagrams if each[0] & 0x80 and each[1:5] != bytes(4)
    ]


@in_loop
async def test_version_negotiation_costs_one_round_and_leads_to_version_2(
    certs: Certificates,
) -> None:
    faults = QuicFaults(version_negotiation=True)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        assert client.handshake is not None
        assert client.datagrams[0][1:5] == bytes(4)
        assert client.quic._version == QuicProtocolVersion.VERSION_2
        assert (await client.until_ended(client.ask(*GET))).status == 200


@in_loop
async def test_a_retry_loop_is_a_retry_for_every_initial(certs: Certificates) -> None:
    faults = QuicFaults(retry_loop=True)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca, wait=False) as client,
    ):
        client.flush()
        await client.until(lambda: len(client.datagrams) >= 2)
        assert _long_header_types(client)[:2] == [3, 3]
        assert client.handshake is None


@in_loop
async def test_a_lost_initial_is_repeated_by_the_client(certs: Certificates) -> None:
    faults = QuicFaults(lost_initial=1)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca, initial_rtt=0.02) as client,
    ):
        assert client.handshake is not None


@in_loop
async def test_a_long_chain_stops_at_the_amplification_limit_and_still_gets_through(
    certs: Certificates,
) -> None:
    faults = QuicFaults(amplification=True)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca, wait=False) as client,
    ):
        client.reading = False
        client.flush()
        await client.until(lambda: len(client.datagrams) >= 3)
        first = sum(map(len, client.datagrams))
        assert 1200 < first <= 3 * 1200
        client.reading = True
        for each in list(client.datagrams):
            client.datagram_received(each, None)
        await client.until(lambda: client.handshake)
        assert sum(map(len, client.datagrams)) > 8000


@in_loop
async def test_a_hello_retry_request_cannot_ask_for_more_than_all_key_shares(
    certs: Certificates,
) -> None:
    # aioquic's client sends them all. That curl follows one is in test_http3_peers.
    faults = QuicFaults(hello_retry=True)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        assert (await client.until_ended(client.ask(*GET))).status == 200
        assert not client.tickets


@in_loop
async def test_a_half_handshake_never_ends(certs: Certificates) -> None:
    faults = QuicFaults(half_handshake=True)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca, wait=False, idle_timeout=0.3, initial_rtt=0.02) as client,
    ):
        stream = client.ask(*GET)
        client.flush()
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.reason_phrase == "Idle timeout"
        assert client.datagrams and client.answers[stream].status is None


@in_loop
async def test_stop_sending_carries_its_code(certs: Certificates) -> None:
    faults = QuicFaults(stop_sending=0x10C)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        client.ask(b"POST", b"/v1/chat/completions", None)
        client.flush()
        await client.until(lambda: any(isinstance(e, StopSendingReceived) for e in client.seen))
        stop = next(e for e in client.seen if isinstance(e, StopSendingReceived))
        assert stop.error_code == 0x10C


@in_loop
async def test_goaway_in_mid_stream_lets_the_stream_end_and_refuses_the_next(
    certs: Certificates,
) -> None:
    faults = QuicFaults(goaway_after=3)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        running = client.ask(*STREAM)
        client.flush()
        await client.until(lambda: len(client.answers[running].pieces) > 5)
        refused = await client.until_ended(client.ask(*GET))
        assert refused.reset == 0x10B
        answer = await client.until_ended(running)
        assert answer.ended and b"event: end" in answer.body
        await client.until(lambda: client.closed)
        assert client.closed is not None and client.closed.error_code == 0x100


@in_loop
async def test_a_forgotten_connection_is_answered_with_its_reset_token(
    certs: Certificates,
) -> None:
    faults = QuicFaults(stateless_reset_after=3)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        client.ask(*STREAM)
        client.flush()
        token = client.quic._peer_cid.stateless_reset_token
        tokens = [token, *(each.stateless_reset_token for each in client.quic._peer_cid_available)]
        await client.until(lambda: any(client.datagrams[-1].endswith(each) for each in tokens))
        assert not client.datagrams[-1][0] & 0x80


@in_loop
async def test_silence_leaves_the_last_word_to_the_idle_timer(certs: Certificates) -> None:
    faults = QuicFaults(silent_after=3)
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca, idle_timeout=0.3) as client,
    ):
        stream = client.ask(*STREAM)
        answer = await client.until_ended(stream)
        assert not answer.ended and answer.body.count(b"event: ") == 3
        assert client.closed is not None and client.closed.reason_phrase == "Idle timeout"


@pytest.mark.parametrize("transport", [False, True])
@in_loop
async def test_a_close_has_its_code_and_its_reason(certs: Certificates, transport: bool) -> None:
    faults = QuicFaults(
        close_after=2, close_code=0x107, close_reason="\x1b[2Jno", close_transport=transport
    )
    async with (
        serving(leaf=certs.good, http3=True, quic_faults=faults) as served,
        h3_client(served.port, certs.ca) as client,
    ):
        answer = await client.until_ended(client.ask(*STREAM))
        assert not answer.ended and answer.body.count(b"event: ") == 2
        assert client.closed is not None
        assert (client.closed.error_code, client.closed.reason_phrase) == (0x107, "\x1b[2Jno")
        assert (client.closed.frame_type is not None) is transport


def test_the_command_line_names_faults_together() -> None:
    words = ["goaway=3", "close=5:0x10c:bye:now", "amplification", "lost-initial=2"]
    assert read_faults(words) == QuicFaults(
        goaway_after=3,
        close_after=5,
        close_code=0x10C,
        close_reason="bye:now",
        amplification=True,
        lost_initial=2,
    )
    arguments = [part for word in words for part in ("--quic-fault", word)]
    assert parse_options(arguments).settings.listen.quic_faults == read_faults(words)
    assert read_faults([]) is None


@pytest.mark.parametrize("word", ["nonsense", "goaway", "goaway=-1", "close=x", "amplification=1"])
def test_what_is_no_fault_is_said(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FaultError):
        read_faults([word])
    with pytest.raises(SystemExit):
        parse_options(["--quic-fault", word])
    assert "--quic-fault" in capsys.readouterr().err
