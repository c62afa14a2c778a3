from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from promptpath.errors import UsageError
from promptpath.probe.tls_context import (
    ObservedTls,
    TlsSettings,
    context_for,
    has_message_hook,
    prepare,
    trusted_roots,
)
from tests.peers.certs import Certificates


def test_this_python_has_the_message_hook() -> None:
    # When this fails on a new Python, everything still works from record headers and the clear
    # messages (tests below force that); say so in docs/commands/trace.md before dropping this test.
    assert has_message_hook()


def test_a_context_is_built_once_and_demands_what_is_right(certs: Certificates) -> None:
    settings = TlsSettings(ca_file=str(certs.ca))
    prepare(settings)
    context = context_for(settings)
    assert context is context_for(TlsSettings(ca_file=str(certs.ca)))
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert issubclass(context.sslobject_class, ObservedTls)


def test_insecure_demands_nothing_and_no_sni_checks_no_name() -> None:
    assert context_for(TlsSettings(insecure=True)).verify_mode is ssl.CERT_NONE
    unnamed = context_for(TlsSettings(named=False))
    assert unnamed.verify_mode is ssl.CERT_REQUIRED
    assert not unnamed.check_hostname


def test_authorities_of_the_users_join_the_systems(certs: Certificates) -> None:
    ours = ssl.PEM_cert_to_DER_cert(certs.ca.read_text())
    system = set(trusted_roots(TlsSettings()))
    assert set(trusted_roots(TlsSettings(ca_file=str(certs.ca)))) == system | {ours}


def test_a_trusted_leaf_counts_though_it_is_no_authority(certs: Certificates) -> None:
    leaf = certs.self_signed.chain
    assert ssl.PEM_cert_to_DER_cert(leaf.read_text()) in trusted_roots(TlsSettings(str(leaf)))


@pytest.mark.parametrize("content", [None, b"", b"not a certificate", b"\xff\x00"])
def test_a_bad_authority_file_is_a_usage_error(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        prepare(TlsSettings(ca_file=str(file)))
    assert str(file) in caught.value.what
    assert caught.value.where == "--cacert"
    assert caught.value.hint


def test_an_authority_file_that_is_a_directory_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        prepare(TlsSettings(ca_file=str(tmp_path)))


@pytest.mark.parametrize("name", ["missing/keys.log", "."])
def test_a_key_log_that_cannot_be_written_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(TlsSettings(keylog_file=str(tmp_path / name)))
    assert caught.value.where == "--keylog"
