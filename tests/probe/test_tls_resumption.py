from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from promptpath.probe.tls import TlsLink
from promptpath.probe.tls_resumption import Resumption, resume_check
from tests.peers.certs import Certificates
from tests.peers.scripted import FIN, HOLD, ReadRequest, ScriptedOrigin, StartTls, Step
from tests.peers.tls_server import EARLY_DATA, RETRY_GROUP, openssl_server
from tests.probe.tls_client import Client, run

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


async def used(client: Client, port: int, certs: Certificates) -> TlsLink:
    """A connection that has had an answer, and so, with TLS 1.3, its tickets."""
    link = await client.connect(port, ca=certs.ca)
    link.write(REQUEST)
    await link.receive(client.deadline())
    return link


async def check(client: Client, port: int, certs: Certificates) -> Resumption:
    first = await used(client, port, certs)
    link = await client.dial(port)
    result = await resume_check(client.recorder, link, first, deadline_ns=client.deadline())
    await first.close()
    return result


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_server_that_resumes_is_seen_and_timed(
    certs: Certificates, version: ssl.TLSVersion
) -> None:
    context = certs.good.server_context(maximum=version)
    with ScriptedOrigin([ReadRequest(), b"x", HOLD], tls=context) as origin:
        result, client = run(lambda client: check(client, origin.port, certs))
    assert (result.offered, result.accepted) == (True, True)
    (span,) = [span for span in client.recorder.log.spans if span.name == "resumption"]
    assert span.conn == 2
    assert span.duration_ns is not None
    assert result.handshake_ns is not None
    assert span.duration_ns <= result.handshake_ns
    assert client.fact("tls.resumed") == {"offered": True, "accepted": True}
    # A resumed handshake shows no certificate, and adds no second set of facts.
    assert client.messages().count(("received", "Certificate")) == 1
    assert len(client.facts("tls.version")) == 1


def test_a_server_that_forgot_is_seen(certs: Certificates) -> None:
    contexts = [certs.good.server_context() for _ in range(2)]
    # Two contexts have two ticket keys: a load balancer whose machines do not share them.
    scripts: list[list[Step]] = [
        [StartTls(context), ReadRequest(), b"x", HOLD] for context in contexts
    ]
    with ScriptedOrigin(*scripts) as origin:
        result, client = run(lambda client: check(client, origin.port, certs))
    assert (result.offered, result.accepted) == (True, False)
    hellos = [m for m in client.marks() if m.detail["message"] == "ClientHello"]
    assert [hello.detail["psk"] for hello in hellos] == [False, True]


def test_without_a_session_nothing_is_offered_and_that_is_a_fact(certs: Certificates) -> None:
    context = certs.good.server_context()
    context.num_tickets = 0
    with ScriptedOrigin([ReadRequest(), b"x", FIN], tls=context) as origin:

        async def scenario(client: Client) -> Resumption:
            first = await used(client, origin.port, certs)
            assert first.session is None
            result = await resume_check(client.recorder, None, first, deadline_ns=client.deadline())
            await first.close()
            return result

        result, client = run(scenario)
    assert result == Resumption(offered=False, accepted=False, handshake_ns=None)
    assert client.fact("tls.resumed") == {"offered": False, "accepted": False}
    assert client.facts("tls.ticket") == []


@pytest.mark.peer
def test_early_data_on_offer_is_a_fact_of_the_ticket(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, EARLY_DATA) as server:

        async def scenario(client: Client) -> None:
            link = await client.connect(server.port, ca=certs.ca)
            # It never answers; its tickets are all that comes.
            with pytest.raises(TimeoutError):
                await link.receive(client.deadline(300_000_000))
            link.abort()

        _, client = run(scenario)
    assert client.facts("tls.ticket")[0]["max_early_data_bytes"] == 16384


@pytest.mark.peer
def test_openssl_resumes_over_a_hello_retry(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, RETRY_GROUP) as server:

        async def scenario(client: Client) -> Resumption:
            first = await client.connect(server.port, ca=certs.ca)
            first.write(REQUEST)
            await client.read_all(first)
            # s_server serves one connection at a time.
            await first.close()
            link = await client.dial(server.port)
            return await resume_check(client.recorder, link, first, deadline_ns=client.deadline())

        result, client = run(scenario)
    assert result.accepted
    assert client.fact("tls.hello_retry") == {"group": "secp384r1"}
