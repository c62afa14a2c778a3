from __future__ import annotations

import ssl
from typing import Any

import pytest

from promptpath.model.enums import Stage
from promptpath.probe.certificates import HOST_MISMATCH
from promptpath.probe.tls_certificates import check_name, record_certificates
from promptpath.probe.tls_context import TlsSettings, TlsTarget
from promptpath.probe.tls_observer import HandshakeObserver
from tests.peers.certs import Certificates
from tests.peers.scripted import HOLD, ReadRequest, ScriptedOrigin
from tests.probe.tls_client import Client, run


class Named:
    """Stands for OpenSSL's object after a handshake with a certificate for one name."""

    def __init__(self, name: str | None) -> None:
        self._names = () if name is None else (("DNS", name),)

    def getpeercert(self, binary_form: bool = False) -> Any:
        return None if binary_form else {"subjectAltName": self._names}


def target(host: str, **settings: Any) -> TlsTarget:
    return TlsTarget(host=host, settings=TlsSettings(**settings))


@pytest.mark.parametrize("name", ["b.test", None])
def test_without_sni_a_wrong_name_is_refused_as_openssl_would(name: str | None) -> None:
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        check_name(Named(name), target("a.test", named=False))  # type: ignore[arg-type]
    assert caught.value.verify_code == HOST_MISMATCH
    assert "a.test" in caught.value.verify_message


@pytest.mark.parametrize(
    "settings", [{"named": True}, {"named": False, "insecure": True}], ids=["openssl", "insecure"]
)
def test_the_name_is_left_to_openssl_or_to_nobody(settings: dict[str, bool]) -> None:
    check_name(Named("b.test"), target("a.test", **settings))  # type: ignore[arg-type]


def test_without_any_certificate_nothing_was_checked() -> None:
    client = Client()
    observer = HandshakeObserver(client.recorder, stage=Stage.TLS, prefix="tls.", conn=1)
    aim, clock = target("a.test", insecure=True), client.recorder.clock
    record_certificates(observer, Named(None), aim, clock, done=True)  # type: ignore[arg-type]
    assert client.facts("tls.chain") == []
    assert client.fact("tls.verify")["checked"] is False


def test_a_resumed_insecure_connection_is_judged_by_the_leaf_of_its_session(
    certs: Certificates,
) -> None:
    context = certs.expired.server_context()
    with ScriptedOrigin([ReadRequest(), b"x", HOLD], tls=context) as origin:
        second = Client()

        async def scenario(client: Client) -> None:
            first = await client.connect(origin.port, ca=certs.ca, insecure=True)
            first.write(b"GET / HTTP/1.1\r\n\r\n")
            await first.receive(client.deadline())
            link = await second.connect(
                origin.port, ca=certs.ca, insecure=True, session=first.session
            )
            link.record_certificates()
            link.abort()
            first.abort()

        run(scenario)
    assert second.fact("tls.resumed") == {"offered": True, "accepted": True}
    assert second.fact("tls.verify")["code"] == "cert-expired"
