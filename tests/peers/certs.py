"""Throw-away certificates: a CA, and one leaf for each way a certificate can be wrong."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1", "promptpath.test", "*.promptpath.test")
"""What the good leaf is valid for."""

_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A server (or client) certificate on disk."""

    chain: Path
    """PEM, the leaf first, then intermediates if any."""
    key: Path
    """PEM, not encrypted."""

    def server_context(
        self,
        *,
        alpn: tuple[str, ...] = (),
        minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
        client_ca: Path | None = None,
    ) -> ssl.SSLContext:
        """A server's TLS context with this leaf; `client_ca` makes it ask for a certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if minimum < ssl.TLSVersion.TLSv1_2:
            # OpenSSL's security level 1 and up refuses SHA-1, which TLS 1.0 and 1.1 need.
            context.set_ciphers("ALL:@SECLEVEL=0")
        context.maximum_version = maximum
        context.minimum_version = minimum
        context.load_cert_chain(self.chain, self.key)
        if alpn:
            context.set_alpn_protocols(list(alpn))
        if client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_ca)
        return context


@dataclass(frozen=True, slots=True)
class Certificates:
    """One CA and its leaves, all as PEM files in one directory."""

    ca: Path
    """Trust this one (`--cacert`)."""
    other_ca: Path
    """A CA that signed nothing here."""
    good: Leaf
    """Valid for a month, for LOOPBACK_NAMES."""
    chained: Leaf
    """Valid, signed by an intermediate that the chain carries."""
    expired: Leaf
    """Ended yesterday."""
    not_yet_valid: Leaf
    """Begins tomorrow."""
    expiring: Leaf
    """Valid, ends in three days."""
    wrong_host: Leaf
    """Valid, for elsewhere.test only."""
    self_signed: Leaf
    """Signed by itself, for LOOPBACK_NAMES."""
    client: Leaf
    """For a client that is asked for one."""


def make_certificates(directory: Path, *, extra_names: tuple[str, ...] = ()) -> Certificates:
    """Make everything in `directory` (tens of milliseconds: the keys are P-256). `extra_names` join
    LOOPBACK_NAMES."""
    now = datetime.datetime.now(datetime.UTC)
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(str(directory / "ca.pem"))
    stranger.cert_pem.write_to_path(str(directory / "other-ca.pem"))

    def leaf(
        name: str,
        *identities: str,
        begins: datetime.datetime = now - _DAY,
        ends: datetime.datetime = now + 30 * _DAY,
        signer: trustme.CA = authority,
    ) -> Leaf:
        made = signer.issue_cert(
            *(identities or LOOPBACK_NAMES + extra_names), not_before=begins, not_after=ends
        )
        chain = directory / f"{name}.pem"
        chain.write_bytes(b"".join(pem.bytes() for pem in made.cert_chain_pems))
        key = directory / f"{name}.key"
        made.private_key_pem.write_to_path(str(key))
        return Leaf(chain, key)

    return Certificates(
        ca=directory / "ca.pem",
        other_ca=directory / "other-ca.pem",
        good=leaf("good"),
        chained=leaf("chained", signer=authority.create_child_ca()),
        expired=leaf("expired", begins=now - 30 * _DAY, ends=now - _DAY),
        not_yet_valid=leaf("not-yet-valid", begins=now + _DAY),
        expiring=leaf("expiring", ends=now + 3 * _DAY),
        wrong_host=leaf("wrong-host", "elsewhere.test"),
        self_signed=_self_signed(directory, now),
        client=leaf("client", "client.promptpath.test"),
    )


def _self_signed(directory: Path, now: datetime.datetime) -> Leaf:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + 30 * _DAY)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    leaf = Leaf(directory / "self-signed.pem", directory / "self-signed.key")
    leaf.chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    leaf.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return leaf
