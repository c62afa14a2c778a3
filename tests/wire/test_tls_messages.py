from __future__ import annotations

import json
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promptpath.wire.tls_messages import (
    HELLO_RETRY_RANDOM,
    MAX_LISTED,
    Alert,
    Certificate,
    CertificateRequest,
    CertificateVerify,
    ClientHello,
    EncryptedExtensions,
    KeyUpdate,
    Message,
    MessageParser,
    NewSessionTicket,
    ServerHello,
    ServerKeyExchange,
    parse_alert,
)
from tests.peers.certs import Certificates
from tests.wire.tls_capture import Capture, capture

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def parse_all(taken: Capture) -> list[Message]:
    parser = MessageParser()
    return [parser.parse(data) for _, data in taken.messages]


def only(messages: list[Message], kind: type[Message]) -> Message:
    (found,) = [message for message in messages if type(message) is kind]
    return found


def u16(*values: int) -> bytes:
    return b"".join(value.to_bytes(2, "big") for value in values)


def vector(length_size: int, data: bytes) -> bytes:
    return len(data).to_bytes(length_size, "big") + data


def extension(kind: int, data: bytes) -> bytes:
    return u16(kind) + vector(2, data)


def message(kind: int, body: bytes) -> bytes:
    return bytes([kind]) + vector(3, body)


def server_hello(*extensions: bytes, random: bytes = bytes(32), cipher: int = 0x1301) -> bytes:
    body = u16(0x0303) + random + vector(1, b"id") + u16(cipher) + b"\0"
    return message(2, body + vector(2, b"".join(extensions)))


TLS13 = extension(43, u16(0x0304))


def parser_after(*messages: bytes) -> MessageParser:
    parser = MessageParser()
    for data in messages:
        parser.parse(data)
    return parser


def test_a_tls13_handshake_reads_in_order_with_its_facts(certs: Certificates) -> None:
    found = parse_all(capture(certs, version=V13))
    assert [item.name for item in found][:6] == [
        "ClientHello",
        "ServerHello",
        "EncryptedExtensions",
        "Certificate",
        "CertificateVerify",
        "Finished",
    ]
    assert found[-1].name == "NewSessionTicket"
    assert not any(item.malformed for item in found)
    hello = only(found, ClientHello)
    assert isinstance(hello, ClientHello)
    assert hello.sni == "localhost"
    assert hello.alpn == ("h2", "http/1.1")
    assert hello.versions == ("TLSv1.3", "TLSv1.2")
    assert hello.key_shares == ("x25519",)
    assert "secp384r1" in hello.groups
    assert "ecdsa_secp256r1_sha256" in hello.signatures
    assert "TLS_AES_128_GCM_SHA256" in hello.ciphers
    assert not hello.psk
    assert not hello.early_data
    answer = only(found, ServerHello)
    assert isinstance(answer, ServerHello)
    assert (answer.version, answer.group) == ("TLSv1.3", "x25519")
    assert answer.cipher == "TLS_AES_256_GCM_SHA384"
    rest = only(found, EncryptedExtensions)
    assert isinstance(rest, EncryptedExtensions)
    assert rest.alpn == "h2"
    proof = only(found, CertificateVerify)
    assert isinstance(proof, CertificateVerify)
    assert proof.signature == "ecdsa_secp256r1_sha256"


def test_the_chain_is_the_der_that_was_sent(certs: Certificates) -> None:
    leaf = ssl.PEM_cert_to_DER_cert(certs.good.chain.read_text())
    for version in (V12, V13):
        chain = only(parse_all(capture(certs, version=version)), Certificate)
        assert isinstance(chain, Certificate)
        assert chain.chain == (leaf,)
        assert chain.detail() == {"certificates": 1}


def test_a_tls12_handshake_gives_group_signature_and_alpn(certs: Certificates) -> None:
    found = parse_all(capture(certs, version=V12))
    answer = only(found, ServerHello)
    assert isinstance(answer, ServerHello)
    assert (answer.version, answer.alpn, answer.group) == ("TLSv1.2", "h2", None)
    exchange = only(found, ServerKeyExchange)
    assert isinstance(exchange, ServerKeyExchange)
    assert exchange.group == "x25519"
    assert exchange.signature == "ecdsa_secp256r1_sha256"
    ticket = only(found, NewSessionTicket)
    assert isinstance(ticket, NewSessionTicket)
    assert ticket.lifetime_s == 7200
    assert ticket.max_early_data_bytes is None


@pytest.mark.parametrize("version", [V12, V13])
def test_a_request_for_a_client_certificate_is_seen(
    certs: Certificates, version: ssl.TLSVersion
) -> None:
    found = only(parse_all(capture(certs, version=version, ask_client=True)), CertificateRequest)
    assert isinstance(found, CertificateRequest)
    assert "ecdsa_secp256r1_sha256" in found.signatures


def test_a_hello_retry_request_names_the_group_it_wants() -> None:
    data = server_hello(TLS13, extension(51, u16(0x18)), random=HELLO_RETRY_RANDOM)
    found = MessageParser().parse(data)
    assert isinstance(found, ServerHello)
    assert (found.name, found.group, found.version) == ("HelloRetryRequest", "secp384r1", "TLSv1.3")


def test_what_is_not_registered_is_shown_as_a_number() -> None:
    found = MessageParser().parse(server_hello(cipher=0xFAFA))
    assert isinstance(found, ServerHello)
    assert (found.cipher, found.version) == ("0xFAFA", "TLSv1.2")


def test_a_ticket_says_how_much_early_data_it_allows() -> None:
    parser = parser_after(server_hello(TLS13))
    body = (7200).to_bytes(4, "big") + bytes(4) + vector(1, b"n") + vector(2, b"ticket")
    early = extension(42, (16384).to_bytes(4, "big"))
    found = parser.parse(message(4, body + vector(2, early)))
    assert isinstance(found, NewSessionTicket)
    assert (found.lifetime_s, found.ticket_bytes, found.max_early_data_bytes) == (7200, 6, 16384)
    none = parser.parse(message(4, body + vector(2, b"")))
    assert isinstance(none, NewSessionTicket)
    assert none.max_early_data_bytes is None


def test_a_finite_field_exchange_gives_its_size() -> None:
    parser = parser_after(server_hello(cipher=0x009E))
    numbers = vector(2, bytes(256)) + vector(2, b"\2") + vector(2, bytes(256))
    found = parser.parse(message(12, numbers + u16(0x0804) + vector(2, b"signature")))
    assert isinstance(found, ServerKeyExchange)
    assert (found.group, found.signature) == ("dhe 2048", "rsa_pss_rsae_sha256")


def test_key_updates_say_whether_they_ask_for_ours() -> None:
    asked = MessageParser().parse(message(24, b"\1"))
    assert isinstance(asked, KeyUpdate)
    assert asked.update_requested
    assert MessageParser().parse(message(24, b"")).malformed


def test_unknown_and_empty_messages_keep_name_and_size() -> None:
    parser = MessageParser()
    assert parser.parse(message(99, b"abc")) == Message(name="handshake type 99", size=7)
    assert parser.parse(b"") == Message(name="unknown", size=0, malformed=True)
    assert parser.parse(message(20, bytes(12))) == Message(name="Finished", size=16)


@pytest.mark.parametrize(
    ("data", "alert"),
    [
        (b"\x02\x46", Alert("fatal", "protocol_version")),
        (b"\x01\x00", Alert("warning", "close_notify")),
        (b"\x07\xfe", Alert("7", "alert 254")),
        (b"\x02", None),
        (b"", None),
    ],
)
def test_alerts_are_named(data: bytes, alert: Alert | None) -> None:
    assert parse_alert(data) == alert


@pytest.mark.parametrize("version", [V12, V13])
def test_every_message_cut_short_is_malformed_and_never_raises(
    certs: Certificates, version: ssl.TLSVersion
) -> None:
    taken = capture(certs, version=version, ask_client=True)
    parser = MessageParser()
    for _, data in taken.messages:
        for size in range(len(data)):
            short = parser.parse(data[:size])
            assert (short.malformed, short.size) == (True, size)
            # With a header that hides the cut, whatever is read must still be JSON.
            json.dumps(parser.parse(data[:1] + vector(3, data[4:size])).detail())
        assert not parser.parse(data).malformed


@given(st.integers(0, 255), st.binary(max_size=120), st.sampled_from([0x1301, 0xC02B, 0x009E]))
def test_random_bodies_never_raise_and_give_json(kind: int, body: bytes, cipher: int) -> None:
    for hello in (server_hello(TLS13, cipher=cipher), server_hello(cipher=cipher)):
        parser = parser_after(hello)
        json.dumps(parser.parse(message(kind, body)).detail())


@given(st.data())
def test_a_flipped_byte_never_raises(data: st.DataObject) -> None:
    hello = bytearray(
        server_hello(TLS13, extension(51, u16(0x1D) + vector(2, bytes(32))), extension(16, b""))
    )
    hello[data.draw(st.integers(0, len(hello) - 1))] = data.draw(st.integers(0, 255))
    json.dumps(MessageParser().parse(bytes(hello)).detail())


def test_lists_are_cut_and_names_are_printable() -> None:
    protocols = vector(2, vector(1, b"\x1b[2J") * 200)
    found = MessageParser().parse(message(8, vector(2, extension(16, protocols))))
    assert isinstance(found, EncryptedExtensions)
    assert found.alpn == "\\x1b[2J"
    hello = u16(0x0303) + bytes(32) + vector(1, b"") + vector(2, u16(0x1301) * 500) + b"\1\0"
    many = MessageParser().parse(message(1, hello))
    assert isinstance(many, ClientHello)
    assert len(many.ciphers) == MAX_LISTED
