"""The observer with messages handed in, and whole handshakes without OpenSSL's message hook."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from promptpath.model.enums import Stage
from promptpath.model.stamp import user_stamp
from promptpath.probe import tls, tls_context
from promptpath.probe.tls_observer import MAX_MARKS, HandshakeObserver
from tests.peers.certs import Certificates
from tests.peers.scripted import FIN, ReadRequest, ScriptedOrigin
from tests.peers.tls_server import RETRY_GROUP, openssl_server
from tests.probe.tls_client import Client, failing, run

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def observer_of(client: Client) -> HandshakeObserver:
    observer = HandshakeObserver(client.recorder, stage=Stage.TLS, prefix="tls.", conn=1)
    observer.received_at = user_stamp(5)
    return observer


def ticket(lifetime_s: int) -> bytes:
    body = lifetime_s.to_bytes(4, "big") + b"\0\1x"
    return b"\x04" + len(body).to_bytes(3, "big") + body


def test_messages_of_ours_wait_for_the_flight_they_leave_in() -> None:
    client = Client()
    observer = observer_of(client)
    observer.message(True, 20, b"\1")
    observer.message(True, 22, b"\x14\0\0\0")
    assert client.marks() == []
    assert observer.has_unsent
    observer.settle()
    assert client.marks() == []
    assert observer.written(user_stamp(9)) == "Finished"
    observer.settle()
    assert [mark.at_ns for mark in client.marks()] == [9, 9]
    assert not observer.has_unsent


def test_endless_messages_do_not_fill_the_memory() -> None:
    client = Client()
    observer = observer_of(client)
    for number in range(10 * MAX_MARKS):
        observer.message(False, 22, ticket(number))
        observer.message(False, 21, b"\1\x5a")
    observer.settle()
    assert len(client.marks()) == MAX_MARKS
    assert len(client.recorder.log.facts) <= 2 * MAX_MARKS
    assert observer.tickets == 10 * MAX_MARKS


def test_nonsense_is_marked_as_malformed_and_no_fact() -> None:
    client = Client()
    observer = observer_of(client)
    observer.message(False, 22, b"\x04\0\0\1x")
    observer.message(False, 21, b"\2")
    observer.message(False, 99, b"x")
    observer.settle()
    assert [mark.detail for mark in client.marks()] == [
        {"message": name, "direction": "received", "bytes": size, "malformed": True}
        for name, size in (("NewSessionTicket", 5), ("alert", 1))
    ]
    assert client.recorder.log.facts == ()


def test_a_close_notify_is_a_mark_and_no_fact() -> None:
    client = Client()
    observer = observer_of(client)
    observer.message(False, 21, b"\1\0")
    observer.settle()
    assert client.marks()[0].detail["description"] == "close_notify"
    assert client.facts("tls.alert") == []


def test_only_a_fatal_alert_is_why_a_connection_ended() -> None:
    client = Client()
    observer = observer_of(client)
    observer.message(False, 21, b"\1\x70")
    observer.settle()
    assert client.fact("tls.alert")["description"] == "unrecognized_name"
    assert observer.fatal_alert is None
    observer.message(False, 21, b"\2\x50")
    observer.settle()
    assert observer.fatal_alert is not None
    assert observer.fatal_alert.description == "internal_error"


@pytest.fixture
def without_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python whose `ssl` has no message callback."""
    monkeypatch.setattr(tls, "has_message_hook", lambda: False)
    monkeypatch.setattr(tls_context, "has_message_hook", lambda: False)
    tls_context.context_for.cache_clear()


@pytest.fixture(autouse=True)
def fresh_contexts() -> Any:
    """No context with, or without, a hook is left for the next test."""
    yield
    tls_context.context_for.cache_clear()


async def exchange(client: Client, port: int, certs: Certificates) -> bytes:
    link = await client.connect(port, ca=certs.ca)
    link.write(REQUEST)
    data, _ = await client.read_all(link)
    await link.close()
    link.record_certificates()
    return data


@pytest.mark.usefixtures("without_hook")
def test_without_the_hook_tls12_still_shows_everything_but_finished(certs: Certificates) -> None:
    context = certs.chained.server_context(alpn=("http/1.1",), maximum=V12)
    with ScriptedOrigin([ReadRequest(), b"x", FIN], tls=context) as origin:
        data, client = run(lambda client: exchange(client, origin.port, certs))
    assert data == b"x"
    assert client.messages()[:11] == [
        ("sent", "ClientHello"),
        ("received", "ServerHello"),
        ("received", "Certificate"),
        ("received", "ServerKeyExchange"),
        ("received", "ServerHelloDone"),
        ("sent", "ClientKeyExchange"),
        ("sent", "ChangeCipherSpec"),
        ("sent", "encrypted record"),
        ("received", "NewSessionTicket"),
        ("received", "ChangeCipherSpec"),
        ("received", "encrypted record"),
    ]
    assert client.fact("tls.group") == "x25519"
    assert client.fact("tls.alpn") == "http/1.1"
    assert client.fact("tls.client_certificate_requested") is False
    assert len(client.fact("tls.chain")) == 2


@pytest.mark.usefixtures("without_hook")
def test_without_the_hook_tls13_shows_the_hellos_and_says_what_it_does_not_know(
    certs: Certificates,
) -> None:
    context = certs.good.server_context(alpn=("http/1.1",))
    with ScriptedOrigin([ReadRequest(), b"x", FIN], tls=context) as origin:
        data, client = run(lambda client: exchange(client, origin.port, certs))
    assert data == b"x"
    messages = client.messages()
    assert messages[:4] == [
        ("sent", "ClientHello"),
        ("received", "ServerHello"),
        ("received", "ChangeCipherSpec"),
        ("received", "encrypted record"),
    ]
    assert messages[-2:] == [("sent", "ChangeCipherSpec"), ("sent", "encrypted record")]
    assert client.fact("tls.version") == "TLSv1.3"
    assert client.fact("tls.group") == "x25519"
    assert client.fact("tls.alpn") == "http/1.1"
    assert client.fact("tls.signature") is None
    assert client.fact("tls.client_certificate_requested") is None
    assert client.fact("tls.chain")[0]["names"][0] == "localhost"


@pytest.mark.peer
@pytest.mark.usefixtures("without_hook")
def test_without_the_hook_a_hello_retry_is_still_seen(certs: Certificates, tmp_path: Any) -> None:
    with openssl_server(tmp_path, certs.good, RETRY_GROUP) as server:
        _, client = run(lambda client: exchange(client, server.port, certs))
    assert client.fact("tls.hello_retry") == {"group": "secp384r1"}
    assert client.messages().count(("sent", "ClientHello")) == 2


@pytest.mark.usefixtures("without_hook")
def test_without_the_hook_failures_keep_their_codes(certs: Certificates) -> None:
    with ScriptedOrigin([FIN], tls=certs.expired.server_context()) as origin:
        error, _ = failing(origin.port, ca=certs.ca)
    assert error.code == "cert-expired"
    context = certs.good.server_context()
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    with ScriptedOrigin([FIN], tls=context) as origin:
        error, _ = failing(origin.port, ca=certs.ca)
    assert error.code == "unrecognized-name"
