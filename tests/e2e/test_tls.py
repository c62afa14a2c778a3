"""TLS as other peers do it: another group, an older version, client certificates, tickets."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from tests.e2e.reference import Server
from tests.e2e.trip import CHAT, Trip, ask, check_answer, trip
from tests.peers.certs import Certificates
from tests.peers.scripted import HOLD, ReadRequest, ScriptedOrigin, StartTls, Step, response
from tests.peers.tls_server import (
    ASK_CLIENT_CERTIFICATE,
    EARLY_DATA,
    RETRY_GROUP,
    TLS12_ONLY,
    openssl_server,
)

PAGE = ["dns", "tcp", "tls", "request", "wait"]
"""The hops of a response that is no stream."""
HELLO: list[Step] = [ReadRequest(), response(200, b"hello", "text/plain")]


def get(url: str, *options: str, code: int = 0) -> Trip:
    """A plain GET."""
    return trip(url, "--proxy", "none", "-4", "--timeout", "20s", *options, code=code)


def messages(found: Trip, direction: str) -> list[str]:
    """The handshake messages of the first connection, in order."""
    (conn,) = {span["conn"] for span in found.spans("handshake")}
    details = [mark["detail"] for mark in found.marks("message") if mark["conn"] == conn]
    return [detail["message"] for detail in details if detail["direction"] == direction]


@pytest.mark.peer
def test_a_hello_retry_is_a_second_round_trip_and_said(
    tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    with openssl_server(tmp_path, certs.good, RETRY_GROUP) as server:
        found = get(server.url, *trust)
    assert found.stages == PAGE
    assert found.fact("tls.hello_retry") == {"group": "secp384r1"}
    assert found.fact("tls.group") == "secp384r1"
    assert messages(found, "sent").count("ClientHello") == 2
    assert "PP301" in found.codes


@pytest.mark.peer
def test_tls_1_2_is_two_round_trips_and_said(
    tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    with openssl_server(tmp_path, certs.good, TLS12_ONLY) as server:
        found = get(server.url, *trust)
    assert found.stages == PAGE
    assert found.fact("tls.version") == "TLSv1.2"
    assert [name for name in messages(found, "received") if name != "alert"][-1] == "Finished"
    assert "PP302" in found.codes


@pytest.mark.peer
@pytest.mark.parametrize("version", [(), TLS12_ONLY])
def test_a_request_for_a_client_certificate_is_seen(
    version: tuple[str, ...], tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    with openssl_server(tmp_path, certs.good, ASK_CLIENT_CERTIFICATE + version) as server:
        found = get(server.url, *trust)
    assert found.stages == PAGE
    assert found.fact("tls.client_certificate_requested") is True


@pytest.mark.peer
def test_a_ticket_that_offers_early_data_is_seen(
    tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    # This server answers no request: the limit ends the run, and what TLS said is kept.
    with openssl_server(tmp_path, certs.good, EARLY_DATA) as server:
        found = get(server.url, *trust, "--timeout", "1s", code=3)
    assert found.facts("tls.ticket")
    assert all(ticket["max_early_data_bytes"] == 16384 for ticket in found.facts("tls.ticket"))
    assert "PP308" in found.codes


def test_a_session_is_resumed_on_a_second_connection_aside(
    secure: Server, trust: tuple[str, str]
) -> None:
    found = ask(secure.url + CHAT, *trust)
    check_answer(found, "dns", "tcp", "tls", "request")
    assert found.fact("tls.resumed") == {"offered": True, "accepted": True}
    (first,), (second,) = found.spans("handshake"), found.spans("resumption")
    assert second["conn"] != first["conn"] and second["start_ns"] > first["end_ns"]
    end_ms = found.hops[-1]["start_ms"] + found.hops[-1]["duration_ms"]
    assert found.report["latency"]["e2e_ms"] == pytest.approx(end_ms, abs=0.01)


def test_a_server_that_forgot_the_session_refuses_it(
    certs: Certificates, trust: tuple[str, str]
) -> None:
    first, other = certs.good.server_context(), certs.good.server_context()
    scripts: list[list[Step]] = [[StartTls(first), *HELLO], [StartTls(other), HOLD]]
    with ScriptedOrigin(*scripts) as origin:
        found = get(f"https://localhost:{origin.port}/", *trust)
        assert len(origin.connections) == 2
    assert found.stages == PAGE
    assert found.fact("tls.resumed") == {"offered": True, "accepted": False}


def test_a_server_without_tickets_leaves_nothing_to_offer(
    certs: Certificates, trust: tuple[str, str]
) -> None:
    context = certs.good.server_context()
    context.num_tickets = 0
    with ScriptedOrigin(HELLO, tls=context) as origin:
        found = get(origin.url(host="localhost"), *trust)
        assert len(origin.connections) == 1
    assert found.fact("tls.resumed") == {"offered": False, "accepted": False}
    assert not found.facts("tls.ticket")


@pytest.mark.parametrize("maximum", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_keylog_holds_the_secrets_that_the_server_has(
    maximum: ssl.TLSVersion, tmp_path: Path, certs: Certificates, trust: tuple[str, str]
) -> None:
    ours, theirs = tmp_path / "ours.keys", tmp_path / "theirs.keys"
    context = certs.good.server_context(maximum=maximum)
    context.keylog_filename = str(theirs)
    with ScriptedOrigin(HELLO, tls=context) as origin:
        found = get(origin.url(host="localhost"), *trust, "--keylog", str(ours))
    assert found.stages == PAGE
    assert secrets(ours) and secrets(ours) == secrets(theirs)
    assert ours.stat().st_mode & 0o077 == 0
    # Secrets open the connection to a reader: no document may carry them.
    assert not any(line.split()[2] in str(found.trace) for line in secrets(ours))


def secrets(keylog: Path) -> set[str]:
    """The lines of an NSS key log, but comments and what only one side writes."""
    lines = keylog.read_text().splitlines()
    return {line for line in lines if line and line[0] != "#" and "EXPORTER" not in line}


@pytest.mark.parametrize(
    ("option", "seen"),
    [
        ((), "localhost"),
        (("--sni", "api.promptpath.test"), "api.promptpath.test"),
        (("--sni", ""), None),
    ],
)
def test_the_name_sent_is_the_one_asked_for(
    option: tuple[str, ...],
    seen: str | None,
    certs: Certificates,
    trust: tuple[str, str],
) -> None:
    names: list[str | None] = []
    context = certs.good.server_context()
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    with ScriptedOrigin(HELLO, tls=context) as origin:
        found = get(origin.url(host="localhost"), *trust, *option)
    assert found.stages == PAGE
    assert found.fact("tls.sni") == seen == names[0]


def test_insecure_goes_on_and_records_what_failed(certs: Certificates) -> None:
    with ScriptedOrigin(HELLO, tls=certs.expired.server_context()) as origin:
        found = get(origin.url(host="localhost"), "--insecure", "--cacert", str(certs.ca), code=1)
    assert found.stages == PAGE
    assert found.fact("tls.verify")["code"] == "cert-expired"
    assert found.fact("tls.verify")["verified"] is False
