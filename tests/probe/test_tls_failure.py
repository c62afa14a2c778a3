from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path
from typing import Any

import pytest

from promptpath.errors import MeasureError, RemoteError
from promptpath.model.enums import Outcome, Stage
from promptpath.probe import tls
from promptpath.probe.certificates import certificate_code
from promptpath.probe.link import Closed
from promptpath.probe.recorder import Recorder
from promptpath.probe.tls_certificates import record_certificates
from promptpath.probe.tls_failure import FailureContext, alert, closed
from promptpath.probe.tls_observer import HandshakeObserver
from promptpath.wire.tls_names import ALERTS
from tests.peers.certs import Certificates
from tests.peers.scripted import CUT, HOLD, RST, ReadBytes, ReadRequest, ScriptedOrigin, Wait
from tests.peers.threaded import Connection
from tests.peers.tls_server import TLS10_ONLY, openssl_server
from tests.probe.tls_client import Client, failing, run

GOOD = {"verified": True, "error": None, "code": None, "checked": True}
V12 = ssl.TLSVersion.TLSv1_2
MS = 1_000_000

CERTIFICATES = [
    ("expired", "cert-expired"),
    ("not_yet_valid", "cert-not-yet-valid"),
    ("self_signed", "cert-self-signed"),
    ("wrong_host", "cert-wrong-host"),
]


def handshake_span(client: Client) -> Any:
    (span,) = [span for span in client.recorder.log.spans if span.name == "handshake"]
    return span


@pytest.mark.parametrize(("leaf", "code"), CERTIFICATES)
def test_each_bad_certificate_has_its_code_and_leaves_its_chain(
    certs: Certificates, leaf: str, code: str
) -> None:
    with ScriptedOrigin([HOLD], tls=getattr(certs, leaf).server_context()) as origin:
        error, client = failing(origin.port, ca=certs.ca)
    assert (error.stage, error.code) == ("tls", code)
    assert error.hint
    (chain,) = client.facts("tls.chain")
    assert chain[0]["sha256"]
    verify = client.fact("tls.verify")
    assert (verify["verified"], verify["checked"], verify["code"]) == (False, True, code)
    assert verify["error"] in error.what
    assert handshake_span(client).outcome is Outcome.FAILED
    assert client.fact("tls.version") == "TLSv1.3"
    (sent,) = client.facts("tls.alert")
    assert (sent["direction"], sent["level"]) == ("sent", "fatal")


def test_reading_the_certificates_is_no_part_of_the_handshake(
    certs: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int | None] = []

    def late(observer: HandshakeObserver, *rest: Any, **options: Any) -> None:
        (span,) = [span for span in client.recorder.log.spans if span.id == observer.span]
        ended.append(span.end_ns)
        record_certificates(observer, *rest, **options)

    monkeypatch.setattr(tls, "record_certificates", late)
    client = Client()

    async def scenario() -> None:
        with pytest.raises(MeasureError):
            await client.connect(origin.port, ca=certs.ca)

    with ScriptedOrigin([HOLD], tls=certs.expired.server_context()) as origin:
        asyncio.run(scenario())
    assert ended == [handshake_span(client).end_ns]
    assert ended[0] is not None


def test_an_unknown_authority_has_its_code(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.good.server_context()) as origin:
        error, _ = failing(origin.port, ca=certs.other_ca)
    assert error.code == "cert-unknown-ca"
    assert "--cacert" in (error.hint or "")


def test_without_sni_the_name_is_still_checked(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.wrong_host.server_context()) as origin:
        error, client = failing(origin.port, ca=certs.ca, sni="")
    assert error.code == "cert-wrong-host"
    assert client.fact("tls.verify")["verified"] is False


@pytest.mark.parametrize(("leaf", "code"), CERTIFICATES)
@pytest.mark.parametrize("version", [V12, ssl.TLSVersion.TLSv1_3])
def test_insecure_goes_on_and_records_what_openssl_would_have_said(
    certs: Certificates, leaf: str, code: str, version: ssl.TLSVersion
) -> None:
    context = getattr(certs, leaf).server_context(maximum=version)
    with ScriptedOrigin([HOLD], tls=context) as origin:
        error, refused = failing(origin.port, ca=certs.ca)

        async def scenario(client: Client) -> None:
            link = await client.connect(origin.port, ca=certs.ca, insecure=True)
            assert client.facts("tls.verify") == []
            link.record_certificates()
            link.abort()

        _, client = run(scenario)
    assert error.code == code
    verify = client.fact("tls.verify")
    assert (verify["verified"], verify["checked"], verify["code"]) == (False, True, code)
    # Ours must begin as OpenSSL's does; it may go on ("not valid for NAME").
    theirs = refused.fact("tls.verify")["error"]
    assert verify["error"].lower()[:12] == theirs.lower()[:12]
    assert client.fact("tls.chain") == refused.fact("tls.chain")


def test_insecure_with_a_good_certificate_says_verified(certs: Certificates) -> None:
    with ScriptedOrigin([HOLD], tls=certs.chained.server_context()) as origin:

        async def scenario(client: Client) -> None:
            link = await client.connect(origin.port, ca=certs.ca, insecure=True)
            link.record_certificates()
            link.abort()

        _, client = run(scenario)
    assert client.fact("tls.verify") == GOOD


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "plain HTTP"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (b"\x1b[2Jhello", "TLS"),
    ],
)
def test_what_is_no_tls_is_quoted_and_named(answer: bytes, word: str) -> None:
    with ScriptedOrigin([ReadBytes(5), answer, HOLD]) as origin:
        error, client = failing(origin.port)
    assert isinstance(error, RemoteError)
    assert error.code == "not-tls"
    assert word in (error.hint or "")
    assert "\x1b" not in error.what
    assert answer.split(b"\r")[0].replace(b"\x1b", b"").decode()[-5:] in error.what
    assert client.fact("tls.alpn_offered") == ["http/1.1"]


@pytest.mark.peer
def test_a_peer_of_tls10_only_is_a_version_failure(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, TLS10_ONLY) as server:
        error, client = failing(server.port, ca=certs.ca)
    assert error.code == "version"
    assert "RFC 8996" in (error.hint or "")
    assert handshake_span(client).outcome is Outcome.FAILED


def test_a_server_hello_of_tls10_is_a_version_failure() -> None:
    body = b"\x03\x01" + bytes(range(32)) + b"\0" + b"\xc0\x13" + b"\0"
    hello = b"\x02" + len(body).to_bytes(3, "big") + body
    record = b"\x16\x03\x01" + len(hello).to_bytes(2, "big") + hello
    with ScriptedOrigin([ReadBytes(5), record, HOLD]) as origin:
        error, client = failing(origin.port)
    assert error.code == "version"
    assert "TLSv1" in error.what
    assert client.fact("tls.version") == "TLSv1"


@pytest.mark.peer
def test_no_protocol_in_common_is_an_alpn_mismatch(certs: Certificates, tmp_path: Path) -> None:
    with openssl_server(tmp_path, certs.good, alpn="h2") as server:
        error, client = failing(server.port, ca=certs.ca, alpn=("http/1.1",))
    assert error.code == "alpn-mismatch"
    (received,) = client.facts("tls.alert")
    assert received == {
        "direction": "received",
        "level": "fatal",
        "description": "no_application_protocol",
    }


def test_no_cipher_in_common_is_a_handshake_failure(certs: Certificates) -> None:
    # An ECDSA certificate, and cipher suites for RSA only.
    context = certs.good.server_context(maximum=V12)
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256")
    with ScriptedOrigin([HOLD], tls=context) as origin:
        error, _ = failing(origin.port, ca=certs.ca)
    assert error.code == "handshake-failure"
    assert "handshake_failure" in error.what
    assert "before any answer" in (error.where or "")


def test_an_unknown_name_is_told_by_its_alert(certs: Certificates) -> None:
    context = certs.good.server_context()
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
    with ScriptedOrigin([HOLD], tls=context) as origin:
        error, _ = failing(origin.port, ca=certs.ca)
    assert error.code == "unrecognized-name"


@pytest.mark.parametrize(("end", "verb"), [(CUT, "closed"), (RST, "reset")])
def test_a_peer_that_leaves_in_the_handshake_is_told(end: Any, verb: str) -> None:
    with ScriptedOrigin([ReadBytes(300), Wait(1), end]) as origin:
        error, client = failing(origin.port)
    assert error.code == "closed"
    assert verb in error.what
    assert handshake_span(client).outcome is Outcome.FAILED


def test_a_silent_peer_is_a_timeout() -> None:
    with ScriptedOrigin([HOLD]) as origin:
        error, client = failing(origin.port, limit_ns=30 * MS)
    assert error.code == "connect-timeout"
    assert "no answer to the ClientHello" in error.what
    assert handshake_span(client).outcome is Outcome.TIMED_OUT


def test_half_a_record_is_a_timeout_of_its_own() -> None:
    with ScriptedOrigin([ReadBytes(5), b"\x16\x03\x03\x10\x00abc", HOLD]) as origin:
        error, _ = failing(origin.port, limit_ns=250 * MS)
    assert error.code == "connect-timeout"
    assert "8 bytes" in error.what


def test_nonsense_in_a_record_breaks_the_protocol() -> None:
    with ScriptedOrigin([ReadBytes(5), b"\x16\x03\x03\x00\x05\x63\x00\x00\x01x", HOLD]) as origin:
        error, _ = failing(origin.port)
    assert error.code == "handshake-protocol"
    assert error.expected


@pytest.mark.parametrize("host", ["a" * 70 + ".test", ".test"])
def test_a_host_that_cannot_be_sent_is_named(certs: Certificates, host: str) -> None:
    with ScriptedOrigin([HOLD]) as origin:
        error, _ = failing(origin.port, host=host)
    assert error.code == "bad-name"


def test_tls12_tells_in_the_handshake_that_it_wants_a_client_certificate(
    certs: Certificates,
) -> None:
    context = certs.good.server_context(client_ca=certs.ca, maximum=V12)
    with ScriptedOrigin([HOLD], tls=context) as origin:
        error, client = failing(origin.port, ca=certs.ca)
    assert error.code == "client-certificate"
    assert client.fact("tls.client_certificate_requested") is True


def test_tls13_tells_afterwards_that_it_wants_a_client_certificate(certs: Certificates) -> None:
    def script(connection: Connection) -> None:
        try:
            connection.start_tls(certs.good.server_context(client_ca=certs.ca))
        except ssl.SSLError:
            connection.finish(close_notify=False)
            connection.wait_closed()

    with ScriptedOrigin(script) as origin:

        async def scenario(client: Client) -> tuple[Closed, MeasureError | None]:
            link = await client.connect(origin.port, ca=certs.ca)
            assert link.failure is None
            _, end = await client.read_all(link)
            failure = link.failure
            link.abort()
            return end, failure

        (end, failure), client = run(scenario)
    assert end.how == "error"
    assert "certificate_required" in end.detail
    assert failure is not None
    assert (failure.stage, failure.code) == ("tls", "client-certificate")
    assert client.facts("tls.alert")[0]["description"] == "certificate_required"


def test_an_orderly_end_is_no_failure(certs: Certificates) -> None:
    context = certs.good.server_context()
    with ScriptedOrigin([ReadRequest(), b"x"], tls=context) as origin:

        async def scenario(client: Client) -> MeasureError | None:
            link = await client.connect(origin.port, ca=certs.ca)
            link.write(b"GET / HTTP/1.1\r\n\r\n")
            await client.read_all(link)
            failure = link.failure
            await link.close()
            return failure

        assert run(scenario)[0] is None


def context_of(client: Client) -> FailureContext:
    recorder: Recorder = client.recorder
    observer = HandshakeObserver(recorder, stage=Stage.PROXY, prefix="proxy.tls.", conn=1)
    return FailureContext(Stage.PROXY, "proxy.test", observer)


def test_every_alert_gives_an_error_with_a_hint_and_the_stage_of_its_leg() -> None:
    for description in ALERTS.values():
        error = alert(context_of(Client()), description)
        assert description in error.what
        assert error.hint
        assert error.stage == "proxy"


def test_the_end_after_a_certificate_request_points_at_it() -> None:
    context = context_of(Client())
    context.observer.client_certificate_requested = True
    assert "client certificate" in (closed(context, "rst", "").hint or "")


def test_the_docs_list_every_code() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "reference" / "tls.md").read_text()
    documented = set(re.findall(r"`([a-z-]+)`", page.split("## Failures")[1].split("## Limits")[0]))
    source = (root / "promptpath" / "probe" / "tls_failure.py").read_text()
    raised = set(re.findall(r'"(closed|connect-timeout|handshake-protocol|not-tls)"', source))
    raised |= {alert(context_of(Client()), name).code for name in ALERTS.values()}
    raised |= {certificate_code(number) for number in range(100)} | {"bad-name", "version"}
    assert documented == raised
