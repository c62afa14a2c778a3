from __future__ import annotations

import datetime
import json
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given
from hypothesis import strategies as st

from promptpath.probe.certificates import (
    ADDRESS_MISMATCH,
    EXPIRED,
    HOST_MISMATCH,
    INVALID_CA,
    INVALID_PURPOSE,
    MAX_NAMES,
    NO_LOCAL_ISSUER,
    OK,
    SELF_SIGNED,
    SELF_SIGNED_IN_CHAIN,
    UNREADABLE,
    Verdict,
    describe,
    judge,
    matches_name,
    verdict_fact,
)
from tests.peers.certs import Certificates, Leaf
from tests.peers.require import require

NOW = int(datetime.datetime.now(datetime.UTC).timestamp())
DAY = datetime.timedelta(days=1)


def der_chain(file: Path) -> list[bytes]:
    return [
        certificate.public_bytes(serialization.Encoding.DER)
        for certificate in x509.load_pem_x509_certificates(file.read_bytes())
    ]


def code(leaf: Leaf, certs: Certificates, name: str = "localhost", *, at: int = NOW) -> int:
    return judge(der_chain(leaf.chain), der_chain(certs.ca), name, at).code


def issue(
    *,
    signer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    subject: str = "leaf",
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | None = None,
    extensions: tuple[x509.ExtensionType, ...] = (),
) -> bytes:
    """A certificate made from scratch, signed by itself unless by `signer`."""
    own = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    issuer, signing = (name, own) if signer is None else signer
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(own.public_key())
        .serial_number(0x1234)
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    digest = None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(signing, digest).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("name", "patterns", "matches"),
    [
        ("api.test", ["api.test"], True),
        ("API.Test.", ["api.test"], True),
        ("api.test", ["*.test"], True),
        ("a.api.test", ["*.test"], False),
        ("test", ["*.test"], False),
        ("api.test", ["*"], False),
        ("api.test", ["a*.test"], False),
        ("api.test", ["other.test"], False),
        ("api.test", [], False),
    ],
)
def test_a_name_matches_by_rfc9525(name: str, patterns: list[str], matches: bool) -> None:
    assert matches_name(name, [("DNS", pattern) for pattern in patterns]) is matches


@pytest.mark.parametrize(
    ("name", "kind", "value", "matches"),
    [
        ("127.0.0.1", "IP Address", "127.0.0.1", True),
        ("127.0.0.1", "DNS", "127.0.0.1", False),
        ("::1", "IP Address", "0:0:0:0:0:0:0:1", True),
        ("::1", "IP Address", "::2", False),
        ("127.0.0.1", "IP Address", "nonsense", False),
    ],
)
def test_an_address_matches_as_an_address(name: str, kind: str, value: str, matches: bool) -> None:
    assert matches_name(name, [(kind, value)]) is matches


def test_good_chains_are_verified(certs: Certificates) -> None:
    assert code(certs.good, certs) == OK
    assert code(certs.chained, certs) == OK
    assert code(certs.good, certs, "127.0.0.1") == OK
    assert code(certs.good, certs, "api.promptpath.test") == OK


def test_reasons_come_in_openssls_order(certs: Certificates) -> None:
    # tests/probe/test_tls_failure.py holds each single one against OpenSSL itself.
    assert code(certs.expired, certs) == EXPIRED
    assert code(certs.expired, certs, "elsewhere.test") == HOST_MISMATCH
    assert code(certs.good, certs, "127.0.0.2") == ADDRESS_MISMATCH
    strangers = der_chain(certs.other_ca)
    chain = der_chain(certs.expired.chain)
    assert judge(chain, strangers, "elsewhere.test", NOW).code == NO_LOCAL_ISSUER


def test_a_missing_intermediate_has_no_local_issuer(certs: Certificates) -> None:
    leaf = der_chain(certs.chained.chain)[:1]
    assert judge(leaf, der_chain(certs.ca), "localhost", NOW).code == NO_LOCAL_ISSUER


def test_a_root_that_nobody_trusts_is_told_from_a_lone_leaf(certs: Certificates) -> None:
    chain = der_chain(certs.good.chain) + der_chain(certs.ca)
    strangers = der_chain(certs.other_ca)
    assert judge(chain, strangers, "localhost", NOW).code == SELF_SIGNED_IN_CHAIN
    assert code(certs.self_signed, certs) == SELF_SIGNED


def test_a_self_signed_leaf_that_is_trusted_is_good(certs: Certificates) -> None:
    chain = der_chain(certs.self_signed.chain)
    assert judge(chain, chain, "localhost", NOW).code == OK


def test_a_leaf_may_not_sign_another() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    ca = x509.BasicConstraints(ca=True, path_length=None)
    root = issue(subject="root", key=key, extensions=(ca,))
    middle_key = ec.generate_private_key(ec.SECP256R1())
    middle = issue(signer=(root_name, key), subject="middle", key=middle_key)
    middle_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "middle")])
    leaf = issue(signer=(middle_name, middle_key))
    assert judge([leaf, middle], [root], "leaf", NOW).code == INVALID_CA


def test_a_client_certificate_may_not_serve() -> None:
    names = x509.SubjectAlternativeName([x509.DNSName("a.test")])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    leaf = issue(extensions=(names, usage))
    assert judge([leaf], [leaf], "a.test", NOW).code == INVALID_PURPOSE


def test_a_forged_signature_is_no_issuer(certs: Certificates) -> None:
    (leaf,) = der_chain(certs.good.chain)
    forged = leaf[:-1] + bytes([leaf[-1] ^ 1])
    assert judge([forged], der_chain(certs.ca), "localhost", NOW).code == NO_LOCAL_ISSUER


def test_bytes_that_are_no_certificate_are_unreadable(certs: Certificates) -> None:
    assert judge([b"junk"], der_chain(certs.ca), "localhost", NOW).code == UNREADABLE
    (row,) = describe([b"junk"])
    assert set(row) == {"sha256", "error"}


@pytest.mark.peer
def test_a_description_says_what_openssl_says(certs: Certificates) -> None:
    (row,) = describe(der_chain(certs.good.chain))
    assert row["names"] == ["localhost", "promptpath.test", "*.promptpath.test", "127.0.0.1", "::1"]
    assert row["not_after_unix_s"] > NOW
    assert row["signature"] == "ecdsa-with-sha256"
    printed = subprocess.run(
        [require("openssl"), "x509", "-in", str(certs.good.chain), "-noout", "-serial", "-enddate"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    fields = dict(line.split("=", 1) for line in printed.splitlines())
    assert int(fields["serial"], 16) == int(row["serial"], 16)
    assert ssl.cert_time_to_seconds(fields["notAfter"]) == row["not_after_unix_s"]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (ec.generate_private_key(ec.SECP384R1()), "EC secp384r1"),
        (ed25519.Ed25519PrivateKey.generate(), "Ed25519"),
        (rsa.generate_private_key(public_exponent=65537, key_size=2048), "RSA 2048"),
    ],
    ids=lambda value: value if isinstance(value, str) else "key",
)
def test_keys_are_named(
    key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey, words: str
) -> None:
    (row,) = describe([issue(key=key)])
    assert row["key"] == words


def test_hostile_names_are_cut_and_printable() -> None:
    many = x509.SubjectAlternativeName([x509.DNSName(f"n{i}.test") for i in range(1000)])
    (row,) = describe([issue(subject="\x1b[2Jevil\u202e", extensions=(many,))])
    assert len(row["names"]) == MAX_NAMES
    assert "\x1b" not in row["subject"]
    assert "\u202e" not in row["subject"]


@given(st.data())
def test_a_damaged_certificate_never_raises(data: st.DataObject) -> None:
    der = bytearray(DAMAGED)
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    json.dumps(describe([bytes(der)]))
    judge([bytes(der)], [DAMAGED], "a.test", NOW)
    judge([DAMAGED, bytes(der)], [bytes(der)], "a.test", NOW)


DAMAGED = issue(
    extensions=(
        x509.SubjectAlternativeName([x509.DNSName("a.test")]),
        x509.BasicConstraints(ca=True, path_length=0),
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
    )
)


def test_a_verdict_is_printable() -> None:
    good = {"verified": True, "error": None, "code": None, "checked": True}
    assert verdict_fact(Verdict(OK, None)) == good
    assert verdict_fact(None) == good | {"verified": False, "checked": False}
    assert verdict_fact(Verdict(INVALID_PURPOSE, "no"))["code"] == "cert-invalid"
    assert "\x1b" not in verdict_fact(Verdict(EXPIRED, "\x1b[2J"))["error"]


def test_cryptography_is_not_imported_before_it_is_needed() -> None:
    program = (
        "import sys, promptpath.probe.tls, promptpath.probe.tls_resumption;"
        "sys.exit('cryptography' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_the_authority_of_a_stranger_is_not_ours(certs: Certificates) -> None:
    stranger = trustme.CA()
    leaf = stranger.issue_cert("localhost").cert_chain_pems[0].bytes()
    chain = [ssl.PEM_cert_to_DER_cert(leaf.decode())]
    assert judge(chain, der_chain(certs.ca), "localhost", NOW).code == NO_LOCAL_ISSUER
