from __future__ import annotations

import os
import ssl
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from promptpath.model.enums import Layer, Outcome, Stage
from promptpath.model.stamp import Stamp
from promptpath.probe.link import Chunk, Closed, Link, Sent
from promptpath.probe.tls import TlsLink, record_certificates_of
from tests.peers.certs import Certificates
from tests.peers.proxies import ForwardProxy
from tests.peers.scripted import CUT, FIN, HOLD, RST, ReadBytes, ReadRequest, ScriptedOrigin
from tests.peers.threaded import Connection
from tests.peers.tls_server import RETRY_GROUP, TLS12_ONLY, openssl_server
from tests.probe.tls_client import Client, run

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"
GOOD = {"verified": True, "error": None, "code": None, "checked": True}
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


class Crumbs:
    """A link that hands everything over byte by byte, each byte with the stamp of its chunk."""

    def __init__(self, link: Link) -> None:
        self.conn = link.conn
        self._link = link

    async def receive(self, deadline_ns: int | None = None) -> list[Chunk | Closed]:
        items: list[Chunk | Closed] = []
        for item in await self._link.receive(deadline_ns):
            if isinstance(item, Closed):
                items.append(item)
            else:
                items += [Chunk(bytes([byte]), item.stamp) for byte in item.data]
        return items

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)


def exchange(
    origin: ScriptedOrigin, certs: Certificates, **options: Any
) -> tuple[tuple[bytes, Closed], Client]:
    """One request and everything that came back."""

    async def scenario(client: Client) -> tuple[bytes, Closed]:
        link = await client.connect(origin.port, ca=certs.ca, **options)
        link.write(REQUEST, "request")
        await link.drain()
        result = await client.read_all(link)
        await link.close()
        return result

    return run(scenario)


def test_a_tls13_handshake_marks_every_message_in_order(certs: Certificates) -> None:
    context = certs.good.server_context(alpn=("h2", "http/1.1"))
    with ScriptedOrigin([ReadRequest(), b"answer", FIN], tls=context) as origin:
        (data, closed), client = exchange(origin, certs)
    assert (data, closed.how) == (b"answer", "close-notify")
    assert client.messages()[:9] == [
        ("sent", "ClientHello"),
        ("received", "ServerHello"),
        ("received", "ChangeCipherSpec"),
        ("received", "EncryptedExtensions"),
        ("received", "Certificate"),
        ("received", "CertificateVerify"),
        ("received", "Finished"),
        ("sent", "ChangeCipherSpec"),
        ("sent", "Finished"),
    ]
    # On loopback the answer may arrive before the sending call returns: compare the intervals.
    assert all(a.lo_ns <= b.hi_ns for a, b in pairwise(client.marks()))
    (span,) = [span for span in client.recorder.log.spans if span.name == "handshake"]
    assert (span.stage, span.outcome, span.conn) == (Stage.TLS, Outcome.OK, 1)
    finished = client.marks()[8]
    assert span.end_ns is not None
    assert span.start_ns <= client.marks()[0].at_ns <= finished.at_ns <= span.end_ns


def test_the_facts_of_a_tls13_handshake(certs: Certificates) -> None:
    context = certs.good.server_context(alpn=("h2", "http/1.1"))
    with ScriptedOrigin([ReadRequest(), b"answer", FIN], tls=context) as origin:
        _, client = exchange(origin, certs, alpn=("h2", "http/1.1"))
    assert client.fact("tls.version") == "TLSv1.3"
    assert client.fact("tls.cipher") == "TLS_AES_256_GCM_SHA384"
    assert client.fact("tls.group") == "x25519"
    assert client.fact("tls.signature") == "ecdsa_secp256r1_sha256"
    assert client.fact("tls.alpn") == "h2"
    assert client.fact("tls.alpn_offered") == ["h2", "http/1.1"]
    assert client.fact("tls.sni") == "localhost"
    assert client.fact("tls.client_certificate_requested") is False
    assert client.fact("tls.verify") == GOOD
    assert client.facts("tls.ticket") == [{"lifetime_s": 7200, "max_early_data_bytes": None}] * 2
    assert client.facts("tls.hello_retry") == []
    assert client.facts("tls.alert") == []


def test_a_tls12_handshake_ends_with_the_servers_finished(certs: Certificates) -> None:
    context = certs.good.server_context(alpn=("http/1.1",), maximum=V12)
    with ScriptedOrigin([ReadRequest(), b"answer", FIN], tls=context) as origin:
        (data, _), client = exchange(origin, certs)
    assert data == b"answer"
    assert client.messages()[:11] == [
        ("sent", "ClientHello"),
        ("received", "ServerHello"),
        ("received", "Certificate"),
        ("received", "ServerKeyExchange"),
        ("received", "ServerHelloDone"),
        ("sent", "ClientKeyExchange"),
        ("sent", "ChangeCipherSpec"),
        ("sent", "Finished"),
        ("received", "NewSessionTicket"),
        ("received", "ChangeCipherSpec"),
        ("received", "Finished"),
    ]
    assert client.fact("tls.version") == "TLSv1.2"
    assert client.fact("tls.cipher") == "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    assert client.fact("tls.group") == "x25519"
    assert client.fact("tls.alpn") == "http/1.1"


def test_flights_carry_the_kernels_send_stamps(certs: Certificates) -> None:
    with ScriptedOrigin([ReadRequest(), b"answer", FIN], tls=certs.good.server_context()) as origin:
        _, client = exchange(origin, certs)
    if not client.recorder.clock.support.tx_stamps:
        pytest.skip("the kernel stamps no sent bytes here")
    wire = {mark.detail["message"]: mark for mark in client.marks("flight-wire")}
    acked = {mark.detail["message"]: mark for mark in client.marks("flight-acked")}
    for message in ("ClientHello", "Finished"):
        assert wire[message].at_ns <= acked[message].at_ns
    hello = client.marks()[1]
    assert wire["ClientHello"].at_ns <= hello.hi_ns


def test_records_tile_the_stream_and_give_plaintext_their_stamps(certs: Certificates) -> None:
    with ScriptedOrigin(
        [ReadRequest(), b"one", b"x" * 40_000, FIN], tls=certs.good.server_context()
    ) as origin:
        received: list[Chunk] = []

        async def scenario(client: Client) -> None:
            link = await client.connect(origin.port, ca=certs.ca)
            link.write(REQUEST)
            ended = False
            while not ended:
                items = await link.receive(client.deadline())
                received.extend(item for item in items if isinstance(item, Chunk))
                ended = isinstance(items[-1], Closed)
            await link.close()

        _, client = run(scenario)
    log = client.recorder.log
    records = [row for row in log.arrivals if row.layer is Layer.TLS_RECORD]
    assert [b.offset for b in records[1:]] == [a.offset + a.size for a in records[:-1]]
    segments = [row for row in log.arrivals if row.layer is Layer.SEGMENT_READ]
    assert sum(row.size for row in records) == sum(row.size for row in segments)
    assert b"".join(chunk.data for chunk in received) == b"one" + b"x" * 40_000
    assert max(len(chunk.data) for chunk in received) <= 1 << 14
    stamps = {row.stamp for row in records}
    assert {chunk.stamp for chunk in received} <= stamps
    assert stamps <= {row.stamp for row in segments}
    assert all(a.lo_ns <= b.hi_ns for a, b in pairwise(records))


def test_nothing_depends_on_how_the_bytes_are_cut(certs: Certificates) -> None:
    with ScriptedOrigin(
        [ReadRequest(), b"answer" * 1000, FIN], tls=certs.good.server_context()
    ) as origin:

        async def scenario(client: Client) -> tuple[bytes, Closed]:
            link = await client.shake(Crumbs(await client.dial(origin.port)), ca=certs.ca)
            link.write(REQUEST)
            result = await client.read_all(link)
            await link.close()
            return result

        (data, closed), client = run(scenario)
    assert (data, closed.how) == (b"answer" * 1000, "close-notify")
    assert client.fact("tls.version") == "TLSv1.3"


@pytest.mark.parametrize(
    ("end", "how"), [(FIN, "close-notify"), (CUT, "fin"), (RST, "rst")], ids=lambda x: str(x)
)
@pytest.mark.parametrize("version", [V12, V13])
def test_the_ways_to_end_are_told_apart(
    certs: Certificates, end: Any, how: str, version: ssl.TLSVersion
) -> None:
    context = certs.good.server_context(maximum=version)
    with ScriptedOrigin([ReadRequest(), b"answer", end], tls=context) as origin:
        (data, closed), _ = exchange(origin, certs)
    assert closed.how == how
    assert data == (b"answer" if end is not RST else data)


def test_after_the_end_only_the_end_comes_again(certs: Certificates) -> None:
    with ScriptedOrigin([ReadRequest(), FIN], tls=certs.good.server_context()) as origin:

        async def scenario(client: Client) -> list[list[Chunk | Closed]]:
            link = await client.connect(origin.port, ca=certs.ca)
            link.write(REQUEST)
            await client.read_all(link)
            again = [await link.receive(client.deadline()) for _ in range(2)]
            await link.close()
            return again

        again, _ = run(scenario)
    assert [[type(item) for item in items] for items in again] == [[Closed], [Closed]]


def test_a_cut_inside_a_record_says_so(certs: Certificates) -> None:
    def script(connection: Connection) -> None:
        connection.start_tls(certs.good.server_context())
        connection.read_request()
        tls = connection.sock
        assert isinstance(tls, ssl.SSLSocket)
        # Half a record, past the TLS engine.
        os.write(tls.fileno(), b"\x17\x03\x03\x00\x40" + bytes(10))
        connection.finish(close_notify=False)
        connection.wait_closed()

    with ScriptedOrigin(script) as origin:
        (_, closed), _ = exchange(origin, certs)
    assert (closed.how, closed.detail) == ("fin", "inside a record")


def test_a_forged_record_is_an_error_with_its_reason(certs: Certificates) -> None:
    def script(connection: Connection) -> None:
        connection.start_tls(certs.good.server_context())
        connection.read_request()
        os.write(connection.sock.fileno(), b"\x17\x03\x03\x00\x40" + bytes(64))
        connection.wait_closed()

    with ScriptedOrigin(script) as origin:
        (data, closed), client = exchange(origin, certs)
    assert (data, closed.how) == (b"", "error")
    assert "bad record mac" in closed.detail
    (alert,) = client.facts("tls.alert")
    assert alert == {"direction": "sent", "level": "fatal", "description": "bad_record_mac"}


def test_clear_text_in_the_middle_is_an_error(certs: Certificates) -> None:
    def script(connection: Connection) -> None:
        connection.start_tls(certs.good.server_context())
        connection.read_request()
        os.write(connection.sock.fileno(), b"HTTP/1.1 200 OK\r\n\r\n")
        connection.wait_closed()

    with ScriptedOrigin(script) as origin:
        (_, closed), _ = exchange(origin, certs)
    assert (closed.how, closed.detail) == ("error", "no TLS record (wrong content type)")


def test_a_long_upload_keeps_its_mark_on_the_last_byte(certs: Certificates) -> None:
    body = bytes(range(256)) * 4096
    with ScriptedOrigin(
        [ReadBytes(len(body)), b"done", FIN], tls=certs.good.server_context()
    ) as origin:

        async def scenario(client: Client) -> tuple[Sent, bytes]:
            link = await client.connect(origin.port, ca=certs.ca)
            link.write(body, "body")
            await link.drain()
            data, _ = await client.read_all(link)
            sent = await link.sent_wire("body", client.deadline())
            assert link.info() is None or isinstance(link.info(), dict)
            await link.close()
            return sent, data

        (sent, data), client = run(scenario)
    assert data == b"done"
    assert sent.written is not None
    if client.recorder.clock.support.tx_stamps:
        assert sent.wire is not None
        assert sent.wire.hi_ns >= sent.written.lo_ns


def test_a_deadline_passes_as_timeout(certs: Certificates) -> None:
    with ScriptedOrigin([ReadRequest(), HOLD], tls=certs.good.server_context()) as origin:

        async def scenario(client: Client) -> bool:
            link = await client.connect(origin.port, ca=certs.ca)
            with pytest.raises(TimeoutError):
                await link.receive(client.recorder.clock.deadline(20_000_000))
            link.abort()
            return True

        assert run(scenario)[0]


def test_close_says_close_notify(certs: Certificates) -> None:
    ends: list[bytes] = []

    def script(connection: Connection) -> None:
        connection.start_tls(certs.good.server_context())
        # An SSLSocket gives b"" for close_notify and raises for a bare FIN.
        assert isinstance(connection.sock, ssl.SSLSocket)
        connection.sock.suppress_ragged_eofs = False  # type: ignore[attr-defined]
        ends.append(connection.sock.recv(1))

    with ScriptedOrigin(script) as origin:

        async def scenario(client: Client) -> None:
            link = await client.connect(origin.port, ca=certs.ca)
            await link.close()
            await link.close()

        run(scenario)
    assert ends == [b""]


def test_the_chain_is_recorded_when_asked_for_and_once(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.chained.server_context()) as origin:

        async def scenario(client: Client) -> None:
            link = await client.connect(origin.port, ca=certs.ca)
            assert client.facts("tls.chain") == []
            link.record_certificates()
            link.record_certificates()
            link.abort()

        _, client = run(scenario)
    chain = client.fact("tls.chain")
    assert len(chain) == 2
    assert chain[0]["names"][:2] == ["localhost", "promptpath.test"]
    assert chain[0]["key"] == "EC secp256r1"
    assert chain[0]["issuer"] == chain[1]["subject"]


def test_a_key_log_opens_the_connection(certs: Certificates, tmp_path: Path) -> None:
    log = tmp_path / "keys.log"
    with ScriptedOrigin([ReadRequest(), FIN], tls=certs.good.server_context()) as origin:
        exchange(origin, certs, keylog=log)
    labels = {line.split()[0] for line in log.read_text().splitlines() if line[0] != "#"}
    assert {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"} <= labels
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("sni", "sent"), [("", None), ("promptpath.test", "promptpath.test")])
def test_sni_can_be_left_out_or_changed(certs: Certificates, sni: str, sent: str | None) -> None:
    names: list[str | None] = []
    context = certs.good.server_context()
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    with ScriptedOrigin([ReadRequest(), FIN], tls=context) as origin:
        _, client = exchange(origin, certs, sni=sni)
    assert names == [sent]
    assert client.fact("tls.sni") == sent
    assert client.fact("tls.verify")["verified"] is True


def test_an_address_is_verified_and_no_name_is_sent(certs: Certificates) -> None:
    with ScriptedOrigin([ReadRequest(), FIN], tls=certs.good.server_context()) as origin:
        _, client = exchange(origin, certs, host="127.0.0.1")
    assert client.fact("tls.sni") is None
    assert client.fact("tls.verify")["verified"] is True


def test_a_final_dot_is_no_part_of_the_name(certs: Certificates) -> None:
    with ScriptedOrigin([ReadRequest(), FIN], tls=certs.good.server_context()) as origin:
        _, client = exchange(origin, certs, host="localhost.")
    assert client.fact("tls.sni") == "localhost"


def test_a_request_for_a_client_certificate_is_a_fact(certs: Certificates) -> None:
    for version in (V12, V13):
        context = certs.good.server_context(client_ca=certs.ca, maximum=version)
        context.verify_mode = ssl.CERT_OPTIONAL
        with ScriptedOrigin([ReadRequest(), FIN], tls=context) as origin:
            _, client = exchange(origin, certs)
        assert client.fact("tls.client_certificate_requested") is True


@pytest.mark.peer
def test_hello_retry_is_seen_with_the_group_it_wants(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, RETRY_GROUP) as server:

        async def scenario(client: Client) -> None:
            link = await client.connect(server.port, ca=certs.ca)
            link.write(REQUEST)
            await client.read_all(link)
            await link.close()

        _, client = run(scenario)
    assert client.fact("tls.hello_retry") == {"group": "secp384r1"}
    assert client.fact("tls.group") == "secp384r1"
    messages = client.messages()
    assert messages[:2] == [("sent", "ClientHello"), ("received", "HelloRetryRequest")]
    assert messages.count(("sent", "ClientHello")) == 2
    assert ("received", "ServerHello") in messages


@pytest.mark.peer
def test_openssl_with_tls12_only_is_measured(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, TLS12_ONLY) as server:

        async def scenario(client: Client) -> bytes:
            link = await client.connect(server.port, ca=certs.ca)
            link.write(REQUEST)
            data, _ = await client.read_all(link)
            await link.close()
            return data

        data, client = run(scenario)
    assert data.startswith(b"HTTP/1.0 200")
    assert client.fact("tls.version") == "TLSv1.2"


def test_tls_runs_inside_tls(certs: Certificates) -> None:
    proxy_context = certs.good.server_context()
    with (
        ScriptedOrigin(
            [ReadRequest(), b"inner", FIN], tls=certs.chained.server_context(maximum=V12)
        ) as origin,
        ForwardProxy(tls=proxy_context) as proxy,
    ):

        async def tunnel(client: Client) -> TlsLink:
            outer = await client.connect(
                proxy.port,
                ca=certs.ca,
                alpn=(),
                stage=Stage.PROXY,
                prefix="proxy.tls.",
            )
            authority = f"localhost:{origin.port}".encode()
            outer.write(b"CONNECT %b HTTP/1.1\r\nhost: %b\r\n\r\n" % (authority, authority))
            answer = b""
            while b"\r\n\r\n" not in answer:
                (chunk,) = await outer.receive(client.deadline())
                assert isinstance(chunk, Chunk)
                answer += chunk.data
            assert answer.startswith(b"HTTP/1.1 200")
            return outer

        async def scenario(client: Client) -> tuple[bytes, Closed, Stamp | None]:
            inner = await client.shake(await tunnel(client), ca=certs.ca)
            inner.write(REQUEST, "request")
            await inner.drain()
            sent = await inner.sent_wire("request", client.deadline())
            data, closed = await client.read_all(inner)
            await inner.close()
            record_certificates_of(inner)
            return data, closed, sent.wire or sent.written

        (data, closed, sent_at), client = run(scenario)
    assert (data, closed.how) == (b"inner", "close-notify")
    assert sent_at is not None
    assert client.fact("proxy.tls.version") == "TLSv1.3"
    assert len(client.fact("proxy.tls.chain")) == 1
    assert len(client.fact("tls.chain")) == 2
    assert client.fact("tls.version") == "TLSv1.2"
    spans = {(span.stage, span.name) for span in client.recorder.log.spans}
    assert {(Stage.PROXY, "proxy-tls"), (Stage.TLS, "handshake")} <= spans
    assert ("sent", "ClientHello") in client.messages(Stage.PROXY)


def test_a_link_goes_on_in_another_run(certs: Certificates) -> None:
    with ScriptedOrigin(
        [ReadRequest(), b"first", b"between", ReadRequest(), b"second", FIN],
        tls=certs.good.server_context(),
    ) as origin:
        warm = Client()

        async def scenario(client: Client) -> tuple[bytes, Closed]:
            link = await client.connect(origin.port, ca=certs.ca)
            link.write(REQUEST)
            got = b""
            while not got.startswith(b"first"):
                for chunk in await link.receive(client.deadline()):
                    assert isinstance(chunk, Chunk)
                    got += chunk.data
            # What the server says on top may come before the run changes, or after.
            warm.recorder = type(warm.recorder)(client.recorder.clock.restarted())
            link.rebind(warm.recorder)
            link.write(REQUEST)
            data, closed = await warm.read_all(link)
            await link.close()
            return got + data, closed

        (data, closed), client = run(scenario)
    assert (data, closed.how) == (b"firstbetweensecond", "close-notify")
    rows = warm.recorder.log.arrivals
    assert {row.layer for row in rows} == {Layer.SEGMENT_READ, Layer.TLS_RECORD}
    assert not warm.facts("tls.version")
    assert client.fact("tls.version") == "TLSv1.3"


def test_what_is_at_hand_when_the_run_changes_keeps_its_instant(certs: Certificates) -> None:
    with ScriptedOrigin([b"early", ReadRequest(), FIN], tls=certs.good.server_context()) as origin:
        warm = Client()

        async def scenario(client: Client) -> tuple[list[Chunk], list[Chunk]]:
            link = await client.connect(origin.port, ca=certs.ca)
            before = await link.receive(client.deadline())
            assert isinstance(before[0], Chunk)
            # Put it back, as if nobody had asked for it yet.
            link._ready = list(before)
            warm.recorder = type(warm.recorder)(client.recorder.clock.restarted())
            link.rebind(warm.recorder)
            after = await link.receive(warm.deadline())
            assert isinstance(after[0], Chunk)
            link.abort()
            return [before[0]], [after[0]]

        ((before,), (after,)), client = run(scenario)
    t0, warm_t0 = (c.recorder.clock.t0_monotonic_ns for c in (client, warm))
    assert after.data == before.data == b"early"
    assert t0 + before.stamp.at_ns == warm_t0 + after.stamp.at_ns
    assert after.stamp.at_ns <= 0
