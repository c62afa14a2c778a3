"""A throw-away certificate authority and a server certificate signed by it, for one run."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_DAYS = 7
"""Longer than any run that should use a throw-away certificate."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where the three PEM files lie."""

    ca: Path
    certificate: Path
    key: Path


def write_certificates(folder: Path, names: tuple[str, ...]) -> CertificateFiles:
    """Make a CA (its key is never written) and a leaf for `names` (host names or addresses).

    ECDSA P-256: made in well under a millisecond, unlike RSA. Raises OSError.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("promptpath throw-away CA"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=_DAYS))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        )

    ca_key, leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    ca_usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    ca = (
        builder("promptpath throw-away CA", ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(ca_usage, critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    leaf = (
        builder(names[0], leaf_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(authority, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(each) for each in names]), False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_pem = leaf_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    files = CertificateFiles(folder / "ca.pem", folder / "leaf.pem", folder / "leaf-key.pem")
    files.ca.write_bytes(ca.public_bytes(pem))
    files.certificate.write_bytes(leaf.public_bytes(pem))
    descriptor = os.open(files.key, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key_pem)
    return files


def _general(name: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
