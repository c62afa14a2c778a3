"""The throw-away CA."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from reference_server.certificates import write_certificates


def test_the_leaf_is_valid_for_its_names_under_the_strict_rules(tmp_path: Path) -> None:
    files = write_certificates(tmp_path, ("localhost", "127.0.0.1", "::1"))
    ca = x509.load_pem_x509_certificate(files.ca.read_bytes())
    leaf = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    policy = PolicyBuilder().store(Store([ca]))
    policy.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])
    with pytest.raises(x509.verification.VerificationError):
        policy.build_server_verifier(x509.DNSName("elsewhere.test")).verify(leaf, [])
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1"]


def test_only_the_owner_can_read_the_key_and_the_cas_key_is_nowhere(tmp_path: Path) -> None:
    files = write_certificates(tmp_path, ("localhost",))
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    keys = [path for path in tmp_path.iterdir() if b"PRIVATE" in path.read_bytes()]
    assert keys == [files.key]


def test_two_runs_have_different_authorities(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    first, second = (write_certificates(tmp_path / name, ("localhost",)) for name in ("a", "b"))
    assert first.ca.read_bytes() != second.ca.read_bytes()
