"""Certificate chains: what they say, and what OpenSSL would say of them.

`cryptography` is imported inside the functions: it costs 63 ms (measured, minimum of 20), which
only a run that is over can afford. The input is what the far side sent.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from promptpath.model.redact import printable
from promptpath.model.rows import Json

if TYPE_CHECKING:
    from cryptography import x509

MAX_NAMES: Final = 100
"""Subject alternative names kept; certificates of shared front ends carry up to 100 (the limit of
public CAs such as Let's Encrypt)."""
MAX_DEPTH: Final = 10
"""Longest path tried (honest ones are two to four certificates long)."""
_TEXT_LIMIT: Final = 300

OK: Final = 0
NOT_YET_VALID: Final = 9
EXPIRED: Final = 10
SELF_SIGNED: Final = 18
SELF_SIGNED_IN_CHAIN: Final = 19
NO_LOCAL_ISSUER: Final = 20
INVALID_CA: Final = 24
INVALID_PURPOSE: Final = 26
HOST_MISMATCH: Final = 62
ADDRESS_MISMATCH: Final = 64
UNREADABLE: Final = -1
"""Not one of OpenSSL's: the leaf is no certificate."""

CODES: Final[dict[int, str]] = {
    2: "cert-unknown-ca",
    NOT_YET_VALID: "cert-not-yet-valid",
    EXPIRED: "cert-expired",
    SELF_SIGNED: "cert-self-signed",
    SELF_SIGNED_IN_CHAIN: "cert-unknown-ca",
    NO_LOCAL_ISSUER: "cert-unknown-ca",
    21: "cert-unknown-ca",
    HOST_MISMATCH: "cert-wrong-host",
    ADDRESS_MISMATCH: "cert-wrong-host",
}
"""X509_V_ERR_* (X509_STORE_CTX_get_error(3)) -> our code; all others are cert-invalid."""

_SERVER_AUTH: Final = "1.3.6.1.5.5.7.3.1"
_ANY_PURPOSE: Final = "2.5.29.37.0"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verification says: OpenSSL's X509_V_ERR number (0 is good) and the reason in words."""

    code: int
    reason: str | None


def certificate_code(verify_code: int) -> str:
    """Our word for OpenSSL's reason, as errors and facts carry it."""
    return CODES.get(verify_code, "cert-invalid")


def verdict_fact(verdict: Verdict | None) -> Json:
    """A verdict as the fact `tls.verify`; None: there was nothing to judge."""
    if verdict is None:
        return {"verified": False, "error": None, "code": None, "checked": False}
    good = verdict.code == OK
    reason = None if verdict.reason is None else printable(verdict.reason[:_TEXT_LIMIT])
    code = None if good else certificate_code(verdict.code)
    return {"verified": good, "error": reason, "code": code, "checked": True}


def matches_name(name: str, alternatives: Iterable[tuple[str, str]]) -> bool:
    """Whether subject alternative names cover a host; they come as `SSLObject.getpeercert` gives
    them, pairs of "DNS" or "IP Address" and value. One wildcard, as the whole left-most label (RFC
    9525 section 6.3); an address is compared as an address; the common name does not count."""
    address = _address(name)
    if address is not None:
        return any(
            kind == "IP Address" and _address(value) == address for kind, value in alternatives
        )
    wanted = name.lower().rstrip(".")
    _, _, parent = wanted.partition(".")
    for kind, value in alternatives:
        pattern = value.lower().rstrip(".")
        if kind == "DNS" and (pattern == wanted or (parent and pattern == f"*.{parent}")):
            return True
    return False


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.strip())
    except ValueError:
        return None


def describe(chain: Sequence[bytes]) -> list[Json]:
    """One row of the fact `tls.chain` for each DER certificate; what cannot be read has the hash
    and the reason only."""
    return [_describe(der) for der in chain]


def _describe(der: bytes) -> dict[str, Json]:
    row: dict[str, Json] = {"sha256": sha256(der).hexdigest()}
    certificate = load(der)
    if certificate is None:
        return row | {"error": "not a readable X.509 certificate"}
    with warnings.catch_warnings():
        # As in `_load`: a certificate that breaks a rule is described, not complained about.
        warnings.simplefilter("ignore")
        return row | {
            "subject": _text(certificate.subject.rfc4514_string()),
            "issuer": _text(certificate.issuer.rfc4514_string()),
            "names": [_text(value) for _, value in alternatives(certificate)[:MAX_NAMES]],
            "not_before_unix_s": int(certificate.not_valid_before_utc.timestamp()),
            "not_after_unix_s": int(certificate.not_valid_after_utc.timestamp()),
            "serial": f"{certificate.serial_number:x}",
            "key": _key(certificate),
            "signature": _signature(certificate),
        }


def judge(chain: Sequence[bytes], roots: Sequence[bytes], name: str, now_unix_s: int) -> Verdict:
    """What OpenSSL says of a server's chain, reasons in its order: path, authority and purpose,
    name, dates (X509_verify_cert(3)). Revocation is not asked about, there as here."""
    leaf = load(chain[0])
    if leaf is None:
        return Verdict(UNREADABLE, "the leaf is not a readable X.509 certificate")
    others = [item for item in map(load, chain[1:]) if item is not None]
    trusted = [item for item in map(load, roots) if item is not None]
    path, verdict = _build_path(leaf, others, trusted)
    if verdict.code != OK:
        return verdict
    if any(not _may_sign(issuer) for issuer in path[1:]):
        return Verdict(INVALID_CA, "invalid CA certificate")
    if not serves(leaf):
        return Verdict(INVALID_PURPOSE, "unsuitable certificate purpose")
    if not matches_name(name, alternatives(leaf)):
        if _address(name) is not None:
            return Verdict(ADDRESS_MISMATCH, f"IP address mismatch: not valid for {name}")
        return Verdict(HOST_MISMATCH, f"hostname mismatch: not valid for {name}")
    return _judge_dates(path, now_unix_s)


def _build_path(
    leaf: x509.Certificate, others: list[x509.Certificate], trusted: list[x509.Certificate]
) -> tuple[list[x509.Certificate], Verdict]:
    """From the leaf up to a trusted self-signed certificate."""
    path = [leaf]
    while len(path) <= MAX_DEPTH:
        top = path[-1]
        if _self_signed(top):
            if top in trusted:
                return path, Verdict(OK, None)
            if len(path) == 1:
                return path, Verdict(SELF_SIGNED, "self-signed certificate")
            reason = "self-signed certificate in certificate chain"
            return path, Verdict(SELF_SIGNED_IN_CHAIN, reason)
        above = _issuer(top, trusted) or _issuer(top, [c for c in others if c not in path])
        if above is None:
            break
        path.append(above)
    return path, Verdict(NO_LOCAL_ISSUER, "unable to get local issuer certificate")


def _issuer(
    certificate: x509.Certificate, candidates: Iterable[x509.Certificate]
) -> x509.Certificate | None:
    for candidate in candidates:
        if candidate.subject == certificate.issuer and _signed_by(certificate, candidate):
            return candidate
    return None


def _self_signed(certificate: x509.Certificate) -> bool:
    return certificate.subject == certificate.issuer and _signed_by(certificate, certificate)


def _signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _judge_dates(path: Sequence[x509.Certificate], now_unix_s: int) -> Verdict:
    """From the root down, as OpenSSL goes."""
    for certificate in reversed(path):
        subject = "" if certificate is path[0] else f" ({certificate.subject.rfc4514_string()})"
        if now_unix_s < certificate.not_valid_before_utc.timestamp():
            return Verdict(NOT_YET_VALID, f"certificate is not yet valid{subject}")
        if now_unix_s > certificate.not_valid_after_utc.timestamp():
            return Verdict(EXPIRED, f"certificate has expired{subject}")
    return Verdict(OK, None)


def _may_sign(certificate: x509.Certificate) -> bool:
    """Whether basic constraints make it an authority (RFC 5280 section 4.2.1.9); a version 1 root
    has none and is trusted for being in the store."""
    from cryptography import x509

    constraints = _extension(certificate, x509.BasicConstraints)
    if constraints is None:
        return certificate.version is x509.Version.v1
    return bool(constraints.ca)


def serves(certificate: x509.Certificate) -> bool:
    """Whether the leaf may serve TLS; without extended key usage it may (RFC 5280 4.2.1.12)."""
    from cryptography import x509

    usage = _extension(certificate, x509.ExtendedKeyUsage)
    if usage is None:
        return True
    return any(item.dotted_string in (_SERVER_AUTH, _ANY_PURPOSE) for item in usage)


def _extension(certificate: x509.Certificate, kind: type[Any]) -> Any:
    """The extension's value; None when absent or unreadable."""
    from cryptography import x509

    unreadable = (
        ValueError,
        TypeError,
        x509.ExtensionNotFound,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    )
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except unreadable:
        return None


def alternatives(certificate: x509.Certificate) -> list[tuple[str, str]]:
    """Its subject alternative names, as `matches_name` takes them."""
    from cryptography import x509

    names = _extension(certificate, x509.SubjectAlternativeName)
    if names is None:
        return []
    hosts = [("DNS", value) for value in names.get_values_for_type(x509.DNSName)]
    addresses = names.get_values_for_type(x509.IPAddress)
    return hosts + [("IP Address", str(value)) for value in addresses]


def _key(certificate: x509.Certificate) -> str | None:
    """Kind and size of the public key, for example "EC secp256r1" or "RSA 2048"."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return None
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.strip("_").removesuffix("PublicKey")


def _signature(certificate: x509.Certificate) -> str:
    """The issuer's signature algorithm, for example "ecdsa-with-sha256", or its OID."""
    from cryptography.x509.oid import SignatureAlgorithmOID

    wanted = certificate.signature_algorithm_oid
    for name, oid in vars(SignatureAlgorithmOID).items():
        if oid == wanted:
            return name.lower().replace("_", "-")
    return wanted.dotted_string


def load(der: bytes) -> x509.Certificate | None:
    """The certificate, or None for bytes that are none."""
    from cryptography import x509

    with warnings.catch_warnings():
        # Some roots in use break a rule or other (serial number 0); that is no news of ours.
        warnings.simplefilter("ignore")
        try:
            certificate = x509.load_der_x509_certificate(der)
            # These are parsed when first asked for; asked for here, they cannot fail later.
            _ = (certificate.subject, certificate.issuer, certificate.serial_number)
            _ = (certificate.not_valid_before_utc, certificate.not_valid_after_utc)
        except (ValueError, TypeError, x509.InvalidVersion):
            return None
    return certificate


def _text(value: object) -> str:
    return printable(str(value)[:_TEXT_LIMIT])
