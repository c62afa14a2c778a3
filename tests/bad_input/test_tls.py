"""Certificates and TLS peers that are wrong: exit 3 at tls, and what --insecure still records."""

from __future__ import annotations

import ssl
import warnings
from pathlib import Path

import pytest

from tests.bad_input.tool import CHAT, openai_events, trace, trusting
from tests.peers.certs import Certificates
from tests.peers.scripted import HOLD, RST, ReadBytes, ScriptedOrigin, sse_stream
from tests.peers.tls_server import TLS10_ONLY, openssl_server

STREAM = sse_stream(openai_events(3, finish=True))

CERTIFICATES = {
    "expired": ("expired", "cert-expired", "PP304"),
    "not yet valid": ("not_yet_valid", "cert-not-yet-valid", "PP306"),
    "for another host": ("wrong_host", "cert-wrong-host", "PP307"),
    "self-signed": ("self_signed", "cert-self-signed", "PP306"),
}


@pytest.mark.parametrize(("leaf", "code", "rule"), CERTIFICATES.values(), ids=CERTIFICATES.keys())
def test_a_bad_certificate_stops_at_tls_and_is_recorded(
    tmp_path: Path, certs: Certificates, leaf: str, code: str, rule: str
) -> None:
    context = getattr(certs, leaf).server_context()
    with ScriptedOrigin(STREAM, tls=context) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs))
        assert origin.requests == [], "the prompt went to a server nobody trusts"
    result.failed_at("tls", code)
    assert result.advice(rule)
    assert result.stages() == ["dns", "tcp", "tls"]
    assert result.fact("tls.chain"), "the chain that failed is what one wants to see"
    assert result.fact("tls.verify")["verified"] is False


@pytest.mark.parametrize("leaf", ["expired", "not_yet_valid", "wrong_host", "self_signed"])
def test_insecure_goes_on_and_still_records_what_failed(
    tmp_path: Path, certs: Certificates, leaf: str
) -> None:
    context = getattr(certs, leaf).server_context()
    with ScriptedOrigin(STREAM, tls=context) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs), "--insecure")
    assert result.report["end_state"] == "complete"
    assert result.kinds().count("text") == 3
    verify = result.fact("tls.verify")
    assert (verify["verified"], bool(verify["error"])) == (False, True)
    assert result.fact("tls.chain")
    assert result.advice("PP305")


def test_an_unknown_authority_stops_at_tls_and_names_the_way_out(
    tmp_path: Path, certs: Certificates
) -> None:
    with ScriptedOrigin(STREAM, tls=certs.good.server_context()) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, "--cacert", str(certs.other_ca))
    hint = result.failed_at("tls", "cert-unknown-ca")
    assert "--cacert" in hint
    assert "PP306" in result.codes()


def test_an_unknown_authority_is_measured_with_insecure(
    tmp_path: Path, certs: Certificates
) -> None:
    with ScriptedOrigin(STREAM, tls=certs.good.server_context()) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, "--cacert", str(certs.other_ca), "--insecure")
    assert result.report["end_state"] == "complete"
    assert result.fact("tls.verify")["verified"] is False


def test_plain_http_on_a_tls_port_is_recognised(tmp_path: Path) -> None:
    bad = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
    with ScriptedOrigin([ReadBytes(100), bad]) as origin:
        result = trace(tmp_path, f"https://{origin.authority}{CHAT}")
    hint = result.failed_at("tls", "not-tls")
    assert "http://" in hint
    assert "HTTP/1.1 400" in result.out


def test_a_server_that_speaks_something_else_is_quoted_without_its_control_characters(
    tmp_path: Path,
) -> None:
    with ScriptedOrigin([b"SSH-2.0-\x1b]0;owned\x07\x9b2J\r\n"]) as origin:
        result = trace(tmp_path, f"https://{origin.authority}{CHAT}")
    hint = result.failed_at("tls", "not-tls")
    assert "SSH" in hint


def test_tls_on_a_plain_port_is_recognised(tmp_path: Path, certs: Certificates) -> None:
    with ScriptedOrigin(STREAM, tls=certs.good.server_context()) as origin:
        result = trace(tmp_path, f"http://{origin.authority}{CHAT}")
    hint = result.failed_at("wait")
    assert "https://" in hint
    assert result.stages()[:2] == ["dns", "tcp"]


@pytest.mark.peer
def test_a_peer_that_speaks_tls_1_0_only_is_named_so(tmp_path: Path, certs: Certificates) -> None:
    with openssl_server(tmp_path, certs.good, TLS10_ONLY) as server:
        result = trace(tmp_path, server.url.rstrip("/") + CHAT, *trusting(certs))
    hint = result.failed_at("tls", "version")
    assert "TLS 1.2" in hint


def test_a_scripted_tls_1_0_peer_is_named_so_too(tmp_path: Path, certs: Certificates) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context = certs.good.server_context(
            minimum=ssl.TLSVersion.TLSv1, maximum=ssl.TLSVersion.TLSv1
        )
    with ScriptedOrigin([HOLD], tls=context) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs))
    result.failed_at("tls", "version")


@pytest.mark.parametrize("alpn", [("http/1.1",), ()], ids=["http/1.1 only", "no ALPN"])
def test_http2_asked_of_a_server_without_it_is_an_alpn_mismatch(
    tmp_path: Path, certs: Certificates, alpn: tuple[str, ...]
) -> None:
    with ScriptedOrigin(STREAM, tls=certs.good.server_context(alpn=alpn)) as origin:
        url = origin.url(CHAT, host="localhost")
        result = trace(tmp_path, url, *trusting(certs), "--http", "2")
        assert origin.requests == []
    hint = result.failed_at("tls", "alpn-mismatch")
    assert "--http" in hint
    assert result.fact("tls.version")


def test_a_peer_that_resets_in_the_handshake_stops_at_tls(tmp_path: Path) -> None:
    with ScriptedOrigin([ReadBytes(100), RST]) as origin:
        result = trace(tmp_path, f"https://{origin.authority}{CHAT}")
    result.failed_at("tls", "closed")
    assert "reset" in result.out


def test_a_silent_tls_peer_ends_at_the_connect_timeout(tmp_path: Path) -> None:
    with ScriptedOrigin([HOLD]) as origin:
        url = f"https://{origin.authority}{CHAT}"
        result = trace(tmp_path, url, "--connect-timeout", "400ms", limit_s=10)
    result.failed_at("tls", "connect-timeout")
    assert "tls" in result.spans("timed-out")
    assert result.report["latency"]["e2e_ms"] < 2_000


def test_garbage_in_the_middle_of_a_handshake_stops_at_tls(tmp_path: Path) -> None:
    record = b"\x16\x03\x03\x00\x20" + b"\xff" * 32
    with ScriptedOrigin([ReadBytes(100), record, HOLD]) as origin:
        result = trace(tmp_path, f"https://{origin.authority}{CHAT}", limit_s=10)
    result.failed_at("tls")
